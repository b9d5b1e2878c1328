//! Deletes of children, one request per child. The garbage collector would delete them too, but later.

use std::sync::Arc;

use grove_api_types::deletion::is_terminating;
use grove_controller::plan::Step;
use kube::Resource;

use super::ByName;

/// Deletes of all objects that are not terminating.
pub(crate) fn all<K: Resource<DynamicType = ()>>(objects: &ByName<K>) -> impl Iterator<Item = Step> {
    all_except(objects, |_| false)
}

/// Deletes of all objects that are not terminating and not `desired` by name.
pub(crate) fn all_except<K>(objects: &ByName<K>, is_desired: impl Fn(&str) -> bool) -> impl Iterator<Item = Step>
where
    K: Resource<DynamicType = ()>,
{
    let is_active = |object: &Arc<K>| !is_terminating(&**object);
    objects
        .iter()
        .filter(move |(name, object)| !is_desired(name) && is_active(object))
        .map(|(_, object)| Step::delete(object.as_ref()))
}
