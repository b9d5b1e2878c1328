//! Plans the patch of the pod references of a gang.

use std::collections::BTreeSet;

use grove_api_types::deletion::is_terminating;
use grove_api_types::expansion::object_count::MAX_GANG_SIZE;
use grove_api_types::scheduler_v1alpha1::{GangPodGroup, NamespacedName};
use grove_controller::json_patch::{replace, test};
use grove_controller::plan::{Plan, Stage, Step};
use json_patch::Patch;
use kube::ResourceExt;
use serde_json::json;

use super::observed::{Member, Observed};

/// A patch changes at most this many pod groups: the API server allows 10,000 operations. The watch event of the patch triggers the next one.
const MAX_GROUPS: usize = 2000;

/// The patch that gives each pod group the references to exactly the live pods of its clique. They are first written when the clique is
/// complete, and then whenever they differ, except that the reference of a deleted pod waits for that of its successor ([`awaits_successors`]).
/// The patch applies only to the observed gang and its pod groups, so that neither a recreated gang nor a moved pod group gets the pods of another.
pub(super) fn plan(observed: &Observed) -> Plan {
    let Observed { gang, members } = observed;
    if is_terminating(&**gang) {
        return Plan::new();
    }
    let groups = &gang.spec.podgroups;
    let mut free = free_references(groups, members);
    let mut operations = vec![test(&["metadata", "uid"], gang.uid())];
    for (at, (group, member)) in groups.iter().zip(members).enumerate() {
        let member = member.as_ref().filter(|member| !awaits_successors(group, member));
        let references = member.map(|member| references(group, member, &mut free, gang.namespace()));
        if operations.len() <= 2 * MAX_GROUPS
            && let Some(references) = references.filter(|references| *references != group.pod_references)
        {
            let at = at.to_string();
            operations.extend([
                test(&["spec", "podgroups", &at, "name"], group.name.as_str()),
                replace(&["spec", "podgroups", &at, "podReferences"], json!(references)),
            ]);
        }
    }
    let patch = (operations.len() > 1).then(|| Step::json_patch(&**gang, Patch(operations)));
    Plan::new().stage(Stage::new("references", patch))
}

/// How many references the pod groups may get besides those that they keep. A gang has at most [`MAX_GANG_SIZE`] pod groups and references,
/// because the API server rejects larger objects. A live pod keeps its reference: the stored gang contains it, so it fits.
fn free_references(groups: &[GangPodGroup], members: &[Option<Member>]) -> usize {
    let kept = groups.iter().zip(members).map(|(group, member)| match member {
        Some(member) if awaits_successors(group, member) => group.pod_references.len(),
        Some(Member { pods, .. }) => {
            let pods: BTreeSet<&str> = pods.iter().map(String::as_str).collect();
            group.pod_references.iter().filter(|reference| pods.contains(&*reference.name)).count()
        }
        None => group.pod_references.len(),
    });
    MAX_GANG_SIZE.saturating_sub(groups.len()).saturating_sub(kept.sum())
}

/// Whether pods of the clique are missing, and the others are either all known, or all successors. The next patch also removes the references of the
/// pods that are gone.
fn awaits_successors(group: &GangPodGroup, Member { desired, pods }: &Member) -> bool {
    let is_known = |pod: &String| group.pod_references.iter().any(|reference| reference.name == *pod);
    let has_no_known = || !group.pod_references.is_empty() && !pods.iter().any(is_known);
    pods.len() < *desired && (pods.iter().all(is_known) || has_no_known())
}

/// The references of a pod group, sorted. It takes those of new pods from the free ones, which the pod groups get in their order. Those of the
/// highest indices are omitted, and those of desired pods that do not exist yet are reserved.
fn references(
    group: &GangPodGroup,
    member: &Member,
    free: &mut usize,
    namespace: Option<String>,
) -> Vec<NamespacedName> {
    let stored: BTreeSet<&str> = group.pod_references.iter().map(|reference| &*reference.name).collect();
    let (kept, new): (Vec<_>, Vec<_>) = member.pods.iter().partition(|pod| stored.contains(pod.as_str()));
    let desired = member.desired.saturating_sub(kept.len());
    let is_complete = member.pods.len() == member.desired;
    let taken = new.len().min(*free);
    *free = free.saturating_sub(taken.max(desired));
    if stored.is_empty() && !is_complete {
        return Vec::new();
    }
    let names = kept.into_iter().chain(new.into_iter().take(taken));
    let namespace = namespace.unwrap_or_default();
    let mut references: Vec<_> =
        names.map(|name| NamespacedName { namespace: namespace.clone(), name: name.clone() }).collect();
    references.sort();
    references
}
