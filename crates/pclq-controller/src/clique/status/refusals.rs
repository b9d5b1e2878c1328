//! What was refused, in the words of whoever refused it: quotas, limit ranges, Pod Security, webhooks.

use std::fmt::{self, Display, Formatter};

use grove_controller::executor::{ExecutionResult, StepResult};
use grove_runtime::api_error::ApiError;

/// Different reasons that a message names before it only counts.
const NAMED: usize = 3;

/// One reason for refusals, and how often it was given.
struct Reason<'a> {
    verb: &'static str,
    kind: &'a str,
    words: &'a str,
    /// What of the words does not change from one object to the next.
    gist: String,
    times: usize,
}

/// All refusals in one sentence; the same reason is given once, with the number of times.
pub(super) fn told(done: &ExecutionResult) -> Option<String> {
    let mut reasons: Vec<Reason<'_>> = Vec::new();
    for (StepResult { stage: _, verb, target, result: _ }, failure) in done.rejections() {
        let (kind, words) = (target.resource.kind.as_str(), words(&target.name, failure));
        let gist = gist(words);
        match reasons.iter_mut().find(|reason| (reason.verb, reason.kind, &reason.gist) == (verb, kind, &gist)) {
            Some(reason) => reason.times += 1,
            None => reasons.push(Reason { verb, kind, words, gist, times: 1 }),
        }
    }
    let more = match reasons.len().saturating_sub(NAMED) {
        0 => String::new(),
        1 => "; and for 1 more reason".to_owned(),
        more => format!("; and for {more} more reasons"),
    };
    let named: Vec<_> = reasons.iter().take(NAMED).map(ToString::to_string).collect();
    (!named.is_empty()).then(|| format!("the API server refused {}{more}", named.join("; ")))
}

impl Display for Reason<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { verb, kind, words, gist: _, times } = self;
        let plural = if *times == 1 { "" } else { "s" };
        write!(f, "to {verb} {times} {kind}{plural}: {words}")
    }
}

/// The server's sentence; where it begins by naming the object, what it says of it.
fn words<'a>(name: &str, failure: &'a ApiError) -> &'a str {
    let said = ["forbidden", "invalid"].map(|said| format!("\"{name}\" is {said}: "));
    let rest = said.iter().find_map(|said| failure.message.split_once(said.as_str()));
    rest.map_or(failure.message.as_str(), |(_, words)| words)
}

/// The words without those that have digits: names and numbers.
fn gist(words: &str) -> String {
    let is_stable = |word: &&str| !word.contains(|letter: char| letter.is_ascii_digit());
    words.split_whitespace().filter(is_stable).collect::<Vec<_>>().join(" ")
}
