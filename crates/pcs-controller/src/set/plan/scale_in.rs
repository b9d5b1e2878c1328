//! What a set no longer asks for: the children of replicas beyond its size, and of cliques that left its template.

use std::collections::BTreeSet;

use grove_api_types::shape::SetReplica;
use grove_runtime::plan::Stage;

use crate::children::deletion;
use crate::set::observed::Observed;

/// Deletes every child whose name the shape of the set does not have.
pub(super) fn stage(seen: &Observed, replicas: &[SetReplica<'_>]) -> Stage {
    let cliques = replicas.iter().flat_map(|replica| &replica.cliques).map(|clique| clique.name.as_str());
    let cliques: BTreeSet<&str> = cliques.collect();
    let gangs: BTreeSet<&str> = replicas.iter().map(|replica| replica.base_gang.as_str()).collect();
    let services: BTreeSet<&str> = replicas.iter().map(|replica| replica.service.as_str()).collect();
    let cliques = deletion::but(&seen.cliques, |name| cliques.contains(name));
    let gangs = deletion::but(&seen.gangs, |name| gangs.contains(name));
    let services = deletion::but(&seen.services, |name| services.contains(name));
    Stage::new("scale-in", cliques.chain(gangs).chain(services).collect::<Vec<_>>())
}
