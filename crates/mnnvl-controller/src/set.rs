//! The reconciler of the domains of `PodCliqueSet`s; start here.
//!
//! [`SetReconciler`] lists what enqueues a set, and the steps of a reconcile: it takes a snapshot of the set and its domains from the caches
//! (`observe`), computes the next writes (`plan`), and after their execution the condition about the domains (`status`). The
//! reconciler of domains deletes them. The configuration does not matter: the annotations of a set decide, so its domains stay when automatic
//! MNNVL is disabled.

use std::borrow::Cow;

use grove_api_types::configuration::OperatorConfiguration;
use grove_api_types::v1alpha1::{PodCliqueSet, PodCliqueSetStatus};
use grove_controller::children::ChildKinds;
use grove_controller::controller::ControllerBuilder;
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::executor::ExecutionResult;
use grove_controller::expectations::PendingCreates;
use grove_controller::manager::Manager;
use grove_controller::plan::Plan;
use grove_controller::reconciler::{self, Reconciler, Snapshot};
use grove_controller::shared_informer_factory::SharedInformerFactory;
use grove_controller::status_limiter::StatusChange;
use grove_controller::triggers::owners_after_namespace_termination;
use grove_runtime::caches::Cache;
use k8s_openapi::jiff::Timestamp;

use self::observed::Observed;
use crate::informers::MnnvlCaches;
use crate::set_owner::SetOwner;

mod desired;
mod observe;
mod observed;
mod plan;
mod status;

#[cfg(test)]
mod tests;

pub(crate) use self::desired::CHILD_KINDS;

pub(crate) type Context = reconciler::Context<SetReconciler>;

/// Reconciles sets.
pub(crate) struct SetReconciler;

impl Reconciler for SetReconciler {
    type Owner = SetOwner;
    type Caches = MnnvlCaches;
    type Snapshot = Observed;

    const CONTROLLER: &'static str = "computedomain-controller";

    fn concurrency(config: &OperatorConfiguration) -> u16 {
        config.controllers.pod_clique_set.concurrent_syncs
    }

    fn informers(caches: &MnnvlCaches) -> (&Cache<PodCliqueSet>, &SharedInformerFactory) {
        (&caches.sets, &caches.informers)
    }

    fn child_kinds(_manager: &Manager, _caches: &MnnvlCaches) -> ChildKinds<SetOwner> {
        CHILD_KINDS
    }

    /// What triggers a reconcile of a set, besides the reasons that [`ControllerBuilder::new`] lists for every controller:
    /// - a change of the set itself;
    /// - a change or a deletion of a domain of the set. A creation and a change of only the status
    ///   have low priority;
    /// - a relist of domains, because one that was created and deleted before it has no delta;
    /// - the deletion of a domain anywhere in the namespace, if a quota rejected one of the set;
    /// - the first event of its namespace, or the end of its termination, because nothing was created before.
    fn triggers(ctx: &Context, controller: ControllerBuilder<PodCliqueSet>) -> ControllerBuilder<PodCliqueSet> {
        controller.retry_on(owners_after_namespace_termination(&ctx.caches.sets, &ctx.caches.namespaces))
    }

    fn observe(ctx: &Context, set: &PodCliqueSet, _now: Timestamp) -> Observed {
        observe::observe(ctx, set)
    }

    fn plan(observed: &Observed, _now: Timestamp) -> Plan {
        plan::plan(observed)
    }

    fn status(
        observed: &Observed,
        plan: &Plan,
        result: &ExecutionResult,
        now: Timestamp,
    ) -> (PodCliqueSetStatus, StatusChange) {
        let status = status::status(observed, plan, result, now);
        let change = status::status_change(observed, &status);
        (status, change)
    }

    /// The reconciler of domains deletes the domains of a deleted set.
    fn delete_dependents(_ctx: &Context, _deleted: &PodCliqueSet) -> Plan {
        Plan::new()
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
