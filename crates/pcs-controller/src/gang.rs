//! The reconciler of the status of `PodGang`s; start here.
//!
//! The reconciler of sets creates and deletes gangs; this one writes only their status, so its plan is empty. Gangs have a controller of their
//! own, so that the gangs of one set are queued and written separately.

use futures::StreamExt;
use grove_api_types::configuration::OperatorConfiguration;
use grove_api_types::scheduler_v1alpha1::{PodGang, PodGangStatus};
use grove_controller::children::OwnerKind;
use grove_controller::controller::ControllerBuilder;
use grove_controller::executor::ExecutionResult;
use grove_controller::plan::Plan;
use grove_controller::reconciler::{self, Reconciler, Snapshot};
use grove_controller::shared_informer_factory::SharedInformerFactory;
use grove_controller::status_limiter::StatusChange;
use grove_controller::status_patch::StatusOwnership;
use grove_controller::triggers::Trigger;
use grove_runtime::caches::Cache;
use k8s_openapi::jiff::Timestamp;

use self::observed::Observed;
use self::triggers::gang_of_clique;
use crate::informers::PcsCaches;

mod observe;
mod observed;
mod status;
mod triggers;

#[cfg(test)]
mod tests;

pub(crate) type Context = reconciler::Context<GangReconciler>;

/// Gangs have no children: their set creates their cliques, and the cliques create their pods.
#[derive(Debug)]
pub(crate) struct GangOwner;

impl OwnerKind for GangOwner {
    type Object = PodGang;
    type Expansion<'a> = ();
    const STATUS_OWNERSHIP: StatusOwnership = StatusOwnership::SharedConditions;
}

/// Reconciles gangs.
pub(crate) struct GangReconciler;

impl Reconciler for GangReconciler {
    type Owner = GangOwner;
    type Caches = PcsCaches;
    type Snapshot = Observed;

    const CONTROLLER: &'static str = "podgang-status-controller";

    fn concurrency(config: &OperatorConfiguration) -> u16 {
        config.controllers.pod_gang.concurrent_syncs
    }

    fn informers(caches: &PcsCaches) -> (&Cache<PodGang>, &SharedInformerFactory) {
        (&caches.gangs, &caches.informers)
    }

    /// What triggers a reconcile of a gang, besides the reasons that [`ControllerBuilder::new`] lists for every controller:
    /// - a change of the gang itself;
    /// - a change of a clique whose pods belong to the gang, with low priority.
    fn triggers(ctx: &Context, controller: ControllerBuilder<PodGang>) -> ControllerBuilder<PodGang> {
        let cliques = ctx.caches.cliques.subscribe();
        controller
            .watches(cliques.filter_map(|delta| std::future::ready(gang_of_clique(&delta).map(Trigger::LowPriority))))
    }

    fn observe(ctx: &Context, gang: &PodGang, _now: Timestamp) -> Observed {
        observe::observe(&ctx.caches, gang)
    }

    fn status(observed: &Observed, _: &Plan, _: &ExecutionResult, now: Timestamp) -> (PodGangStatus, StatusChange) {
        let status = status::status(observed, now);
        let change = status::status_change(observed, &status);
        (status, change)
    }
}

impl Snapshot for Observed {
    fn omits_status(&self) -> bool {
        self.is_terminating()
    }
}
