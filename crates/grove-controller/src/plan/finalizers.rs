//! The addition and the removal of a finalizer.

use grove_api_types::deletion::is_terminating;
use json_patch::Patch;
use kube::{Resource, ResourceExt};

use super::Step;
use crate::json_patch::{add, remove, test};

impl Step {
    /// Adds this finalizer to the object if its version is the observed one. `None` if the object has it, or is terminating: then the API
    /// server denies new finalizers.
    pub fn add_finalizer<K: Resource<DynamicType = ()>>(object: &K, finalizer: &str) -> Option<Self> {
        let finalizers = object.finalizers();
        if is_terminating(object) || finalizers.iter().any(|other| other == finalizer) {
            return None;
        }
        let addition = if finalizers.is_empty() {
            add(&["metadata", "finalizers"], vec![finalizer])
        } else {
            add(&["metadata", "finalizers", "-"], finalizer)
        };
        let uid = test(&["metadata", "uid"], object.uid());
        let version = test(&["metadata", "resourceVersion"], object.resource_version());
        Some(Self::json_patch(object, Patch(vec![uid, version, addition])))
    }

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
