//! The reconciler of `ClusterTopologyBinding`s; start here.
//!
//! [`BindingReconciler`] lists what enqueues a binding, and the steps of a reconcile: it takes a snapshot of the binding and of the topology
//! objects of schedulers (`observe`), computes the next writes (`plan`), and after their execution the status (`status`). If a
//! `ClusterTopology` has the name of the binding, sets use only the `ClusterTopology`. The binding of the managed default topology has the
//! same levels.

use std::borrow::Cow;

use futures::{Stream, StreamExt, stream};
use grove_api_types::configuration::OperatorConfiguration;
use grove_api_types::v1alpha1::{ClusterTopology, ClusterTopologyBinding, ClusterTopologyBindingStatus};
use grove_controller::children::ChildKinds;
use grove_controller::controller::ControllerBuilder;
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::executor::ExecutionResult;
use grove_controller::expectations::PendingCreates;
use grove_controller::manager::Manager;
use grove_controller::orphan_deletions::OrphanDeletions;
use grove_controller::plan::Plan;
use grove_controller::reconciler::{self, Reconciler, Snapshot};
use grove_controller::shared_informer_factory::SharedInformerFactory;
use grove_controller::status_limiter::StatusChange;
use grove_controller::triggers::Trigger;
use grove_runtime::caches::Cache;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;

use self::observed::Observed;
use crate::default_topology::has_other_levels;
use crate::informers::{BINDINGS_BY_REFERENCE, TopologyCaches};
use crate::scheduler_topologies::{TopologyOwner, configured_backends, start_informers};

mod observe;
mod observed;
mod plan;
mod status;

#[cfg(test)]
mod tests;

pub(crate) use crate::scheduler_topologies::CHILD_KINDS_OF_BINDINGS as CHILD_KINDS;

pub(crate) type Context = reconciler::Context<BindingReconciler>;

/// Topologies are few.
const CONCURRENCY: u16 = 2;

/// Reconciles bindings.
pub(crate) struct BindingReconciler;

impl Reconciler for BindingReconciler {
    type Owner = TopologyOwner<ClusterTopologyBinding>;
    type Caches = TopologyCaches;
    type Snapshot = Observed;

    const CONTROLLER: &'static str = "clustertopologybinding-controller";

    fn concurrency(_config: &OperatorConfiguration) -> u16 {
        CONCURRENCY
    }

    fn informers(caches: &TopologyCaches) -> (&Cache<ClusterTopologyBinding>, &SharedInformerFactory) {
        (&caches.bindings, &caches.informers)
    }

    fn child_kinds(manager: &Manager, caches: &TopologyCaches) -> ChildKinds<Self::Owner> {
        let config = manager.config();
        start_informers(CHILD_KINDS, &config.schedulers, config.topology.enabled, &caches.informers)
    }

    fn orphan_deletions(caches: &TopologyCaches) -> Option<&OrphanDeletions> {
        Some(&caches.binding_orphan_deletions)
    }

    /// What triggers a reconcile of a binding, besides the reasons that [`ControllerBuilder::new`] lists for every controller:
    /// - a change of the binding itself;
    /// - a `ClusterTopology` of the same name: it was created or deleted, or its levels changed;
    /// - a change or a deletion of its topology object of a scheduler;
    /// - a change of a topology object that the binding names, with low priority.
    fn triggers(
        ctx: &Context,
        controller: ControllerBuilder<ClusterTopologyBinding>,
    ) -> ControllerBuilder<ClusterTopologyBinding> {
        let (caches, config) = (&ctx.caches, ctx.config());
        let backends = configured_backends(&config.schedulers, config.topology.enabled);
        let changed = backends.map(|backend| backend.changed_names(&caches.informers));
        let bindings = caches.bindings.clone();
        let of_references = stream::select_all(changed).flat_map(move |name| {
            let bindings = bindings.by_index(&BINDINGS_BY_REFERENCE, &name);
            stream::iter(bindings).map(|binding| ObjectRef::from_obj(&*binding))
        });
        controller
            .watches(bindings_of_topology(&caches.topologies, &caches.bindings))
            .watches(of_references.map(Trigger::LowPriority))
    }

    fn observe(ctx: &Context, binding: &ClusterTopologyBinding, _now: Timestamp) -> Observed {
        observe::observe(ctx, binding)
    }

    fn plan(observed: &Observed, _now: Timestamp) -> Plan {
        plan::plan(observed)
    }

    fn status(
        observed: &Observed,
        _plan: &Plan,
        result: &ExecutionResult,
        now: Timestamp,
    ) -> (ClusterTopologyBindingStatus, StatusChange) {
        (status::status(observed, result, now), StatusChange::Significant)
    }
}

impl Snapshot for Observed {
    fn omits_status(&self) -> bool {
        self.is_terminating()
    }

    fn pending_creates(&self) -> Cow<'_, PendingCreates> {
        Cow::Borrowed(&self.pending_creates)
    }

    fn backed_off(&self) -> Cow<'_, BackedOffCreates> {
        Cow::Borrowed(&self.backed_off)
    }
}

/// The binding with the name of a `ClusterTopology` that was created or deleted, or has other levels.
fn bindings_of_topology(
    topologies: &Cache<ClusterTopology>,
    bindings: &Cache<ClusterTopologyBinding>,
) -> impl Stream<Item = Trigger<ClusterTopologyBinding>> + Send + 'static + use<> {
    let bindings = bindings.clone();
    topologies.subscribe().filter_map(move |delta| {
        let topology = delta.object().filter(|_| has_other_levels(&delta));
        let binding = topology.and_then(|topology| bindings.get("", &topology.name_any()));
        std::future::ready(binding.map(|binding| Trigger::Reconcile(ObjectRef::from_obj(&*binding))))
    })
}
