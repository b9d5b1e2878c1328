//! The removal of a finalizer.

use json_patch::{Patch, PatchOperation, RemoveOperation, TestOperation, jsonptr::PointerBuf};
use kube::{Resource, ResourceExt};
use serde_json::json;

use super::Step;

impl Step {
    /// Removes this finalizer from the object if it is still at the observed position. The other finalizers stay. `None` if the
    /// object does not have it.
    pub fn remove_finalizer<K: Resource<DynamicType = ()>>(object: &K, finalizer: &str) -> Option<Self> {
        let at = object.finalizers().iter().position(|other| other == finalizer)?;
        let uid = PointerBuf::from_tokens(["metadata", "uid"]);
        let path = PointerBuf::from_tokens(["metadata", "finalizers", &at.to_string()]);
        let change = Patch(vec![
            PatchOperation::Test(TestOperation { path: uid, value: json!(object.uid()) }),
            PatchOperation::Test(TestOperation { path: path.clone(), value: json!(finalizer) }),
            PatchOperation::Remove(RemoveOperation { path }),
        ]);
        Some(Self::json_patch(object, change))
    }
}
