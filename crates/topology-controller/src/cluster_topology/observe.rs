//! Takes the snapshot of a topology from the caches. It sends no requests.

use std::sync::Arc;

use grove_api_types::admission::ReferencingSet;
use grove_api_types::configuration::OperatorConfiguration;
use grove_api_types::deletion::is_terminating;
use grove_api_types::topology::Topology;
use grove_api_types::v1alpha1::ClusterTopology;
use grove_controller::create_backoff::BackedOffCreates;
use kube::ResourceExt;

use super::Context;
use super::observed::{LiveReferences, Nodes, Observed};
use crate::scheduler_topologies::configured_backends;
use crate::slim_clique::SCHEDULED_PODS_BY_SET;
use crate::slim_node::NODES_BY_LABEL_KEY;
use crate::slim_set::{SETS_BY_TOPOLOGY, SlimSet};

/// The snapshot of `topology`.
pub(super) fn observe(ctx: &Context, topology: &ClusterTopology) -> Observed {
    let (caches, name) = (&ctx.caches, topology.name_any());
    let OperatorConfiguration { topology: configuration, schedulers, .. } = ctx.config();
    let backends = configured_backends(schedulers, configuration.enabled);
    let mut observed = Observed {
        topology: topology.clone(),
        configuration: configuration.clone(),
        schedulers: schedulers.clone(),
        referring_sets: referring_sets(ctx, &name),
        live_references: LiveReferences::NotRead,
        nodes: nodes(ctx, topology),
        scheduler_topologies: backends.map(|backend| backend.observe(&caches.informers, &name, false)).collect(),
        children: ctx.children.children(topology),
        name_conflicts: Vec::new(),
        backed_off: BackedOffCreates::default(),
        pending_creates: ctx.children.pending_creates(topology),
    };
    if configuration.enabled && !is_terminating(topology) {
        observed.backed_off = ctx.children.backed_off(topology);
        observed.name_conflicts = ctx.children.name_conflicts(topology, &observed.expand());
    }
    observed
}

fn referring_sets(ctx: &Context, name: &str) -> Vec<ReferencingSet> {
    let sets = &ctx.caches.sets;
    let mut referring = sets.by_index(&SETS_BY_TOPOLOGY, name);
    if name == ctx.config().topology.name {
        referring.extend(sets.by_index(&SETS_BY_TOPOLOGY, ""));
    }
    let referencing_set = |set: &Arc<SlimSet>| {
        let key = set.key();
        let is_scheduled = ctx.caches.cliques.sum(&SCHEDULED_PODS_BY_SET, &key) > 0;
        ReferencingSet { is_scheduled, domains: set.domains.clone(), set: key }
    };
    let mut referring: Vec<ReferencingSet> = referring.iter().map(referencing_set).collect();
    referring.sort_by(|a, b| a.set.cmp(&b.set));
    referring
}

fn nodes(ctx: &Context, topology: &ClusterTopology) -> Nodes {
    let nodes = &ctx.caches.nodes;
    let with_key = |key: String| {
        let count = nodes.by_index(&NODES_BY_LABEL_KEY, &key).len();
        (key, count)
    };
    let keys = Topology::from(topology).levels.into_iter().map(|level| level.key);
    Nodes { count: nodes.len(), with_key: keys.map(with_key).collect() }
}
