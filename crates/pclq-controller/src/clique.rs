//! The reconciler of `PodClique`s; start here.
//!
//! A clique is self-contained: its claims, its pods, their number and their gang follow from the object itself, never from its set.
//! [`CliqueReconciler`] lists what enqueues a clique, and the steps of a reconcile: it takes a snapshot of the clique, its pods, its claims and its
//! gang from the caches (`observe`), reads the templates of claims (`dereference`), computes the next writes (`plan`), and after their execution
//! the new status (`status`). The plan of the claims is executed first, so that the plan of the pods contains exactly the pods with claims
//! that exist.

use std::borrow::Cow;

use futures::stream::{self, StreamExt};
use grove_api_types::configuration::OperatorConfiguration;
use grove_api_types::v1alpha1::{PodClique, PodCliqueStatus};
use grove_controller::children::ChildKinds;
use grove_controller::controller::ControllerBuilder;
use grove_controller::executor::ExecutionResult;
use grove_controller::expectations::PendingCreates;
use grove_controller::manager::Manager;
use grove_controller::orphan_deletions::OrphanDeletions;
use grove_controller::plan::Plan;
use grove_controller::reconcile_error::ReconcileError;
use grove_controller::reconciler::{self, Executed, Reconciler, Snapshot};
use grove_controller::resource_claims::TemplateReadErrors;
use grove_controller::shared_informer_factory::SharedInformerFactory;
use grove_controller::state_metrics::NamedCount;
use grove_controller::status_limiter::StatusChange;
use grove_controller::triggers::{Trigger, enqueue_all_on_relist, owners_after_namespace_termination};
use grove_runtime::caches::Cache;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

pub(crate) use self::observed::Observed;
#[cfg(feature = "rehearsal")]
pub(crate) use self::plan::pods as plan_pods;
use self::triggers::{clique_of_unreadable_pod, clique_of_update, cliques_of_pod};
use crate::claims::{self, CLAIM_KINDS, CliqueOwner};
use crate::clique_memory::CliqueMemory;
use crate::gangs::{self, PODS_BY_GANG};
use crate::informers::PclqCaches;
use crate::startup::cliques_of_parent;

mod desired;
mod observe;
mod observed;
mod plan;
mod status;
mod triggers;

#[cfg(test)]
mod tests;

pub(crate) type Context = reconciler::Context<CliqueReconciler>;

/// Reconciles cliques.
pub(crate) struct CliqueReconciler;

impl Reconciler for CliqueReconciler {
    /// The children are the claims. The pods have a plan of their own.
    type Owner = CliqueOwner;
    type Caches = PclqCaches;
    type Snapshot = Observed;

    /// Upstream defines the name.
    const CONTROLLER: &'static str = "podclique-controller";

    fn concurrency(config: &OperatorConfiguration) -> u16 {
        config.controllers.pod_clique.concurrent_syncs
    }

    fn informers(caches: &PclqCaches) -> (&Cache<PodClique>, &SharedInformerFactory) {
        (&caches.cliques, &caches.informers)
    }

    fn child_kinds(_manager: &Manager, _caches: &PclqCaches) -> ChildKinds<CliqueOwner> {
        CLAIM_KINDS
    }

    fn orphan_deletions(caches: &PclqCaches) -> Option<&OrphanDeletions> {
        Some(&caches.orphan_deletions)
    }

    fn state_maps() -> &'static [NamedCount<Context>] {
        &[
            ("tombstones", |ctx| ctx.caches.tombstones.len() + ctx.caches.tombstones.ended_pods()),
            ("gang_pods", |ctx| ctx.caches.cliques.sum_values(&PODS_BY_GANG)),
        ]
    }

    /// What triggers a reconcile of a clique, besides the reasons that [`ControllerBuilder::new`] lists for every controller:
    /// - a change of the clique itself, also if its status shows the begin of an update;
    /// - a change or a deletion of a pod. It enqueues the current and the previous controller, and for a pod without controller
    ///   the clique that its labels name. A creation, and progress of a live pod, have low priority, unless the gang
    ///   of the pod gates cliques and the pod has just been scheduled, or the pod becomes ready in an update;
    /// - a pod that becomes unreadable, is repaired or is deleted. It enqueues the controller, and for a pod without controller the clique
    ///   that its labels name;
    /// - a creation or a deletion of a gang, or a change of its pod groups. It enqueues the cliques of those pod groups (for a change,
    ///   with low priority);
    /// - a change after which the gang that gates its pods is scheduled, is no longer scheduled, exists or does not exist (see
    ///   `gangs/gating_gangs.rs`);
    /// - a change of a clique that its pods start after: it was created or deleted, or needs another number of ready pods (with low priority:
    ///   another number of its pods is ready);
    /// - a relist of the pods or of the claims, with low priority, because deltas may have been missed;
    /// - a change or a deletion of a claim of the clique. A creation and a change of only the
    ///   status have low priority;
    /// - a claim of its set or of its scaling group that its pods use and that appears, disappears, is terminating or has another controller;
    /// - the creation of a template of its claims;
    /// - the deletion of any pod of the namespace, readable or not, if creates of the clique were rejected: it may release quota. Each deletion
    ///   enqueues only the few cliques that wait longest;
    /// - the end of the termination of its namespace, because no pods were created during it.
    fn triggers(ctx: &Context, controller: ControllerBuilder<PodClique>) -> ControllerBuilder<PodClique> {
        let PclqCaches { cliques, pods, gangs, claims, .. } = &ctx.caches;
        let CliqueMemory { creates, gating_gangs, .. } = &ctx.caches.memory;
        let (creates, creates_of_unreadable, all_pods) = (creates.clone(), creates.clone(), pods.clone());
        let (for_pods, for_parents) = (cliques.clone(), cliques.clone());
        let controller = claims::watch(controller, claims, cliques);
        gangs::watch(controller, gating_gangs, gangs, cliques)
            .watches(pods.subscribe().flat_map(move |delta| {
                let retries = creates.observe_delta(&delta).into_iter().map(Trigger::Retry);
                stream::iter(retries.chain(cliques_of_pod(&for_pods, &delta)))
            }))
            .watches(pods.subscribe_unreadable().flat_map(move |pod| {
                let retries = creates_of_unreadable.observe_unreadable(&all_pods, &pod).into_iter().map(Trigger::Retry);
                let clique = clique_of_unreadable_pod(&pod.metadata).map(Trigger::Reconcile);
                stream::iter(retries.chain(clique))
            }))
            .watches(cliques.subscribe().flat_map(move |delta| stream::iter(cliques_of_parent(&for_parents, &delta))))
            .watches(cliques.subscribe().flat_map(|delta| stream::iter(clique_of_update(&delta))))
            .watches(enqueue_all_on_relist(cliques, vec![pods.relists()]))
            .retry_on(owners_after_namespace_termination(cliques, &ctx.caches.terminating_namespaces))
    }

    fn observe(ctx: &Context, clique: &PodClique, now: Timestamp) -> Observed {
        observe::observe(ctx, clique, now)
    }

    /// Reads the templates of missing claims.
    async fn dereference(ctx: &Context, mut observed: Observed, _now: Timestamp) -> Result<Observed, ReconcileError> {
        claims::read_templates(&ctx.client(), &observed.state, &mut observed.claims).await;
        Ok(observed)
    }

    /// Executes the plan of the claims, and then that of the pods whose claims exist.
    async fn execute(ctx: &Context, clique: &PodClique, mut observed: Observed, _now: Timestamp) -> Executed<Observed> {
        let claims_plan = claims::plan(&observed, &observed.claims);
        let backed_off = &observed.claims.backed_off;
        let claims_result = ctx.children.execute(&ctx.executor, clique, &claims_plan, backed_off).await;
        observed.claims.record_created(&claims_result);
        let pods_plan = plan::pods(&observed);
        let pods_result = execute_pods(ctx, clique, &observed, &pods_plan).await;
        let steps = claims_result.steps.into_iter().chain(pods_result.steps).collect();
        Executed { snapshot: observed, plan: plan::merged(claims_plan, pods_plan), result: ExecutionResult { steps } }
    }

    fn status(
        observed: &Observed,
        plan: &Plan,
        result: &ExecutionResult,
        now: Timestamp,
    ) -> (PodCliqueStatus, StatusChange) {
        let status = status::status(observed, plan, result, now);
        let change = status::status_change(observed, &status);
        (status, change)
    }

    fn forget(ctx: &Context, deleted: &PodClique) {
        ctx.caches.tombstones.forget(&deleted.uid().unwrap_or_default());
        ctx.caches.memory.forget(&ctx.caches.cliques, deleted);
    }

    fn delete_dependents(ctx: &Context, deleted: &PodClique) -> Plan {
        let (namespace, uid) = (deleted.namespace().unwrap_or_default(), deleted.uid().unwrap_or_default());
        let (pods, claims) = (&ctx.caches.pods, &ctx.caches.claims.claims);
        plan::delete_children(&pods.owned_by(&namespace, &uid), &claims.owned_by(&namespace, &uid))
    }
}

impl Snapshot for Observed {
    fn omits_status(&self) -> bool {
        self.is_terminating()
    }

    /// Pods and claims.
    fn pending_creates(&self) -> Cow<'_, PendingCreates> {
        Cow::Owned(self.all_pending_creates())
    }

    fn read_errors(&self) -> TemplateReadErrors {
        self.claims.read_errors.clone()
    }
}

/// Executes the plan of the pods, and records its creates.
async fn execute_pods(ctx: &Context, clique: &PodClique, observed: &Observed, plan: &Plan) -> ExecutionResult {
    let CliqueMemory { creates, write_history, replacements, .. } = &ctx.caches.memory;
    write_history.record_created_names(observed.uid(), plan);
    replacements.record_creation_times(observed.uid(), plan);
    creates.expect_creations(clique, plan, |_| observed.relists);
    let result = ctx.executor.execute(clique, plan).await;
    creates.record(clique, &observed.backed_off, &result);
    write_history.record_conflicts(observed.uid(), &result);
    write_history.record_last_create(observed.uid(), plan, &result);
    result
}
