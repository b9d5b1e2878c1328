//! Code that the children of sets and of scaling groups share: desired objects, drift, and the messages for rejected writes.

use std::sync::Arc;

use grove_controller::children::ByName;
use kube::{Resource, ResourceExt};

pub(crate) mod clique;
pub(crate) mod desired;
pub(crate) mod drift;
pub(crate) mod rejections;
pub(crate) mod too_large;

/// The objects by name. All are in one namespace.
pub(crate) fn by_name<K: Resource>(objects: impl IntoIterator<Item = Arc<K>>) -> ByName<K> {
    objects.into_iter().map(|object| (object.name_any(), object)).collect()
}
