//! The clique's own `podReferences` in its gang.

use grove_api_types::conditions::available;
use grove_api_types::deletion::is_terminating;
use grove_api_types::scheduler_v1alpha1::{NamespacedName, PodGang};
use grove_controller::plan::{Step, Waiting};
use grove_controller::slim::SlimPod;
use json_patch::jsonptr::PointerBuf;
use json_patch::{Patch, PatchOperation, ReplaceOperation, TestOperation};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::clique::observed::{Lineage, Observed};

/// The patch that makes the gang list exactly the pods that stay; first when the clique is complete, then whenever
/// the list differs, but once for each version of the gang that was seen.
pub(super) fn update(seen: &Observed, lineage: &Lineage, kept: &[&SlimPod]) -> Result<Option<Step>, Waiting> {
    let gang = seen.gang.as_deref().filter(|gang| !is_terminating(*gang));
    let gang = gang.ok_or_else(|| gang_missing(lineage))?;
    let name = seen.name();
    let groups = &gang.spec.podgroups;
    let (at, group) = groups
        .iter()
        .enumerate()
        .find(|(_, group)| group.name == name.as_str())
        .ok_or_else(|| group_missing(lineage, name.as_str()))?;
    let complete = i32::try_from(kept.len()) == Ok(seen.clique.spec.replicas);
    let begun = !group.pod_references.is_empty();
    let references = of_pods(kept);
    let is_told = gang.metadata.resource_version.is_some() && seen.remembered.told == gang.metadata.resource_version;
    let due = (complete || begun) && references != group.pod_references && !is_told;
    Ok(due.then(|| Step::json_patch(gang, replacement(gang, at, name.as_str(), &references))))
}

fn of_pods(pods: &[&SlimPod]) -> Vec<NamespacedName> {
    let reference =
        |pod: &&SlimPod| NamespacedName { namespace: pod.namespace().unwrap_or_default(), name: pod.name_any() };
    let mut references: Vec<_> = pods.iter().map(reference).collect();
    references.sort();
    references
}

/// Holds only for the very gang and group that were seen, so that a gang made anew, or groups that moved, are never
/// given the pods of others.
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

fn gang_missing(lineage: &Lineage) -> Waiting {
    Waiting::new(available::POD_GANG_NOT_FOUND, format!("PodGang {} does not exist", lineage.gang))
}

fn group_missing(lineage: &Lineage, clique: &str) -> Waiting {
    Waiting::new(available::POD_GROUP_NOT_FOUND, format!("PodGang {} has no podgroup {clique}", lineage.gang))
}
