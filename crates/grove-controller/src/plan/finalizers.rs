//! The removal of a finalizer.

use json_patch::Patch;
use kube::{Resource, ResourceExt};

use super::Step;
use crate::json_patch::{remove, test};

impl Step {
    /// Removes this finalizer from the object if it is still at the observed position. The other finalizers stay. `None` if the
    /// object does not have it.
    pub fn remove_finalizer<K: Resource<DynamicType = ()>>(object: &K, finalizer: &str) -> Option<Self> {
        let at = object.finalizers().iter().position(|other| other == finalizer)?;
        let at = at.to_string();
        let path = ["metadata", "finalizers", &at];
        let change = vec![test(&["metadata", "uid"], object.uid()), test(&path, finalizer), remove(&path)];
        Some(Self::json_patch(object, Patch(change)))
    }
}
