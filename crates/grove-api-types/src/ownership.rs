//! The owner reference of everything that Grove creates, and who controls what.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;

/// The one reference to the object that controls a child. It blocks the owner's deletion in the foreground, so that such
/// a deletion ends only when the child has gone. Empty only for an owner that was never stored.
pub fn controller_owner_reference<K: Resource<DynamicType = ()>>(owner: &K) -> Vec<OwnerReference> {
    let blocking = |reference| OwnerReference { block_owner_deletion: Some(true), ..reference };
    owner.controller_owner_ref(&()).map(blocking).into_iter().collect()
}

/// The reference to the object that controls the child; absent for one that nobody controls. Kubernetes allows one at most.
pub fn controller_of(child: &ObjectMeta) -> Option<&OwnerReference> {
    child.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Whether `owner`, this very object and not a namesake, controls the child.
pub fn is_controlled_by<K: Resource, Owner: Resource>(child: &K, owner: &Owner) -> bool {
    controller_of(child.meta()).is_some_and(|controller| Some(&controller.uid) == owner.meta().uid.as_ref())
}
