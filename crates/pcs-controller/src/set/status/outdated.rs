//! The `PodsOutdated` condition: pods that were created from an older template. Grove does not replace them.

use grove_api_types::conditions::{self, pods_outdated};
use grove_api_types::expansion::{SetReplica, TemplateHashes};
use grove_api_types::text::join_names;
use grove_api_types::v1alpha1::PodCliqueScalingGroup;
use grove_controller::conditions::{ConditionStatus, ConditionUpdate};

use crate::children::clique;
use crate::set::observed::Observed;

/// The message names this many cliques and groups; it only counts the others.
const MAX_NAMED: usize = 20;

/// Which cliques and groups have such pods; `None` if none has.
pub(super) fn message(observed: &Observed, hashes: &TemplateHashes, replicas: &[SetReplica]) -> Option<String> {
    let cliques = replicas.iter().flat_map(|replica| &replica.cliques);
    let cliques = cliques.filter(|desired| clique::is_outdated(&observed.children, hashes, desired));
    let groups = replicas.iter().flat_map(|replica| &replica.groups);
    let groups = groups
        .filter(|desired| observed.active_group(&desired.name).is_some_and(|group| group_is_outdated(group, hashes)));
    let cliques = cliques.map(|clique| clique.name.as_str());
    let names: Vec<&str> = cliques.chain(groups.map(|group| group.name.as_str())).collect();
    let list = join_names(&names, MAX_NAMED);
    let remedy = "this version does not replace running pods; delete them to recreate them from the current template";
    (!names.is_empty()).then(|| format!("pods of {list} were created from an older template; {remedy}"))
}

pub(super) fn condition(observed: &Observed, message: String) -> ConditionUpdate {
    ConditionUpdate {
        type_: conditions::PODS_OUTDATED,
        status: ConditionStatus::True,
        reason: pods_outdated::TEMPLATE_CHANGED.to_owned(),
        message,
        observed_generation: observed.set.metadata.generation,
    }
}

/// Without a status, the pods of the group are unknown, so it is neither outdated nor current.
fn group_is_outdated(group: &PodCliqueScalingGroup, hashes: &TemplateHashes) -> bool {
    reported_hash(group).is_some_and(|reported| reported != hashes.generation_hash)
}

/// Whether the group reports that all its pods were created from the current templates.
pub(super) fn group_is_current(group: &PodCliqueScalingGroup, hashes: &TemplateHashes) -> bool {
    reported_hash(group) == Some(hashes.generation_hash.as_str())
}

fn reported_hash(group: &PodCliqueScalingGroup) -> Option<&str> {
    group.status.as_ref()?.current_pod_clique_set_generation_hash.as_deref()
}
