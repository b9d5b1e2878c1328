//! The children that could not be created or changed, as entries of `lastErrors` and as condition messages.

use grove_api_types::conditions::available;
use grove_api_types::error_codes;
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::executor::ExecutionResult;
use grove_controller::name_conflict::NameConflicts;
use grove_runtime::api_error::ApiError;
use kube::Resource;

/// A message contains at most this number of further rejections. So a status does not change with each of thousands of rejections.
const MAX_COUNTED: usize = 1000;

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

/// The reason and the message for a condition: the first rejected write with its remedy, otherwise the first name conflict.
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

/// The reason and the message for a condition about the first rejected write, with the number of further ones and the
/// remedy.
pub(crate) fn rejection_message(
    result: &ExecutionResult,
    backed_off: &BackedOffCreates,
) -> Option<(&'static str, String)> {
    let mut rejected = backed_off.failed_writes(result);
    let (verb, target, failure) = rejected.next()?;
    let more = match rejected.count() {
        0 => String::new(),
        more if more > MAX_COUNTED => format!(" (and more than {MAX_COUNTED} more)"),
        more => format!(" (and {more} more)"),
    };
    let remedy = remedy(failure).map(|remedy| format!("; {remedy}")).unwrap_or_default();
    let message = format!("the API server rejected the {verb} of {target}{more}: {}{remedy}", failure.message);
    Some((available::failed(verb), message))
}

fn remedy(failure: &ApiError) -> Option<&'static str> {
    let contains = |text: &str| failure.code == 403 && failure.message.contains(text);
    if contains("exceeded quota") {
        Some("raise the quota or release some of it; Grove then creates the missing objects")
    } else if contains("cannot") && contains("User \"system:serviceaccount:") {
        Some("apply the rules of deploy/base/pcs-controller; Grove then retries")
    } else {
        None
    }
}
