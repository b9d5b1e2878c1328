//! What the reconcilers of this service do with any child: find it by name, make it what it should be, delete it.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::{Resource, ResourceExt};

pub(crate) mod autoscaler;
pub(crate) mod clique;
pub(crate) mod deletion;
pub(crate) mod desired;
pub(crate) mod drift;
mod quantity;
pub(crate) mod refusals;
mod revision;
pub(crate) mod service;

pub(crate) use revision::Revision;

/// Children of one kind, by name.
pub(crate) type ByName<K> = BTreeMap<String, Arc<K>>;

/// The objects by their names, which are one namespace's.
pub(crate) fn by_name<K: Resource>(objects: impl IntoIterator<Item = Arc<K>>) -> ByName<K> {
    objects.into_iter().map(|object| (object.name_any(), object)).collect()
}
