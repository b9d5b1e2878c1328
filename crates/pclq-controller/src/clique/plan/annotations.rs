//! The report about annotations that cannot be read: an event when the cause changes. The status has the cause as an error.

use grove_api_types::conditions::{available, resource_claims_created};
use grove_api_types::error_codes::ERR_UNREADABLE_ANNOTATION;
use grove_api_types::events;
use grove_controller::plan::{Waiting, WarningEvent};

use crate::clique::observed::Observed;

/// The reasons of a plan that creates no pods because of an annotation.
const REASONS: [&str; 2] = [resource_claims_created::RESOURCE_CLAIMS_INVALID, available::UNREADABLE_ANNOTATION];

/// Which annotations cannot be read, and why; `None` if all can be read.
pub(crate) fn message<'a>(waiting: impl Iterator<Item = &'a Waiting>) -> Option<String> {
    let messages: Vec<_> =
        waiting.filter(|waiting| REASONS.contains(&waiting.reason)).map(|waiting| waiting.message.as_str()).collect();
    (!messages.is_empty()).then(|| format!("no pods are created: {}", messages.join("; ")))
}

/// The warning, unless the status of the clique has the error: then an earlier warning reported it, too.
pub(super) fn warning(observed: &Observed) -> Option<WarningEvent> {
    let waiting: Vec<_> = observed.unreadable_annotations().collect();
    let note = message(waiting.iter())?;
    let mut reported = observed.clique.status.iter().flat_map(|status| &status.last_errors);
    let is_reported = reported.any(|error| error.code == ERR_UNREADABLE_ANNOTATION && error.description == note);
    (!is_reported).then_some(WarningEvent { reason: events::UNREADABLE_ANNOTATION, note })
}
