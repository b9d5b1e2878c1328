//! The end of a set: its direct children are deleted one by one. Owner references would do the same, later.

use std::sync::Arc;

use grove_api_types::ownership::leaves_children;
use grove_runtime::plan::{Plan, Stage, Step};
use kube::Resource;

use crate::set::observed::Observed;

/// Deletes all children that are not already being deleted, unless the set was to leave them.
pub(crate) fn of_children(seen: &Observed) -> Plan {
    if leaves_children(&seen.set) {
        return Plan::new();
    }
    let steps = deletes(&seen.cliques).chain(deletes(&seen.gangs)).chain(deletes(&seen.services));
    Plan::new().stage(Stage::new("children", steps))
}

/// Deletes of those that are not already being deleted.
pub(super) fn deletes<K>(objects: &[Arc<K>]) -> impl Iterator<Item = Step>
where
    K: Resource<DynamicType = ()>,
{
    objects
        .iter()
        .filter(|object| object.meta().deletion_timestamp.is_none())
        .map(|object| Step::delete(object.as_ref()))
}
