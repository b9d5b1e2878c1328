//! The objects of an identity as children of their set: the desired objects, their patches, and the permissions. They have the form of the Go
//! operator.

use std::fmt::Debug;
use std::marker::PhantomData;

use grove_api_types::conditions::available;
use grove_api_types::events;
use grove_api_types::labels::{self, Component};
use grove_api_types::names::{PodCliqueSetName, PodRoleName};
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_controller::children::{ChildEvents, ChildKind, DesiredChild, OwnerKind};
use grove_controller::plan::{Step, Waiting};
use grove_runtime::rbac::{PolicyRule, Verb};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{self as rbac, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::objects::{
    ACCOUNT_ANNOTATION, ACCOUNT_UID_ANNOTATION, RoleBindingFields, RoleFields, ServiceAccountFields, SlimRole,
    SlimRoleBinding, SlimServiceAccount, SlimTokenSecret, TOKEN_TYPE, TokenSecretFields,
};
use super::observed::Identity;
use crate::children::desired::{self, metadata};
use crate::children::drift::restored;

/// The failure domain of all four: one that cannot be created blocks the later ones, and no other child. So the Role of the set is never bound
/// to the account of another owner, which gets no token either.
const FAILURE_DOMAIN: i32 = -2;

/// A kind of owners of identities.
pub(crate) trait IdentityOwner: OwnerKind {
    /// The set, and its identity.
    fn identity<'r, 'a: 'r>(expansion: &'r Self::Expansion<'a>) -> (&'r PodCliqueSet, &'r Identity);
}

/// A kind of objects of an identity. A set has at most one of each.
pub(crate) trait IdentityObject:
    Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug + Send + Sync + 'static
{
    /// The name of the stage that creates and patches it.
    const STAGE: &'static str;

    /// The permissions on the kind.
    fn rules() -> Vec<PolicyRule>;

    /// The name, if the set has the object.
    fn name_of(set: &PodCliqueSet, identity: &Identity) -> Option<String>;

    /// The object of this name.
    fn build(name: &str, set: &PodCliqueSet, identity: &Identity) -> Self;

    /// Why it is not created now.
    fn blocked_by(_identity: &Identity) -> Option<Waiting> {
        None
    }

    /// The step that corrects the live object.
    fn corrected(live: &Self, desired: Self) -> Option<Step>;
}

/// A kind of objects of an identity as children of their set: a row in the table of child kinds.
pub(crate) struct IdentityObjects<Owner, Object>(PhantomData<fn() -> (Owner, Object)>);

impl<Owner, Object> IdentityObjects<Owner, Object> {
    /// The row in the table of child kinds.
    pub(crate) const ROW: Self = Self(PhantomData);
}

impl<Owner: IdentityOwner, Object: IdentityObject> ChildKind for IdentityObjects<Owner, Object> {
    type Owner = Owner;
    type Object = Object;

    const STAGE: &'static str = Object::STAGE;
    const EVENTS: ChildEvents = ChildEvents {
        created_or_updated: None,
        create_or_update_failed: events::STARTUP_IDENTITY_FAILED,
        deleted: None,
    };

    fn rules() -> Vec<PolicyRule> {
        Object::rules()
    }

    fn desired<'r, 'a: 'r>(
        expansion: &'r Owner::Expansion<'a>,
    ) -> impl Iterator<Item = DesiredChild<'r, impl FnOnce() -> Object>> {
        let (set, identity) = Owner::identity(expansion);
        let child = |name: String| {
            let of_build = name.clone();
            let child = DesiredChild::new(name, move || Object::build(&of_build, set, identity))
                .in_failure_domain(FAILURE_DOMAIN);
            match Object::blocked_by(identity) {
                Some(waiting) => child.blocked_by(move || waiting),
                None => child,
            }
        };
        Object::name_of(set, identity).map(child).into_iter()
    }

    fn patch(live: &Object, desired: Object) -> Option<Step> {
        Object::corrected(live, desired)
    }

    fn is_deletable(_live: &Object, expansion: &Owner::Expansion<'_>) -> bool {
        !Owner::identity(expansion).1.is_in_use
    }
}

/// `label` is the name as the value of a label.
fn metadata_of(set: &PodCliqueSet, component: Component, (name, label): (&str, &str)) -> ObjectMeta {
    let own = [(labels::NAME, label)];
    metadata(set, name, desired::labels(&PodCliqueSetName::new(set.name_any()), component, own))
}

/// The same for the Role and the `RoleBinding`.
fn metadata_of_role(set: &PodCliqueSet, component: Component, name: &str) -> ObjectMeta {
    let role = PodRoleName::of_set(&PodCliqueSetName::new(set.name_any()));
    metadata_of(set, component, (name, &role.label_value()))
}

fn manage<K: Resource<DynamicType = ()>>(reason: &'static str) -> Vec<PolicyRule> {
    vec![PolicyRule::for_resource::<K>(&Verb::MANAGE, reason)]
}

impl IdentityObject for SlimServiceAccount {
    const STAGE: &'static str = "service-accounts";

    fn rules() -> Vec<PolicyRule> {
        manage::<ServiceAccount>("manage the account of the waiting pods of a set")
    }

    fn name_of(set: &PodCliqueSet, identity: &Identity) -> Option<String> {
        identity.account(set).map(String::from)
    }

    fn build(name: &str, set: &PodCliqueSet, _identity: &Identity) -> Self {
        Self {
            metadata: metadata_of(set, Component::PodServiceAccount, (name, name)),
            fields: ServiceAccountFields { automount_service_account_token: Some(true) },
        }
    }

    fn corrected(live: &Self, desired: Self) -> Option<Step> {
        restored(live, desired, |account| json!(account.fields))
    }
}

impl IdentityObject for SlimRole {
    const STAGE: &'static str = "roles";

    fn rules() -> Vec<PolicyRule> {
        let mut rules =
            manage::<Role>("manage the Role by which the waiting pods of a set read the pods of their gang");
        // Nobody can grant more than the own permissions.
        let granted = &[Verb::Get, Verb::List, Verb::Watch];
        let mut reads = PolicyRule::for_plural("", "pods", granted, "grant the waiting pods of a set to read pods");
        reads.resources.push("pods/status".to_owned());
        rules.push(reads.implied());
        rules
    }

    fn name_of(set: &PodCliqueSet, _identity: &Identity) -> Option<String> {
        Identity::role(set).map(String::from)
    }

    fn build(name: &str, set: &PodCliqueSet, _identity: &Identity) -> Self {
        Self {
            metadata: metadata_of_role(set, Component::PodRole, name),
            fields: RoleFields { rules: Some(vec![read_pods()]) },
        }
    }

    fn corrected(live: &Self, desired: Self) -> Option<Step> {
        restored(live, desired, |role| json!(role.fields))
    }
}

/// RBAC cannot limit a rule to the pods of a gang.
fn read_pods() -> rbac::PolicyRule {
    let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    rbac::PolicyRule {
        api_groups: Some(list(&[""])),
        resources: Some(list(&["pods", "pods/status"])),
        verbs: list(&["get", "list", "watch"]),
        ..rbac::PolicyRule::default()
    }
}

impl IdentityObject for SlimRoleBinding {
    const STAGE: &'static str = "role-bindings";

    fn rules() -> Vec<PolicyRule> {
        manage::<RoleBinding>("bind that Role to the account of the waiting pods")
    }

    fn name_of(set: &PodCliqueSet, _identity: &Identity) -> Option<String> {
        Identity::role(set).map(String::from)
    }

    fn build(name: &str, set: &PodCliqueSet, identity: &Identity) -> Self {
        Self {
            metadata: metadata_of_role(set, Component::PodRoleBinding, name),
            fields: RoleBindingFields {
                role_ref: RoleRef {
                    api_group: Some(Role::group(&()).into_owned()),
                    kind: "Role".to_owned(),
                    name: name.to_owned(),
                },
                subjects: Some(identity.readers(set).into_iter().map(|account| subject(set, account)).collect()),
            },
        }
    }

    /// The reference to the Role is immutable.
    fn corrected(live: &Self, desired: Self) -> Option<Step> {
        if live.fields.role_ref != desired.fields.role_ref {
            return Some(Step::delete(live));
        }
        restored(live, desired, |binding| {
            // The API server adds the group.
            let mut subjects = binding.fields.subjects.clone().unwrap_or_default();
            for subject in &mut subjects {
                subject.api_group = subject.api_group.take().filter(|group| !group.is_empty());
            }
            json!({ "subjects": subjects })
        })
    }
}

fn subject(set: &PodCliqueSet, account: String) -> Subject {
    Subject { kind: "ServiceAccount".to_owned(), name: account, namespace: set.namespace(), api_group: None }
}

impl IdentityObject for SlimTokenSecret {
    const STAGE: &'static str = "secrets";

    fn rules() -> Vec<PolicyRule> {
        manage::<Secret>(
            "manage the Secret with the token of that account; Kubernetes fills in the token, and RBAC cannot limit the rule to such Secrets",
        )
    }

    fn name_of(set: &PodCliqueSet, identity: &Identity) -> Option<String> {
        identity.secret(set).map(String::from)
    }

    fn build(name: &str, set: &PodCliqueSet, identity: &Identity) -> Self {
        let mut metadata = metadata_of(set, Component::TokenSecret, (name, name));
        let account = set.name_any();
        let uid = identity.account_uid.as_deref().map(|uid| (ACCOUNT_UID_ANNOTATION, uid));
        let annotations = [(ACCOUNT_ANNOTATION, account.as_str())].into_iter().chain(uid);
        metadata.annotations = Some(labels::of(annotations));
        Self { metadata, fields: TokenSecretFields { type_: Some(TOKEN_TYPE.to_owned()) } }
    }

    /// The token belongs to exactly this account: with its UID, Kubernetes fills in no token of another account of the same name.
    fn blocked_by(identity: &Identity) -> Option<Waiting> {
        let message = "the token of waiting pods is created after their ServiceAccount";
        identity.account_uid.is_none().then(|| Waiting::new(available::STARTUP_TOKEN_PENDING, message))
    }

    /// Kubernetes adds annotations. A token of another account, also of an earlier one of the same name, is never used again.
    fn corrected(live: &Self, desired: Self) -> Option<Step> {
        let annotation = |secret: &Self, key| secret.annotations().get(key).cloned();
        let uids = annotation(live, ACCOUNT_UID_ANNOTATION).zip(annotation(&desired, ACCOUNT_UID_ANNOTATION));
        let has_other_account = annotation(live, ACCOUNT_ANNOTATION) != annotation(&desired, ACCOUNT_ANNOTATION)
            || uids.is_some_and(|(live, desired)| live != desired);
        if live.fields != desired.fields || has_other_account {
            return Some(Step::delete(live));
        }
        restored(live, desired, |_| json!({}))
    }
}
