//! The pod references of the clique's pod group in its gang.

use std::collections::BTreeSet;

use grove_api_types::conditions::available;
use grove_api_types::deletion::is_terminating;
use grove_api_types::expansion::object_count::MAX_GANG_SIZE;
use grove_api_types::scheduler_v1alpha1::{NamespacedName, PodGang, PodGroup};
use grove_controller::json_patch::{replace, test};
use grove_controller::plan::{Step, Waiting};
use grove_controller::slim_pod::SlimPod;
use json_patch::Patch;
use kube::ResourceExt;
use serde_json::json;

use crate::clique::observed::{CliqueIdentity, Observed};

/// The change of the pod references of the clique.
pub(super) struct ReferencesUpdate {
    /// The patch; `None` if the references are written, or cannot be.
    pub(super) patch: Option<Step>,
    /// Why references are missing.
    pub(super) waiting: Option<Waiting>,
}

/// The patch that sets the pod references to exactly the retained pods. It is first sent when the clique is complete, then
/// whenever the references differ, but once per observed version of the gang. A gang has at most [`MAX_GANG_SIZE`] pod groups and
/// references, because the API server rejects larger objects. The pod groups get references in their order, and those of the highest
/// indices are omitted. A retained pod keeps its reference, even if the clique has more references than it may have: the stored gang
/// contains them, so they fit.
pub(super) fn update(observed: &Observed, identity: &CliqueIdentity, retained: &[&SlimPod]) -> ReferencesUpdate {
    let missing = |waiting| ReferencesUpdate { patch: None, waiting: Some(waiting) };
    let Some(gang) = observed.gang.as_deref().filter(|gang| !is_terminating(*gang)) else {
        return missing(gang_not_found(identity));
    };
    let name = observed.name();
    let groups = &gang.spec.podgroups;
    let Some((at, group)) = groups.iter().enumerate().find(|(_, group)| group.name == name.as_str()) else {
        return missing(group_not_found(identity, name.as_str()));
    };
    let max_references = MAX_GANG_SIZE.saturating_sub(groups.len());
    let limit = observed.limited_references.unwrap_or(max_references);
    let (ordered, allowed) = by_precedence(group, retained, limit);
    let omitted = retained.len().saturating_sub(allowed);
    let complete = i32::try_from(retained.len()) == Ok(observed.clique.spec.replicas);
    let has_references = !group.pod_references.is_empty();
    let references = of_pods(ordered.iter().take(allowed));
    let version = &gang.metadata.resource_version;
    let is_written = version.is_some() && observed.own_writes.references_written_at == *version;
    let due = (complete || has_references) && references != group.pod_references && !is_written;
    let patch = due.then(|| Step::json_patch_of_shared_object(gang, replacement(gang, at, name.as_str(), &references)));
    ReferencesUpdate { patch, waiting: (omitted > 0).then(|| too_many(identity, max_references, omitted)) }
}

/// The retained pods, and how many of them have references. Above the limit, the pods to which the pod group already has references come
/// first and keep them.
fn by_precedence<'a>(group: &PodGroup, retained: &[&'a SlimPod], limit: usize) -> (Vec<&'a SlimPod>, usize) {
    if retained.len() <= limit {
        return (retained.to_vec(), limit);
    }
    let stored: BTreeSet<&str> = group.pod_references.iter().map(|reference| reference.name.as_str()).collect();
    let is_stored = |pod: &&SlimPod| pod.metadata.name.as_deref().is_some_and(|name| stored.contains(name));
    let (mut ordered, others): (Vec<_>, Vec<_>) = retained.iter().copied().partition(is_stored);
    let allowed = limit.max(ordered.len());
    ordered.extend(others);
    (ordered, allowed)
}

fn of_pods<'a>(pods: impl Iterator<Item = &'a &'a SlimPod>) -> Vec<NamespacedName> {
    let reference =
        |pod: &&SlimPod| NamespacedName { namespace: pod.namespace().unwrap_or_default(), name: pod.name_any() };
    let mut references: Vec<_> = pods.map(reference).collect();
    references.sort();
    references
}

/// Applies only to the observed gang and pod group, so that neither a recreated gang nor a moved pod group gets the pods of
/// another.
fn replacement(gang: &PodGang, at: usize, group: &str, references: &[NamespacedName]) -> Patch {
    let at = at.to_string();
    Patch(vec![
        test(&["metadata", "uid"], gang.uid()),
        test(&["spec", "podgroups", &at, "name"], group),
        replace(&["spec", "podgroups", &at, "podReferences"], json!(references)),
    ])
}

fn gang_not_found(identity: &CliqueIdentity) -> Waiting {
    Waiting::new(available::POD_GANG_NOT_FOUND, format!("PodGang {} does not exist", identity.gang))
}

fn group_not_found(identity: &CliqueIdentity, clique: &str) -> Waiting {
    Waiting::new(available::POD_GROUP_NOT_FOUND, format!("PodGang {} has no podgroup {clique}", identity.gang))
}

fn too_many(identity: &CliqueIdentity, max_references: usize, omitted: usize) -> Waiting {
    let message = format!(
        "PodGang {} can have at most {max_references} pod references; {omitted} pods of the clique have no reference",
        identity.gang
    );
    Waiting::new(available::TOO_MANY_POD_REFERENCES, message)
}
