//! The four kinds of an identity, as Grove writes them and as the caches store them: without the token, and of other objects only the metadata.

use grove_api_types::v1alpha1::PodCliqueSet;
use grove_controller::children::decode_fields_of_child;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Deserializer, Serialize};

/// The type of a Secret with a token, which Kubernetes fills in.
pub(super) const TOKEN_TYPE: &str = "kubernetes.io/service-account-token";
/// Annotation of such a Secret: the name of the account.
pub(super) const ACCOUNT_ANNOTATION: &str = "kubernetes.io/service-account.name";
/// Annotation of such a Secret: the UID of the account. Kubernetes adds it, and deletes a Secret with another UID.
pub(super) const ACCOUNT_UID_ANNOTATION: &str = "kubernetes.io/service-account.uid";

/// Defines an object of an identity as Grove writes it and as the cache stores it: the metadata, and the fields of a child.
macro_rules! object {
    ($(#[$doc:meta])* $type:ident inherits $object:ident, $fields:ident { $($(#[$attribute:meta])* $field:ident: $field_type:ty,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Resource)]
        #[resource(inherit = $object)]
        pub(crate) struct $type {
            /// Its metadata.
            pub(crate) metadata: ObjectMeta,
            /// Its fields; those of an object that is no child are the default.
            #[serde(flatten)]
            pub(crate) fields: $fields,
        }

        /// The fields that Grove writes.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub(crate) struct $fields {
            $($(#[$attribute])* #[serde(default)] pub(crate) $field: $field_type,)+
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let (metadata, fields) = decode_fields_of_child::<PodCliqueSet, _, _>(from)?;
                Ok(Self { metadata, fields: fields.unwrap_or_default() })
            }
        }
    };
}

object!(
    /// The account of the waiting pods of a set.
    SlimServiceAccount inherits ServiceAccount,
    ServiceAccountFields { automount_service_account_token: Option<bool>, }
);
object!(
    /// The Role of the accounts that read the pods of a set.
    SlimRole inherits Role,
    RoleFields { rules: Option<Vec<PolicyRule>>, }
);
object!(
    /// The binding of that Role.
    SlimRoleBinding inherits RoleBinding,
    RoleBindingFields { role_ref: RoleRef, subjects: Option<Vec<Subject>>, }
);
object!(
    /// The Secret with the token of the account, without the token.
    SlimTokenSecret inherits Secret,
    TokenSecretFields {
        /// The type, which is immutable.
        #[serde(rename = "type")]
        type_: Option<String>,
    }
);
