//! The bounds of updates.

use serde_json::Value;

use super::ValidationContext;
use crate::admission::error_collector::ErrorCollector;
use crate::admission::messages::{MAX_UNAVAILABLE_INVALID, NOT_POSITIVE, ROLLING_UPDATE_ON_DELETE};
use crate::admission::{FieldPath, Rule};
use crate::rolling_update::is_max_unavailable;
use crate::v1alpha1::RollingUpdate;

const OF_MEMBER: &str =
    "the pods of a scaling group are updated with its replicas; remove it, or set rollingUpdate of the scaling group";

const BELOW_MIN_READY: &str = "must be greater than spec.updateStrategy.rollingUpdate.minReadySeconds";

pub(super) fn check(context: &ValidationContext<'_>, errors: &mut ErrorCollector) {
    let strategy = context.set.spec.update_strategy.as_ref();
    if let Some(bounds) = strategy.and_then(|strategy| strategy.rolling_update.as_ref()) {
        let path = FieldPath::new("spec.updateStrategy").field("rollingUpdate");
        check_effect(context, &path, errors);
        check_max_unavailable(&path, bounds.max_unavailable.as_ref(), errors);
    }
    for (path, clique) in context.cliques() {
        let Some(bounds) = &clique.rolling_update else { continue };
        let path = path.field("rollingUpdate");
        if context.group_of(&clique.name).is_some() {
            errors.forbidden(Rule::RollingUpdate, &path, OF_MEMBER);
        }
        check_bounds(context, (&path, bounds), errors);
    }
    for (path, group) in context.groups() {
        let Some(bounds) = &group.rolling_update else { continue };
        check_bounds(context, (&path.field("rollingUpdate"), bounds), errors);
    }
}

fn check_bounds(
    context: &ValidationContext<'_>,
    (path, bounds): (&FieldPath, &RollingUpdate),
    errors: &mut ErrorCollector,
) {
    check_effect(context, path, errors);
    check_max_unavailable(path, bounds.max_unavailable.as_ref(), errors);
    let deadline = bounds.progress_deadline.as_ref();
    let Some((deadline, value)) = deadline.and_then(|deadline| Some((deadline, deadline.value()?))) else { return };
    let min_ready = context.set.spec.rolling_update().min_ready_seconds.unwrap_or(0);
    if value.is_zero() {
        errors.invalid(Rule::RollingUpdate, &path.field("progressDeadline"), deadline.as_str(), NOT_POSITIVE);
    } else if value.as_secs() <= u64::try_from(min_ready).unwrap_or(0) {
        errors.invalid(Rule::RollingUpdate, &path.field("progressDeadline"), deadline.as_str(), BELOW_MIN_READY);
    }
}

fn check_effect(context: &ValidationContext<'_>, path: &FieldPath, errors: &mut ErrorCollector) {
    if context.set.spec.is_updated_on_delete() {
        errors.forbidden(Rule::RollingUpdate, path, ROLLING_UPDATE_ON_DELETE);
    }
}

fn check_max_unavailable(path: &FieldPath, value: Option<&Value>, errors: &mut ErrorCollector) {
    if let Some(value) = value.filter(|value| !is_max_unavailable(value)) {
        errors.invalid(Rule::RollingUpdate, &path.field("maxUnavailable"), value.clone(), MAX_UNAVAILABLE_INVALID);
    }
}
