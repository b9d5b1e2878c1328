//! The children that could not be created or changed, as entries of `lastErrors` and as condition messages.

use grove_api_types::error_codes;
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::executor::ExecutionResult;
use grove_controller::name_conflict::NameConflicts;
use grove_controller::rejections::{self, RejectedObjects};
use kube::Resource;

/// The code and the description of each error: rejected writes first, then name conflicts.
pub(crate) fn last_errors<Owner>(
    result: &ExecutionResult,
    backed_off: &BackedOffCreates,
    conflicts: &NameConflicts<'_, Owner>,
) -> Vec<(String, String)>
where
    Owner: Resource<DynamicType = ()>,
{
    let code = |kind: &str| error_codes::for_write(&Owner::kind(&()), kind, "create").to_owned();
    let conflicts = conflicts.unresolved().map(|(target, waiting)| (code(&target.resource.kind), waiting.message));
    backed_off.last_errors::<Owner>(result).chain(conflicts).collect()
}

/// The reason and the message for a condition: the rejected writes with their remedies, otherwise the first name conflict.
pub(crate) fn first_rejection<Owner>(
    result: &ExecutionResult,
    backed_off: &BackedOffCreates,
    conflicts: &NameConflicts<'_, Owner>,
) -> Option<(&'static str, String)>
where
    Owner: Resource<DynamicType = ()>,
{
    rejection_message(result, backed_off)
        .or_else(|| conflicts.unresolved().next().map(|(_, waiting)| (waiting.reason, waiting.message)))
}

/// The reason and the message for a condition about the rejected writes, with their remedies.
pub(crate) fn rejection_message(
    result: &ExecutionResult,
    backed_off: &BackedOffCreates,
) -> Option<(&'static str, String)> {
    rejections::rejection_message(result, backed_off, RejectedObjects::Named)
}
