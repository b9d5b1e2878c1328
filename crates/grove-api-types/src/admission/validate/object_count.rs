//! Denies a set if its template expands to more than [`MAX_OBJECTS`] objects, to a gang that is too large, or to too many startup
//! dependencies. The schema limits each single `replicas` (`MAX_REPLICAS` in `v1alpha1`); `admission/scale.rs` checks the scale
//! subresources.

use super::{ValidationContext, dependency_count};
use crate::admission::error_collector::{ErrorCollector, ExceededLimit};
use crate::admission::field_path::fingerprint;
use crate::admission::messages::{gang_too_large, too_large};
use crate::admission::{FieldPath, Rule};
use crate::expansion::object_count::{self, MAX_OBJECTS, ObjectCount};

/// If the set is too large, the error about a gang is omitted: it would repeat the same mistake. For the same reason, the error about
/// startup dependencies is omitted if the set or a gang is too large.
pub(super) fn check(context: &ValidationContext<'_>, errors: &mut ErrorCollector) {
    let total = object_count::of_template(context.set);
    if total > MAX_OBJECTS {
        report_set(context, total, errors);
    }
    let size = object_count::base_gang_size(context.template());
    let is_gang_too_large = object_count::is_gang_too_large(size);
    if is_gang_too_large && (total <= MAX_OBJECTS || errors.is_stored()) {
        report_gang(context, size, errors);
    }
    if (total <= MAX_OBJECTS && !is_gang_too_large) || errors.is_stored() {
        dependency_count::check(context, errors);
    }
}

/// Reports the largest number that the size of the gang depends on: the replicas of a clique, or the `minAvailable` of a group.
fn report_gang(context: &ValidationContext<'_>, size: u64, errors: &mut ErrorCollector) {
    let cliques = context.cliques().map(|(path, it)| (path.field("spec").field("replicas"), it.spec.replicas));
    let groups = context.groups().map(|(path, it)| (path.field("minAvailable"), it.min_available()));
    let Some((path, largest)) = groups.chain(cliques).max_by_key(|(_, number)| *number) else { return };
    let excess = ExceededLimit { limit: fingerprint(Rule::GangSize.name()), amount: size };
    errors.exceeds((Rule::GangSize, &path), largest, excess, gang_too_large(size));
}

/// Reports the replicas of the clique or group that alone exceeds the limit, otherwise the replicas of the set.
fn report_set(context: &ValidationContext<'_>, total: u64, errors: &mut ErrorCollector) {
    let largest = ObjectCount::of(context.template()).parts().max_by_key(|(_, objects)| *objects);
    let culprit = largest.filter(|(_, objects)| *objects > MAX_OBJECTS).map(|(name, _)| name);
    let clique = context.cliques().find(|(_, it)| culprit == Some(&it.name) && context.group_of(&it.name).is_none());
    let group = context.groups().find(|(_, it)| culprit == Some(&it.name));
    let (path, replicas) = match (clique, group) {
        (Some((path, clique)), _) => (path.field("spec").field("replicas"), clique.spec.replicas),
        (None, Some((path, group))) => (path.field("replicas"), group.replicas()),
        (None, None) => (FieldPath::new("spec.replicas"), context.set.spec.replicas),
    };
    // The limit is that of the set, independent of the reported field.
    let excess = ExceededLimit { limit: fingerprint(Rule::SetSize.name()), amount: total };
    errors.exceeds((Rule::SetSize, &path), replicas, excess, too_large(total));
}
