//! Name conflicts: an object that an owner does not control has the name of a child that the owner wants to create. Pure.
//!
//! The plan omits the create and all later creates of the same replica (`children/step_filter.rs`), and is repeated after
//! [`RETRY_DELAY`]: no watch event of a foreign object triggers the owner. Conflicts are rare. The deletion of a child of an earlier owner
//! of the same name triggers the owner, because triggers name owners and not their UIDs.
//!
//! The conflicts here are those in the caches. The executor finds the others after *already exists*. A pod takes another name
//! instead: see `clique/plan/names.rs` of pclq-controller.

use std::{collections::BTreeMap, time::Duration};

use grove_api_types::{
    conditions::available,
    ownership::{self, controller_of, is_controlled_by, is_of_kind},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt, core::ApiResource};
use serde_json::Value;

use grove_runtime::{
    api_error::ApiError,
    caches::{Cache, UnreadableObject},
};

use crate::{
    group_kind::{group_kind_of, is_of_group_kind},
    plan::{Create, Step, Target, Waiting},
};

/// The time until the next plan of an owner with a conflict.
const RETRY_DELAY: Duration = Duration::from_secs(10);
/// The same if the object is being deleted.
const RETRY_DELAY_OF_TERMINATING: Duration = Duration::from_secs(1);

/// The objects with these names in the cache that `owner` does not control, or that could not be decoded.
pub(crate) fn find<K, Owner>(
    cache: &Cache<K>,
    owner: &Owner,
    names: impl IntoIterator<Item = impl AsRef<str>>,
) -> Vec<NameConflict>
where
    K: Resource<DynamicType = ()>,
    Owner: Resource<DynamicType = ()>,
{
    let namespace = owner.namespace().unwrap_or_default();
    let conflict = |name: &str| {
        if let Some(object) = cache.unreadable(&namespace, name) {
            return Some(NameConflict::with_unreadable::<K>(&object));
        }
        let object = cache.get(&namespace, name).filter(|object| !is_controlled_by(&**object, owner));
        object.map(|object| NameConflict::with(&*object))
    };
    names.into_iter().filter_map(|name| conflict(name.as_ref())).collect()
}

/// An existing object with the name of a desired child that its owner does not control, or that could not be decoded.
#[derive(Clone, Debug, PartialEq)]
pub struct NameConflict {
    /// The object.
    pub target: Target,
    /// Its metadata in the cache.
    pub metadata: ObjectMeta,
    /// Why the object could not be decoded; `None` if it could.
    pub unreadable: Option<String>,
}

impl NameConflict {
    /// The conflict with `object`.
    pub fn with<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        Self { target: Target::of(object), metadata: object.meta().clone(), unreadable: None }
    }

    /// The conflict with an object of kind `K` that could not be decoded.
    pub fn with_unreadable<K: Resource<DynamicType = ()>>(object: &UnreadableObject) -> Self {
        let UnreadableObject { metadata, reason } = object;
        let target = Target {
            resource: ApiResource::erase::<K>(&()),
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone(),
        };
        Self { target, metadata: metadata.clone(), unreadable: Some(reason.clone()) }
    }

    /// Whether an owner of children with `labels` adopts the object: it could be decoded, may be adopted, and has all the labels. An owner
    /// without such labels adopts nothing.
    pub fn is_adoptable(&self, labels: &BTreeMap<String, String>) -> bool {
        let own = self.metadata.labels.as_ref();
        let has = |(key, value): (&String, &String)| own.and_then(|own| own.get(key)) == Some(value);
        let has_labels = !labels.is_empty() && labels.iter().all(has);
        self.unreadable.is_none() && ownership::is_adoptable(&self.metadata) && has_labels
    }
}

/// All name conflicts of one owner.
#[derive(Clone, Debug)]
pub struct NameConflicts<'a, Owner> {
    /// The owner of the desired children.
    pub owner: &'a Owner,
    /// The objects that have names of desired children.
    pub conflicts: &'a [NameConflict],
    /// The labels of the owner's children. An orphan that has them all is adopted; without labels, no orphan is.
    pub labels: &'a BTreeMap<String, String>,
}

impl<Owner: Resource<DynamicType = ()>> NameConflicts<'_, Owner> {
    /// The conflicts that only a user can resolve, each with its reason and a sentence that names the remedy.
    pub fn unresolved(&self) -> impl Iterator<Item = (&Target, Waiting)> {
        let foreign = self.conflicts.iter().filter(|conflict| !conflict.is_adoptable(self.labels));
        let waiting = foreign.map(|conflict| (&conflict.target, self.waiting(conflict)));
        waiting.filter(|(_, waiting)| waiting.reason != available::NAME_TERMINATING)
    }

    /// Why the plan waits for objects of kind `K`, each with its name. An object that is adopted is not among them.
    pub fn waiting_of_kind<K: Resource<DynamicType = ()>>(&self) -> impl Iterator<Item = (&str, Waiting)> {
        let kind = group_kind_of::<K>();
        let of_kind = move |conflict: &&NameConflict| is_of_group_kind(&conflict.target.resource, &kind);
        let foreign = self.conflicts.iter().filter(|conflict| !conflict.is_adoptable(self.labels)).filter(of_kind);
        foreign.map(|conflict| (conflict.target.name.as_str(), self.waiting(conflict)))
    }

    /// When the plan is repeated that waits for the object; `None` if an event triggers it.
    pub(crate) fn retry_delay(&self, conflict: &NameConflict) -> Option<Duration> {
        let is_terminating = conflict.metadata.deletion_timestamp.is_some();
        let delay = if is_terminating { RETRY_DELAY_OF_TERMINATING } else { RETRY_DELAY };
        (!self.names_owner(conflict)).then_some(delay)
    }

    /// Whether the owner or an earlier one of the same name controls the object. Grove or Kubernetes' garbage collector deletes the children
    /// of an earlier owner.
    fn names_owner(&self, conflict: &NameConflict) -> bool {
        let name = self.owner.name_any();
        controller_of(&conflict.metadata).is_some_and(|it| is_of_kind::<Owner>(it) && it.name == name)
    }

    /// Why the plan waits for the object.
    pub(crate) fn waiting(&self, conflict: &NameConflict) -> Waiting {
        let NameConflict { target, metadata, unreadable } = conflict;
        let (kind, name) = (Owner::kind(&()), self.owner.name_any());
        if let Some(reason) = unreadable.as_ref().filter(|_| metadata.deletion_timestamp.is_none()) {
            let message = format!("{target} exists and could not be decoded: {reason}; correct or delete it");
            return Waiting::new(available::UNREADABLE_OBJECT, message);
        }
        if metadata.deletion_timestamp.is_some() || self.names_owner(conflict) {
            return Waiting::new(
                available::NAME_TERMINATING,
                format!("{target} is being deleted; its successor is created then"),
            );
        }
        let message =
            format!("{target} exists and {kind} {name} does not control it; rename or delete it to free the name");
        Waiting::new(ApiError::NAME_CONFLICT, message)
    }

    /// Makes the owner the controller of the orphan, instead of a create.
    pub(crate) fn adopt(&self, conflict: &NameConflict, create: &Create) -> Step {
        let references = create.object.value().pointer("/metadata/ownerReferences").cloned().unwrap_or(Value::Null);
        // The builder of the child serialised them from this type, so they can be read again.
        let references: Vec<OwnerReference> = serde_json::from_value(references).unwrap_or_default();
        Step::adopt(self.owner, conflict.target.clone(), references)
    }
}
