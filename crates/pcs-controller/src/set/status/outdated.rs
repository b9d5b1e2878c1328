//! Pods that were made before the template was changed: they run on as they are, and the user is told so.

use grove_api_types::conditions::{self, pods_outdated};
use grove_api_types::expansion::SetReplica;
use grove_api_types::v1alpha1::PodCliqueScalingGroup;
use grove_runtime::conditions::{ConditionStatus, Verdict};

use crate::children::{Revision, clique};
use crate::set::observed::Observed;

/// As many of them are named; the others are counted.
const NAMED: usize = 20;

/// Which cliques and groups have such pods; `None` if there are none.
pub(super) fn message(seen: &Observed, revision: &Revision, replicas: &[SetReplica<'_>]) -> Option<String> {
    let cliques = replicas.iter().flat_map(|replica| &replica.cliques).filter(|wanted| {
        let standing = clique::standing(&seen.cliques, &wanted.name);
        standing.is_some_and(|clique| clique::is_outdated(clique, revision, &wanted.template.name))
    });
    let groups = replicas.iter().flat_map(|replica| &replica.groups);
    let groups = groups.filter(|wanted| seen.group(&wanted.name).is_some_and(|group| is_outdated(group, revision)));
    let cliques = cliques.map(|clique| clique.name.as_str());
    let names: Vec<&str> = cliques.chain(groups.map(|group| group.name.as_str())).collect();
    let more = match names.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let first = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    let remedy = "this version replaces no running pods; delete them to have them made from the current template";
    (!names.is_empty()).then(|| format!("pods of {first}{more} were made from an older template; {remedy}"))
}

pub(super) fn verdict(seen: &Observed, message: String) -> Verdict {
    Verdict {
        type_: conditions::PODS_OUTDATED,
        status: ConditionStatus::True,
        reason: pods_outdated::TEMPLATE_CHANGED.to_owned(),
        message,
        observed_generation: seen.set.metadata.generation,
    }
}

fn is_outdated(group: &PodCliqueScalingGroup, revision: &Revision) -> bool {
    let reported = group.status.as_ref().and_then(|status| status.current_pod_clique_set_generation_hash.as_ref());
    reported.is_some_and(|reported| *reported != revision.generation)
}
