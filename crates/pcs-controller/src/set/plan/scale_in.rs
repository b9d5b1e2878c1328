//! What a set no longer asks for: the children of replicas beyond its size, and of cliques that left its template.

use std::collections::BTreeSet;
use std::sync::Arc;

use grove_api_types::shape::SetReplica;
use grove_runtime::plan::Stage;
use kube::{Resource, ResourceExt};

use super::deletion::deletes;
use crate::set::observed::Observed;

/// Deletes every child whose name the shape of the set does not have.
pub(super) fn stage(seen: &Observed, replicas: &[SetReplica<'_>]) -> Stage {
    let cliques = replicas.iter().flat_map(|replica| &replica.cliques).map(|clique| clique.name.as_str()).collect();
    let gangs = replicas.iter().map(|replica| replica.base_gang.as_str()).collect();
    let services = replicas.iter().map(|replica| replica.service.as_str()).collect();
    let cliques = surplus(&seen.cliques, &cliques);
    let gangs = surplus(&seen.gangs, &gangs);
    let services = surplus(&seen.services, &services);
    let steps = deletes(&cliques).chain(deletes(&gangs)).chain(deletes(&services));
    Stage::new("scale-in", steps.collect::<Vec<_>>())
}

fn surplus<K: Resource>(objects: &[Arc<K>], wanted: &BTreeSet<&str>) -> Vec<Arc<K>> {
    objects.iter().filter(|object| !wanted.contains(object.name_any().as_str())).cloned().collect()
}
