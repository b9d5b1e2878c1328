//! The reconciler of `PodGang`s; start here.
//!
//! [`GangReconciler`] lists what enqueues a gang, and the steps of a reconcile: it takes a snapshot of the gang, its cliques and its `PodGroup` from
//! the caches (`observe`), computes the next writes (`plan`), and after their execution the conditions about scheduling (`status`).

use std::borrow::Cow;

use futures::StreamExt;
use grove_api_types::configuration::OperatorConfiguration;
use grove_api_types::scheduler_v1alpha1::{PodGang, PodGangStatus};
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
use grove_controller::triggers::owners_after_namespace_termination;
use grove_runtime::caches::Cache;
use k8s_openapi::jiff::Timestamp;

use self::observed::Observed;
use self::triggers::{gang_of_clique, scaled_gangs};
use crate::informers::GangCaches;
use crate::pod_groups::{self, GangOwner};

mod desired;
mod observe;
mod observed;
mod plan;
mod status;
mod triggers;

#[cfg(test)]
mod tests;

pub(crate) use self::desired::CHILD_KINDS;

pub(crate) type Context = reconciler::Context<GangReconciler>;

/// Reconciles gangs.
pub(crate) struct GangReconciler;

impl Reconciler for GangReconciler {
    type Owner = GangOwner;
    type Caches = GangCaches;
    type Snapshot = Observed;

    const CONTROLLER: &'static str = "podgang-controller";

    fn concurrency(config: &OperatorConfiguration) -> u16 {
        config.controllers.pod_gang.concurrent_syncs
    }

    fn informers(caches: &GangCaches) -> (&Cache<PodGang>, &SharedInformerFactory) {
        (&caches.gangs, &caches.informers)
    }

    /// Only the kinds that the configuration allows are watched.
    fn child_kinds(manager: &Manager, caches: &GangCaches) -> ChildKinds<GangOwner> {
        pod_groups::start_informers(&CHILD_KINDS, &manager.config().schedulers, &caches.informers)
    }

    fn orphan_deletions(caches: &GangCaches) -> Option<&OrphanDeletions> {
        Some(&caches.orphan_deletions)
    }

    /// What triggers a reconcile of a gang, besides the reasons that [`ControllerBuilder::new`] lists for every controller:
    /// - a change of the gang itself;
    /// - a change of the number of desired pods of a clique of the gang. A change of the number of scheduled pods has low priority;
    /// - the base gang of a scaled gang has become scheduled, if the `PodGroup` of the scaled gang waits for that;
    /// - a change or a deletion of its `PodGroup`. A change of only the status has
    ///   low priority;
    /// - a relist of `PodGroup`s, because one that was created and deleted before it has no delta;
    /// - the deletion of a `PodGroup` anywhere in the namespace, if a quota rejected the one of the gang;
    /// - the end of the termination of its namespace, because nothing was created during it.
    fn triggers(ctx: &Context, controller: ControllerBuilder<PodGang>) -> ControllerBuilder<PodGang> {
        let GangCaches { gangs, cliques, terminating_namespaces, .. } = &ctx.caches;
        controller
            .watches(cliques.subscribe().filter_map(|delta| std::future::ready(gang_of_clique(&delta))))
            .watches(scaled_gangs(gangs, cliques))
            .retry_on(owners_after_namespace_termination(gangs, terminating_namespaces))
    }

    fn observe(ctx: &Context, gang: &PodGang, _now: Timestamp) -> Observed {
        observe::observe(ctx, gang)
    }

    fn plan(observed: &Observed, _now: Timestamp) -> Plan {
        plan::plan(observed)
    }

    fn status(
        observed: &Observed,
        plan: &Plan,
        result: &ExecutionResult,
        now: Timestamp,
    ) -> (PodGangStatus, StatusChange) {
        let status = status::status(observed, plan, result, now);
        let change = status::status_change(observed, &status);
        (status, change)
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
