//! The pod references of the clique's pod group in its gang.

use grove_api_types::conditions::available;
use grove_api_types::deletion::is_terminating;
use grove_api_types::scheduler_v1alpha1::{NamespacedName, PodGang};
use grove_controller::plan::{Step, Waiting};
use grove_controller::slim_pod::SlimPod;
use json_patch::jsonptr::PointerBuf;
use json_patch::{Patch, PatchOperation, ReplaceOperation, TestOperation};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::clique::observed::{CliqueIdentity, Observed};

/// The patch that sets the pod references to exactly the retained pods. It is first sent when the clique is complete, then
/// whenever the references differ, but once per observed version of the gang.
pub(super) fn update(
    observed: &Observed,
    identity: &CliqueIdentity,
    retained: &[&SlimPod],
) -> Result<Option<Step>, Waiting> {
    let gang = observed.gang.as_deref().filter(|gang| !is_terminating(*gang));
    let gang = gang.ok_or_else(|| gang_not_found(identity))?;
    let name = observed.name();
    let groups = &gang.spec.podgroups;
    let (at, group) = groups
        .iter()
        .enumerate()
        .find(|(_, group)| group.name == name.as_str())
        .ok_or_else(|| group_not_found(identity, name.as_str()))?;
    let complete = i32::try_from(retained.len()) == Ok(observed.clique.spec.replicas);
    let has_references = !group.pod_references.is_empty();
    let references = of_pods(retained);
    let version = &gang.metadata.resource_version;
    let is_written = version.is_some() && observed.own_writes.references_written_at == *version;
    let due = (complete || has_references) && references != group.pod_references && !is_written;
    Ok(due.then(|| Step::json_patch(gang, replacement(gang, at, name.as_str(), &references))))
}

fn of_pods(pods: &[&SlimPod]) -> Vec<NamespacedName> {
    let reference =
        |pod: &&SlimPod| NamespacedName { namespace: pod.namespace().unwrap_or_default(), name: pod.name_any() };
    let mut references: Vec<_> = pods.iter().map(reference).collect();
    references.sort();
    references
}

/// Applies only to the observed gang and pod group, so that neither a recreated gang nor a moved pod group gets the pods of
/// another.
fn replacement(gang: &PodGang, at: usize, group: &str, references: &[NamespacedName]) -> Patch {
    let at = at.to_string();
    let test = |path: &[&str], value: Value| {
        PatchOperation::Test(TestOperation { path: PointerBuf::from_tokens(path.iter().copied()), value })
    };
    Patch(vec![
        test(&["metadata", "uid"], json!(gang.metadata.uid)),
        test(&["spec", "podgroups", &at, "name"], json!(group)),
        PatchOperation::Replace(ReplaceOperation {
            path: PointerBuf::from_tokens(["spec", "podgroups", &at, "podReferences"]),
            value: json!(references),
        }),
    ])
}

fn gang_not_found(identity: &CliqueIdentity) -> Waiting {
    Waiting::new(available::POD_GANG_NOT_FOUND, format!("PodGang {} does not exist", identity.gang))
}

fn group_not_found(identity: &CliqueIdentity, clique: &str) -> Waiting {
    Waiting::new(available::POD_GROUP_NOT_FOUND, format!("PodGang {} has no podgroup {clique}", identity.gang))
}
