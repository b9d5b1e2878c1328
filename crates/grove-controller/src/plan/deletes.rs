//! The deletes of objects that are not desired, and of the dependents of terminating and deleted owners.

use std::fmt::{self, Formatter};

use grove_api_types::deletion::awaits_dependents;
use kube::{Resource, ResourceExt};

use super::{Delete, Step, Target};

impl Step {
    /// Deletes the object with the observed UID. Kubernetes' garbage collector deletes its dependents in the background.
    pub fn delete<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        Self::Delete(Delete { target: Target::of(object), resource_version: None, is_foreground: false })
    }

    /// Deletes the object only if its resource version is the observed one. Use it if the reason for the delete is a terminating or
    /// deleted owner: an object that has lost its owner reference in the meantime has another resource version, and stays.
    pub fn delete_with_optimistic_lock<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        let (target, resource_version) = (Target::of(object), object.resource_version());
        Self::Delete(Delete { target, resource_version, is_foreground: false })
    }

    /// Deletes a dependent of a terminating or deleted owner, with an optimistic lock. If the deletion of the owner awaits its
    /// dependents, the deletion of the dependent awaits its own dependents, too: otherwise the dependent, and then the owner,
    /// would be deleted before the pods below them.
    pub fn delete_dependent<O: Resource, K: Resource<DynamicType = ()>>(owner: &O, dependent: &K) -> Self {
        let (target, resource_version) = (Target::of(dependent), dependent.resource_version());
        Self::Delete(Delete { target, resource_version, is_foreground: awaits_dependents(owner) })
    }
}

impl Delete {
    /// Prints the preconditions and the propagation, as far as they are not the default.
    pub(super) fn fmt_options(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(version) = &self.resource_version {
            write!(f, " at version {version}")?;
        }
        if self.is_foreground { write!(f, " in the foreground") } else { Ok(()) }
    }
}
