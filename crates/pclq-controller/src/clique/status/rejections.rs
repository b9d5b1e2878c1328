//! The message for rejected writes, with the texts of the API server: quotas, limit ranges, Pod Security, webhooks.

use std::fmt::{self, Display, Formatter};

use grove_controller::events::normalized_message;
use grove_controller::plan::Target;
use grove_runtime::api_error::ApiError;

/// The message contains this many different reasons; it only counts the others.
const MAX_NAMED: usize = 3;

/// Rejected writes with the same reason.
struct RejectionGroup<'a> {
    verb: &'static str,
    kind: &'a str,
    message: &'a str,
    /// The message without the parts that differ from object to object.
    normalized: String,
    count: usize,
}

/// All failed writes in one sentence; each reason appears once, with the number of writes.
pub(super) fn rejection_message<'a>(
    failed_writes: impl Iterator<Item = (&'static str, &'a Target, &'a ApiError)>,
) -> Option<String> {
    let mut groups: Vec<RejectionGroup<'_>> = Vec::new();
    for (verb, target, failure) in failed_writes {
        let (kind, message) = (target.resource.kind.as_str(), without_object_name(&target.name, failure));
        let normalized = normalized_message(message);
        let is_same =
            |group: &&mut RejectionGroup<'_>| (group.verb, group.kind, &group.normalized) == (verb, kind, &normalized);
        match groups.iter_mut().find(is_same) {
            Some(group) => group.count += 1,
            None => groups.push(RejectionGroup { verb, kind, message, normalized, count: 1 }),
        }
    }
    let more = match groups.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        1 => "; and 1 more reason".to_owned(),
        more => format!("; and {more} more reasons"),
    };
    let named: Vec<_> = groups.iter().take(MAX_NAMED).map(ToString::to_string).collect();
    (!named.is_empty()).then(|| format!("the API server rejected {}{more}", named.join("; ")))
}

impl Display for RejectionGroup<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { verb, kind, message, normalized: _, count } = self;
        let plural = if *count == 1 { "" } else { "s" };
        write!(f, "the {verb} of {count} {kind}{plural}: {message}")
    }
}

/// The message of the API server without the name of the object at its beginning.
fn without_object_name<'a>(name: &str, failure: &'a ApiError) -> &'a str {
    let prefixes = ["forbidden", "invalid"].map(|reason| format!("\"{name}\" is {reason}: "));
    let rest = prefixes.iter().find_map(|prefix| failure.message.split_once(prefix.as_str()));
    rest.map_or(failure.message.as_str(), |(_, message)| message)
}
