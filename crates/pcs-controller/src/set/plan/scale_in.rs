//! Deletes the children that a set no longer expands to: those of removed replicas, the gangs of removed replicas of
//! scaling groups, and those of cliques and groups that were removed from the template.

use std::collections::BTreeSet;

use grove_api_types::expansion::SetReplica;
use grove_api_types::names::AutoscalerName;
use grove_controller::plan::Stage;

use crate::children::deletion;
use crate::set::observed::Observed;

/// Deletes every child whose name is not in the expansion of the set.
pub(super) fn stage(observed: &Observed, replicas: &[SetReplica<'_>]) -> Stage {
    let autoscalers: BTreeSet<AutoscalerName> =
        replicas.iter().flat_map(SetReplica::autoscalers).map(|autoscaler| autoscaler.name).collect();
    let autoscalers: BTreeSet<&str> = autoscalers.iter().map(AutoscalerName::as_str).collect();
    let groups: BTreeSet<&str> = names(replicas, |replica| replica.groups.iter().map(|group| group.name.as_str()));
    let cliques: BTreeSet<&str> = names(replicas, |replica| replica.cliques.iter().map(|clique| clique.name.as_str()));
    let gangs: BTreeSet<&str> = names(replicas, |replica| replica.gangs().into_iter().map(|gang| gang.name.as_str()));
    let services: BTreeSet<&str> = names(replicas, |replica| [replica.service.as_str()]);
    let steps = deletion::all_except(&observed.autoscalers, |name| autoscalers.contains(name))
        .chain(deletion::all_except(&observed.groups, |name| groups.contains(name)))
        .chain(deletion::all_except(&observed.cliques, |name| cliques.contains(name)))
        .chain(deletion::all_except(&observed.gangs, |name| gangs.contains(name)))
        .chain(deletion::all_except(&observed.services, |name| services.contains(name)));
    super::with_delete_events(Stage::new("scale-in", steps.collect::<Vec<_>>()))
}

fn names<'r, 'a, I: IntoIterator<Item = &'r str>>(
    replicas: &'r [SetReplica<'a>],
    of_replica: impl Fn(&'r SetReplica<'a>) -> I,
) -> BTreeSet<&'r str> {
    replicas.iter().flat_map(of_replica).collect()
}
