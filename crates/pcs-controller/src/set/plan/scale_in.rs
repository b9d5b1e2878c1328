//! What a set no longer asks for: the children of replicas beyond its size, the gangs of scaling groups that became
//! smaller, and what left the template.

use std::collections::BTreeSet;

use grove_api_types::expansion::SetReplica;
use grove_api_types::names::AutoscalerName;
use grove_runtime::plan::Stage;

use crate::children::deletion;
use crate::set::observed::Observed;

/// Deletes every child whose name the shape of the set does not have.
pub(super) fn stage(seen: &Observed, replicas: &[SetReplica<'_>]) -> Stage {
    let autoscalers: BTreeSet<AutoscalerName> =
        replicas.iter().flat_map(SetReplica::autoscalers).map(|autoscaler| autoscaler.name).collect();
    let autoscalers: BTreeSet<&str> = autoscalers.iter().map(AutoscalerName::as_str).collect();
    let groups: BTreeSet<&str> = names(replicas, |replica| replica.groups.iter().map(|group| group.name.as_str()));
    let cliques: BTreeSet<&str> = names(replicas, |replica| replica.cliques.iter().map(|clique| clique.name.as_str()));
    let gangs: BTreeSet<&str> = names(replicas, |replica| replica.gangs().into_iter().map(|gang| gang.name.as_str()));
    let services: BTreeSet<&str> = names(replicas, |replica| [replica.service.as_str()]);
    let steps = deletion::but(&seen.autoscalers, |name| autoscalers.contains(name))
        .chain(deletion::but(&seen.groups, |name| groups.contains(name)))
        .chain(deletion::but(&seen.cliques, |name| cliques.contains(name)))
        .chain(deletion::but(&seen.gangs, |name| gangs.contains(name)))
        .chain(deletion::but(&seen.services, |name| services.contains(name)));
    super::farewell(Stage::new("scale-in", steps.collect::<Vec<_>>()))
}

fn names<'r, 'a, I: IntoIterator<Item = &'r str>>(
    replicas: &'r [SetReplica<'a>],
    of_replica: impl Fn(&'r SetReplica<'a>) -> I,
) -> BTreeSet<&'r str> {
    replicas.iter().flat_map(of_replica).collect()
}
