//! The four kinds of an identity: the desired objects, their patches, and the permissions. They have the form of the Go operator.

use std::marker::PhantomData;

use grove_api_types::conditions::available;
use grove_api_types::events;
use grove_api_types::labels::{self, Component, is_grove_label};
use grove_api_types::names::{PodCliqueSetName, PodRoleName};
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_controller::children::{ChildEvents, ChildKind, DesiredChild, OwnerKind};
use grove_controller::merge_patch::create_merge_patch;
use grove_controller::plan::{Step, Waiting};
use grove_runtime::rbac::{PolicyRule, Verb};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{self as rbac, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

use super::objects::{
    ACCOUNT_ANNOTATION, ACCOUNT_UID_ANNOTATION, RoleBindingFields, RoleFields, ServiceAccountFields, SlimRole,
    SlimRoleBinding, SlimServiceAccount, SlimTokenSecret, TOKEN_TYPE, TokenSecretFields,
};
use super::observed::Identity;
use crate::children::desired::{self, metadata};
use crate::children::drift::{patch, retain_keys};

/// The failure domain of all four: one that cannot be created blocks the later ones, and no other child. So the Role of the set is never bound
/// to the account of another owner, which gets no token either.
const FAILURE_DOMAIN: i32 = -2;

const EVENTS: ChildEvents =
    ChildEvents { created_or_updated: None, create_or_update_failed: events::STARTUP_IDENTITY_FAILED, deleted: None };

/// A kind of owners of identities.
pub(crate) trait IdentityOwner: OwnerKind {
    /// The set, and its identity.
    fn identity<'r, 'a: 'r>(expansion: &'r Self::Expansion<'a>) -> (&'r PodCliqueSet, &'r Identity);
}

/// The desired object, if the set has it.
fn child<'r, K>(
    name: Option<String>,
    build: impl FnOnce(&str) -> K + 'r,
) -> impl Iterator<Item = DesiredChild<'r, impl FnOnce() -> K>> {
    let child = |name: String| {
        let of_build = name.clone();
        DesiredChild::new(name, move || build(&of_build)).in_failure_domain(FAILURE_DOMAIN)
    };
    name.map(child).into_iter()
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

/// Restores Grove's labels, the owner reference and these fields. Labels of others stay.
fn restored<K>(live: &K, mut desired: K, fields: fn(&K) -> Value) -> Option<Step>
where
    K: Resource<DynamicType = ()>,
{
    retain_keys(live.labels(), desired.labels_mut(), |key| !is_grove_label(key));
    let compared = |object: &K| {
        let mut compared = fields(object);
        compared["metadata"]["labels"] = json!(object.labels());
        compared
    };
    let difference = create_merge_patch(&compared(live), &compared(&desired));
    patch(live, &desired, difference)
}

fn manage<K: Resource<DynamicType = ()>>(reason: &'static str) -> Vec<PolicyRule> {
    vec![PolicyRule::for_resource::<K>(&Verb::MANAGE, reason)]
}

/// The `ServiceAccount` of a set.
pub(crate) struct PodServiceAccounts<Owner>(PhantomData<fn() -> Owner>);

impl<Owner> PodServiceAccounts<Owner> {
    /// The row in the table of child kinds.
    pub(crate) const ROW: Self = Self(PhantomData);
}

impl<Owner: IdentityOwner> ChildKind for PodServiceAccounts<Owner> {
    type Owner = Owner;
    type Object = SlimServiceAccount;

    const STAGE: &'static str = "service-accounts";
    const EVENTS: ChildEvents = EVENTS;

    fn rules() -> Vec<PolicyRule> {
        manage::<ServiceAccount>("manage the account of the waiting pods of a set")
    }

    fn desired<'r, 'a: 'r>(
        expansion: &'r Owner::Expansion<'a>,
    ) -> impl Iterator<Item = DesiredChild<'r, impl FnOnce() -> SlimServiceAccount>> {
        let (set, identity) = Owner::identity(expansion);
        child(identity.account(set).map(String::from), move |name| SlimServiceAccount {
            metadata: metadata_of(set, Component::PodServiceAccount, (name, name)),
            fields: ServiceAccountFields { automount_service_account_token: Some(true) },
        })
    }

    fn patch(live: &SlimServiceAccount, desired: SlimServiceAccount) -> Option<Step> {
        restored(live, desired, |account| json!(account.fields))
    }

    fn is_deletable(_live: &SlimServiceAccount, expansion: &Owner::Expansion<'_>) -> bool {
        !Owner::identity(expansion).1.is_in_use
    }
}

/// The Role of a set.
pub(crate) struct PodRoles<Owner>(PhantomData<fn() -> Owner>);

impl<Owner> PodRoles<Owner> {
    /// The row in the table of child kinds.
    pub(crate) const ROW: Self = Self(PhantomData);
}

impl<Owner: IdentityOwner> ChildKind for PodRoles<Owner> {
    type Owner = Owner;
    type Object = SlimRole;

    const STAGE: &'static str = "roles";
    const EVENTS: ChildEvents = EVENTS;

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

    fn desired<'r, 'a: 'r>(
        expansion: &'r Owner::Expansion<'a>,
    ) -> impl Iterator<Item = DesiredChild<'r, impl FnOnce() -> SlimRole>> {
        let (set, _) = Owner::identity(expansion);
        child(Identity::role(set).map(String::from), move |name| SlimRole {
            metadata: metadata_of_role(set, Component::PodRole, name),
            fields: RoleFields { rules: Some(vec![read_pods()]) },
        })
    }

    fn patch(live: &SlimRole, desired: SlimRole) -> Option<Step> {
        restored(live, desired, |role| json!(role.fields))
    }

    fn is_deletable(_live: &SlimRole, expansion: &Owner::Expansion<'_>) -> bool {
        !Owner::identity(expansion).1.is_in_use
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

/// The `RoleBinding` of a set.
pub(crate) struct PodRoleBindings<Owner>(PhantomData<fn() -> Owner>);

impl<Owner> PodRoleBindings<Owner> {
    /// The row in the table of child kinds.
    pub(crate) const ROW: Self = Self(PhantomData);
}

impl<Owner: IdentityOwner> ChildKind for PodRoleBindings<Owner> {
    type Owner = Owner;
    type Object = SlimRoleBinding;

    const STAGE: &'static str = "role-bindings";
    const EVENTS: ChildEvents = EVENTS;

    fn rules() -> Vec<PolicyRule> {
        manage::<RoleBinding>("bind that Role to the account of the waiting pods")
    }

    fn desired<'r, 'a: 'r>(
        expansion: &'r Owner::Expansion<'a>,
    ) -> impl Iterator<Item = DesiredChild<'r, impl FnOnce() -> SlimRoleBinding>> {
        let (set, identity) = Owner::identity(expansion);
        child(Identity::role(set).map(String::from), move |name| SlimRoleBinding {
            metadata: metadata_of_role(set, Component::PodRoleBinding, name),
            fields: RoleBindingFields {
                role_ref: RoleRef {
                    api_group: Some(Role::group(&()).into_owned()),
                    kind: "Role".to_owned(),
                    name: name.to_owned(),
                },
                subjects: Some(identity.readers(set).into_iter().map(|account| subject(set, account)).collect()),
            },
        })
    }

    /// The reference to the Role is immutable.
    fn patch(live: &SlimRoleBinding, desired: SlimRoleBinding) -> Option<Step> {
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

    fn is_deletable(_live: &SlimRoleBinding, expansion: &Owner::Expansion<'_>) -> bool {
        !Owner::identity(expansion).1.is_in_use
    }
}

fn subject(set: &PodCliqueSet, account: String) -> Subject {
    Subject { kind: "ServiceAccount".to_owned(), name: account, namespace: set.namespace(), api_group: None }
}

/// The token belongs to exactly this account: with its UID, Kubernetes fills in no token of another account of the same name.
fn account_pending() -> Waiting {
    Waiting::new(available::STARTUP_TOKEN_PENDING, "the token of waiting pods is created after their ServiceAccount")
}

/// The Secret of a set.
pub(crate) struct TokenSecrets<Owner>(PhantomData<fn() -> Owner>);

impl<Owner> TokenSecrets<Owner> {
    /// The row in the table of child kinds.
    pub(crate) const ROW: Self = Self(PhantomData);
}

impl<Owner: IdentityOwner> ChildKind for TokenSecrets<Owner> {
    type Owner = Owner;
    type Object = SlimTokenSecret;

    const STAGE: &'static str = "secrets";
    const EVENTS: ChildEvents = EVENTS;

    fn rules() -> Vec<PolicyRule> {
        manage::<Secret>(
            "manage the Secret with the token of that account; Kubernetes fills in the token, and RBAC cannot limit the rule to such Secrets",
        )
    }

    fn desired<'r, 'a: 'r>(
        expansion: &'r Owner::Expansion<'a>,
    ) -> impl Iterator<Item = DesiredChild<'r, impl FnOnce() -> SlimTokenSecret>> {
        let (set, identity) = Owner::identity(expansion);
        let secret = child(identity.secret(set).map(String::from), move |name| {
            let mut metadata = metadata_of(set, Component::TokenSecret, (name, name));
            let account = set.name_any();
            let uid = identity.account_uid.as_deref().map(|uid| (ACCOUNT_UID_ANNOTATION, uid));
            let annotations = [(ACCOUNT_ANNOTATION, account.as_str())].into_iter().chain(uid);
            metadata.annotations = Some(labels::of(annotations));
            SlimTokenSecret { metadata, fields: TokenSecretFields { type_: Some(TOKEN_TYPE.to_owned()) } }
        });
        secret.map(|secret| match identity.account_uid {
            Some(_) => secret,
            None => secret.blocked_by(account_pending),
        })
    }

    /// Kubernetes adds annotations. A token of another account, also of an earlier one of the same name, is never used again.
    fn patch(live: &SlimTokenSecret, desired: SlimTokenSecret) -> Option<Step> {
        let annotation = |secret: &SlimTokenSecret, key| secret.annotations().get(key).cloned();
        let uids = annotation(live, ACCOUNT_UID_ANNOTATION).zip(annotation(&desired, ACCOUNT_UID_ANNOTATION));
        let has_other_account = annotation(live, ACCOUNT_ANNOTATION) != annotation(&desired, ACCOUNT_ANNOTATION)
            || uids.is_some_and(|(live, desired)| live != desired);
        if live.fields != desired.fields || has_other_account {
            return Some(Step::delete(live));
        }
        restored(live, desired, |_| json!({}))
    }

    fn is_deletable(_live: &SlimTokenSecret, expansion: &Owner::Expansion<'_>) -> bool {
        !Owner::identity(expansion).1.is_in_use
    }
}
