//! The reconciler of `PodCliqueSet`s; start here.
//!
//! [`SetReconciler`] lists what enqueues a set, and the steps of a reconcile: it takes a snapshot of the set and its children from the caches
//! (`observe`), adds what only the API server knows (`dereference`), computes the next writes (`plan`), and after their execution the new
//! status (`status`).

use std::borrow::Cow;

use futures::stream::{self, StreamExt};
use grove_api_types::configuration::OperatorConfiguration;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodCliqueSet, PodCliqueSetStatus};
use grove_controller::children::ChildKinds;
use grove_controller::controller::ControllerBuilder;
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::executor::ExecutionResult;
use grove_controller::expectations::PendingCreates;
use grove_controller::manager::Manager;
use grove_controller::orphan_deletions::OrphanDeletions;
use grove_controller::plan::Plan;
use grove_controller::reconcile_error::ReconcileError;
use grove_controller::reconciler::{self, Reconciler, Snapshot};
use grove_controller::resource_claims::TemplateReadErrors;
use grove_controller::shared_informer_factory::SharedInformerFactory;
use grove_controller::status_limiter::StatusChange;
use grove_controller::triggers::{Trigger, owners_after_namespace_termination};
use grove_runtime::caches::Cache;
use k8s_openapi::jiff::Timestamp;

use crate::claims::sets_of_deleted_cliques;
use crate::informers::PcsCaches;
use crate::native_gangs::live_reads;
use crate::{startup, topology, update};

mod desired;
mod observe;
pub(crate) mod observed;
mod plan;
mod status;

#[cfg(test)]
mod tests;

pub(crate) use self::desired::CHILD_KINDS;
use self::observed::Observed;
pub(crate) use self::observed::SetOwner;

pub(crate) type Context = reconciler::Context<SetReconciler>;

/// Reconciles sets.
pub(crate) struct SetReconciler;

impl Reconciler for SetReconciler {
    type Owner = SetOwner;
    type Caches = PcsCaches;
    type Snapshot = Observed;

    /// Upstream defines the name.
    const CONTROLLER: &'static str = "podcliqueset-controller";

    fn concurrency(config: &OperatorConfiguration) -> u16 {
        config.controllers.pod_clique_set.concurrent_syncs
    }

    fn informers(caches: &PcsCaches) -> (&Cache<PodCliqueSet>, &SharedInformerFactory) {
        (&caches.sets, &caches.informers)
    }

    fn child_kinds(_manager: &Manager, _caches: &PcsCaches) -> ChildKinds<SetOwner> {
        CHILD_KINDS
    }

    fn orphan_deletions(caches: &PcsCaches) -> Option<&OrphanDeletions> {
        Some(&caches.orphan_deletions)
    }

    /// What triggers a reconcile of a set, besides the reasons that [`ControllerBuilder::new`] lists for every controller:
    /// - a change of the set itself;
    /// - a change or a deletion of a child of any kind in [`desired::CHILD_KINDS`]. It enqueues the current and the previous
    ///   controller. A creation, a change of only the status, and a change of
    ///   only the pod references of a gang have low priority;
    /// - a relist of a child kind, because a child that was created and deleted before it has no delta;
    /// - the deletion of a child anywhere in the namespace, if a quota rejected creates of the set: it may release quota;
    /// - a creation, a deletion or a change of the levels of the topology that the set refers to;
    /// - a compute domain of the set that appeared, disappeared, or changed in what a replica waits for;
    /// - the creation of a `ResourceClaimTemplate` from which the set creates claims;
    /// - the deletion of a clique of a scaling group with claims: a claim of a removed replica may be deleted then;
    /// - the end of the termination of its namespace, because nothing was created during it;
    /// - a scaling group that waits for the `PodGroup` of a gang, because only the set decides it;
    /// - another number of desired pods of a clique whose gang has a `PodGroup`, and another number of its scheduled pods if the decision
    ///   about the `PodGroup` of its gang depends on the bound pods.
    fn triggers(ctx: &Context, controller: ControllerBuilder<PodCliqueSet>) -> ControllerBuilder<PodCliqueSet> {
        let PcsCaches { sets, cliques, incarnations, resource_claims, .. } = &ctx.caches;
        controller
            .watches(stream::iter(incarnations.requested_decisions()).flatten().map(Trigger::Reconcile))
            .watches(ctx.caches.topologies.sets_of_changed(sets))
            .watches(ctx.caches.compute_domains.changed_sets())
            .watches(resource_claims.sets_of_created(sets))
            .watches(sets_of_deleted_cliques(cliques))
            .watches(incarnations.sets_of_changed_cliques(sets, cliques))
            .watches(resource_claims.access.owners_after_change(sets))
            .retry_on(owners_after_namespace_termination(sets, &ctx.caches.terminating_namespaces))
    }

    fn observe(ctx: &Context, set: &PodCliqueSet, _now: Timestamp) -> Observed {
        observe::observe(ctx, set)
    }

    /// Confirms a missing topology, reads the revisions of replicas that are updated later, decides about the `PodGroup`s of the gangs, finds out
    /// who has the names of the identity, and reads the templates of claims.
    async fn dereference(ctx: &Context, mut observed: Observed, now: Timestamp) -> Result<Observed, ReconcileError> {
        confirm_topology(ctx, &mut observed).await?;
        Box::pin(assign_revisions(ctx, &mut observed)).await?;
        observe::decide_gangs(ctx, &mut observed, now);
        live_reads::close_decisions(&ctx.client(), &observed.set, &mut observed.gang_decisions, now).await?;
        observed.retain_topologies_of_bound_gangs();
        // On the heap: with it, the future of a reconcile would be large.
        Box::pin(dereference_identity(ctx, &mut observed)).await?;
        let (client, keys) = (ctx.client(), observed.templates_to_read());
        let read = ctx.caches.resource_claims.read_templates(&client, keys, &mut observed.claims.templates);
        observed.read_errors = read.await;
        observe::record_gang_decisions(ctx, &observed);
        Ok(observed)
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
        // Every change is significant: the cliques and groups of the set already limit their minor changes.
        (status::status(observed, plan, result, now), StatusChange::Significant)
    }

    fn forget(ctx: &Context, deleted: &PodCliqueSet) {
        ctx.caches.incarnations.forget(deleted);
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

    fn read_errors(&self) -> TemplateReadErrors {
        self.read_errors.clone()
    }
}

/// Lets each replica keep its revision until its turn.
async fn assign_revisions(ctx: &Context, observed: &mut Observed) -> Result<(), ReconcileError> {
    if observed.is_terminating() || observed.exceeded_limit().is_some() {
        return Ok(());
    }
    let earlier = observed.earlier_revisions();
    let hashes = earlier.values().map(String::as_str).collect();
    let revisions = update::read_revisions(&ctx.client(), &observed.set, &observed.revision, hashes).await?;
    observed.assign_revisions(&earlier, &revisions);
    Ok(())
}

/// Finds out whether another owner has a name of the identity, and whether a pod uses an identity that the set does not need any more.
async fn dereference_identity(ctx: &Context, observed: &mut Observed) -> Result<(), ReconcileError> {
    if observed.is_terminating() || observed.exceeded_limit().is_some() {
        return Ok(());
    }
    let (client, set) = (ctx.client(), &observed.set);
    let conflicts = startup::name_conflicts(&client, &ctx.caches.identities, set, &observed.identity).await?;
    observed.identity.is_account_foreign = startup::has_foreign_account(&conflicts);
    if let Some(undesired) = observed.identity.undesired(set, &observed.children) {
        observed.identity.is_in_use = startup::is_in_use(&client, set, &undesired).await?;
    }
    for conflict in conflicts {
        if observed.name_conflicts.iter().all(|other| other.target != conflict.target) {
            observed.name_conflicts.push(conflict);
        }
    }
    Ok(())
}

/// A set may be reconciled before the cache has its topology. Before a gang is created without constraints or loses them, a live GET
/// confirms that the topology does not exist.
async fn confirm_topology(ctx: &Context, observed: &mut Observed) -> Result<(), ReconcileError> {
    let Some(name) = observed.topology_to_confirm() else { return Ok(()) };
    match topology::get_live(&ctx.client(), &name).await {
        Ok(Some(topology)) => {
            observed.topologies.found(&observed.set, topology, observed.children.of_kind::<PodGang>());
        }
        Ok(None) => {}
        Err(error @ (kube::Error::SerdeError(_) | kube::Error::Api(_))) if !is_temporary(&error) => {
            tracing::warn!(topology = name, %error, "cannot read the topology; the gangs of the set have no constraints");
        }
        Err(error) => return Err(ReconcileError::read(name, &error)),
    }
    Ok(())
}

/// Whether the API server may answer a repeated request.
fn is_temporary(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code >= 500 || status.code == 429)
}
