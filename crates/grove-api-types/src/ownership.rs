//! Owner references: the controller reference of Grove's children, the controller of an object, and which objects may be adopted.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;

/// The owner references of a child: one controller reference to `owner`. It blocks the foreground deletion of the owner until the
/// child is deleted. Empty for an owner without a UID.
pub fn controller_owner_reference<K: Resource<DynamicType = ()>>(owner: &K) -> Vec<OwnerReference> {
    let blocking = |reference| OwnerReference { block_owner_deletion: Some(true), ..reference };
    owner.controller_owner_ref(&()).map(blocking).into_iter().collect()
}

/// The controller reference of the child; `None` for an orphan. Kubernetes allows at most one.
pub fn controller_of(child: &ObjectMeta) -> Option<&OwnerReference> {
    child.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Whether the reference names an object of kind `K`. The version may differ, because the API server converts between versions.
pub fn is_of_kind<K: Resource<DynamicType = ()>>(reference: &OwnerReference) -> bool {
    let group = reference.api_version.rsplit_once('/').map_or("", |(group, _)| group);
    reference.kind == K::kind(&()) && group == K::group(&())
}

/// Whether the owner that the labels of the object name may adopt it: the object has no controller and is not terminating.
pub fn is_adoptable(child: &ObjectMeta) -> bool {
    controller_of(child).is_none() && child.deletion_timestamp.is_none()
}

/// Whether `owner` controls the child. The UID decides, so that another object with the name of the owner does not. An owner with a namespace
/// controls objects of this namespace only, although any user can write its UID elsewhere.
pub fn is_controlled_by<K: Resource, Owner: Resource>(child: &K, owner: &Owner) -> bool {
    let (child, owner) = (child.meta(), owner.meta());
    let has_scope = owner.namespace.is_none() || owner.namespace == child.namespace;
    has_scope && controller_of(child).is_some_and(|controller| Some(&controller.uid) == owner.uid.as_ref())
}
