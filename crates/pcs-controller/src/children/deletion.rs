//! Deletes of children, one by one: owner references would have the same effect, later.

use grove_api_types::deletion::is_terminating;
use std::sync::Arc;

use grove_runtime::plan::Step;
use kube::Resource;

use super::ByName;

/// Deletes of all that are not already being deleted.
pub(crate) fn all<K: Resource<DynamicType = ()>>(objects: &ByName<K>) -> impl Iterator<Item = Step> {
    but(objects, |_| false)
}

/// Deletes of those that nothing asks for, unless they are already being deleted.
pub(crate) fn but<K>(objects: &ByName<K>, is_wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = Step>
where
    K: Resource<DynamicType = ()>,
{
    let stays = |object: &Arc<K>| !is_terminating(&**object);
    objects
        .iter()
        .filter(move |(name, object)| !is_wanted(name) && stays(object))
        .map(|(_, object)| Step::delete(object.as_ref()))
}
