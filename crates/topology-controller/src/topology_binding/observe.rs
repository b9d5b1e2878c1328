//! Takes the snapshot of a binding, of the `ClusterTopology` of its name, and of its topology objects of schedulers from the caches. It sends no requests.

use grove_api_types::configuration::OperatorConfiguration;
use grove_api_types::deletion::is_terminating;
use grove_api_types::topology::Topology;
use grove_api_types::v1alpha1::ClusterTopologyBinding;
use grove_controller::create_backoff::BackedOffCreates;
use kube::ResourceExt;

use super::Context;
use super::observed::Observed;
use crate::scheduler_topologies::{SchedulerTopologyBackend, configured_backends};

/// The snapshot of `binding`.
pub(super) fn observe(ctx: &Context, binding: &ClusterTopologyBinding) -> Observed {
    let name = binding.name_any();
    let OperatorConfiguration { topology: configuration, schedulers, .. } = ctx.config();
    let (topology, is_enabled) = (ctx.caches.topologies.get("", &name), configuration.enabled);
    let observe = |backend: &SchedulerTopologyBackend| {
        let bindings = &binding.spec.scheduler_topology_bindings;
        let external = bindings.iter().find(|external| external.scheduler_name == backend.scheduler.name());
        let reference = external.map_or(name.as_str(), |external| external.topology_reference.as_str());
        backend.observe(&ctx.caches.informers, reference, external.is_some())
    };
    let mut observed = Observed {
        binding: binding.clone(),
        scheduler_topologies: configured_backends(schedulers, is_enabled).map(observe).collect(),
        topology: topology.as_deref().map(Topology::from),
        configuration: configuration.clone(),
        children: ctx.children.children(binding),
        name_conflicts: Vec::new(),
        backed_off: BackedOffCreates::default(),
        pending_creates: ctx.children.pending_creates(binding),
        orphans_children: ctx.caches.binding_orphan_deletions.contains(binding),
    };
    if is_enabled && !is_terminating(binding) {
        observed.backed_off = ctx.children.backed_off(binding);
        observed.name_conflicts = ctx.children.name_conflicts(binding, &observed.expand());
    }
    observed
}
