//! What the reconcilers of this service do with any child: find it by name, make it what it should be, delete it.

use std::collections::BTreeMap;
use std::sync::Arc;

use grove_api_types::conditions::available;
use grove_api_types::expansion::object_count::MAX_OBJECTS;
use grove_runtime::plan::Waiting;
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

/// Why nothing is done for a set that implies too much.
pub(crate) fn too_large() -> Waiting {
    let message = format!(
        "there would be more than {MAX_OBJECTS} objects, pods and what is made for them; nothing is created or deleted until \
         replicas of the set, of its scaling groups or of its cliques are fewer"
    );
    Waiting::new(available::TOO_LARGE, message)
}

/// Children of one kind, by name.
pub(crate) type ByName<K> = BTreeMap<String, Arc<K>>;

/// The objects by their names, which are one namespace's.
pub(crate) fn by_name<K: Resource>(objects: impl IntoIterator<Item = Arc<K>>) -> ByName<K> {
    objects.into_iter().map(|object| (object.name_any(), object)).collect()
}
