//! What was refused to an owner, by the API server or because names are taken: for `lastErrors` and conditions.

use grove_api_types::error_codes;
use grove_runtime::executor::Done;
use grove_runtime::namesake::Claims;
use kube::Resource;

/// Each refusal as the code and the description of an error.
pub(crate) fn errors<Owner>(done: &Done, claims: &Claims<'_, Owner>) -> Vec<(String, String)>
where
    Owner: Resource<DynamicType = ()>,
{
    let code = |kind: &str, verb: &str| error_codes::of_write(&Owner::kind(&()), kind, verb).to_owned();
    let refused = done.refused().map(|(outcome, failure)| {
        let (verb, target) = (outcome.verb, &outcome.target);
        (code(&target.resource.kind, verb), format!("could not {verb} {target}: {failure}"))
    });
    let taken = claims.refused().map(|(target, message)| (code(&target.resource.kind, "create"), message));
    refused.chain(taken).collect()
}

/// The first refusal in words for a condition.
pub(crate) fn first<Owner>(done: &Done, claims: &Claims<'_, Owner>) -> Option<String>
where
    Owner: Resource<DynamicType = ()>,
{
    let refused = done.failures().next().map(|failure| format!("the API server says: {}", failure.message));
    refused.or_else(|| claims.refused().next().map(|(_, message)| message))
}
