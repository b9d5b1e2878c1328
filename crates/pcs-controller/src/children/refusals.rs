//! What was refused to an owner, by the API server or because names are taken: for `lastErrors` and conditions.

use grove_api_types::error_codes;
use grove_runtime::executor::{Done, Failure};
use grove_runtime::namesake::Claims;
use grove_runtime::plan::Target;
use grove_runtime::refusals::Standing;
use kube::Resource;

/// Each refusal as the code and the description of an error.
pub(crate) fn errors<Owner>(done: &Done, standing: &Standing, claims: &Claims<'_, Owner>) -> Vec<(String, String)>
where
    Owner: Resource<DynamicType = ()>,
{
    let code = |kind: &str, verb: &str| error_codes::of_write(&Owner::kind(&()), kind, verb).to_owned();
    let refused = all(done, standing).map(|(verb, target, failure)| {
        (code(&target.resource.kind, verb), format!("could not {verb} {target}: {failure}"))
    });
    let taken = claims.refused().map(|(target, message)| (code(&target.resource.kind, "create"), message));
    refused.chain(taken).collect()
}

/// The first refusal in words for a condition, with what can be done about it.
pub(crate) fn first<Owner>(done: &Done, standing: &Standing, claims: &Claims<'_, Owner>) -> Option<String>
where
    Owner: Resource<DynamicType = ()>,
{
    by_server(done, standing).or_else(|| claims.refused().next().map(|(_, message)| message))
}

/// The same of what the API server refused.
pub(crate) fn by_server(done: &Done, standing: &Standing) -> Option<String> {
    let mut refused = all(done, standing);
    let (verb, target, failure) = refused.next()?;
    let more = match refused.count() {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    let words = format!("the API server refused to {verb} {target}{more}: {}", failure.message);
    Some(match remedy(failure) {
        Some(remedy) => format!("{words}; {remedy}"),
        None => words,
    })
}

/// What was refused before and not asked for since, and what was refused now.
fn all<'a>(done: &'a Done, standing: &'a Standing) -> impl Iterator<Item = (&'static str, &'a Target, &'a Failure)> {
    let before = standing.children.iter().map(|(target, failure)| ("create", target, failure));
    before.chain(done.refused().map(|(outcome, failure)| (outcome.verb, &outcome.target, failure)))
}

fn remedy(failure: &Failure) -> Option<&'static str> {
    let says = |words: &str| failure.code == 403 && failure.message.contains(words);
    if says("exceeded quota") {
        Some("raise the quota or free some of it, and what is missing follows by itself")
    } else if says("cannot") && says("User \"system:serviceaccount:") {
        Some("apply the rules of deploy/base/pcs-controller, and what is missing follows by itself")
    } else {
        None
    }
}
