//! The reconciler of `PodCliqueScalingGroup`s; start here.
//!
//! [`GroupReconciler`] lists what enqueues a group, and the steps of a reconcile: it takes a snapshot of the group, its set and its cliques from
//! the caches (`observe`), reads the templates of claims (`dereference`), computes the next writes (`plan`), and after their execution the new
//! status (`status`).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::stream::{self, StreamExt};
use grove_api_types::configuration::OperatorConfiguration;
use grove_api_types::expansion::Revision;
use grove_api_types::v1alpha1::{PodCliqueScalingGroup, PodCliqueScalingGroupStatus, PodCliqueSet};
use grove_controller::children::ChildKinds;
use grove_controller::controller::ControllerBuilder;
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::executor::ExecutionResult;
use grove_controller::expectations::PendingCreates;
use grove_controller::manager::Manager;
use grove_controller::name_conflict::NameConflicts;
use grove_controller::orphan_deletions::OrphanDeletions;
use grove_controller::plan::{Plan, Waiting};
use grove_controller::predicates::metadata_or_generation_changed;
use grove_controller::reconcile_error::ReconcileError;
use grove_controller::reconciler::{self, Reconciler, Snapshot};
use grove_controller::resource_claims::TemplateReadErrors;
use grove_controller::shared_informer_factory::SharedInformerFactory;
use grove_controller::status_limiter::StatusChange;
use grove_controller::triggers::{Trigger, owners_after_namespace_termination};
use grove_runtime::caches::Cache;
use k8s_openapi::jiff::Timestamp;

use self::triggers::{groups_of_gang, groups_of_set, was_created_or_deleted_or_has_other_pod_group};
use crate::informers::PcsCaches;
use crate::startup::{self, Identity};
use crate::update;

mod desired;
mod observe;
pub(crate) mod observed;
mod plan;
mod recorded_scale;
mod status;
mod triggers;

#[cfg(test)]
mod tests;

pub(crate) use self::desired::CHILD_KINDS;
pub(crate) use self::observed::GroupOwner;
use self::observed::Observed;

pub(crate) type Context = reconciler::Context<GroupReconciler>;

/// Reconciles scaling groups.
pub(crate) struct GroupReconciler;

impl Reconciler for GroupReconciler {
    type Owner = GroupOwner;
    type Caches = PcsCaches;
    type Snapshot = Observed;

    /// Upstream defines the name.
    const CONTROLLER: &'static str = "podcliquescalinggroup-controller";

    fn concurrency(config: &OperatorConfiguration) -> u16 {
        config.controllers.pod_clique_scaling_group.concurrent_syncs
    }

    fn informers(caches: &PcsCaches) -> (&Cache<PodCliqueScalingGroup>, &SharedInformerFactory) {
        (&caches.groups, &caches.informers)
    }

    fn child_kinds(_manager: &Manager, _caches: &PcsCaches) -> ChildKinds<GroupOwner> {
        CHILD_KINDS
    }

    fn orphan_deletions(caches: &PcsCaches) -> Option<&OrphanDeletions> {
        Some(&caches.orphan_deletions)
    }

    /// What triggers a reconcile of a group, besides the reasons that [`ControllerBuilder::new`] lists for every controller:
    /// - a change of the group itself;
    /// - a change of its set in more than the status, because the cliques follow the template, and the begin and the end of its update;
    /// - a creation or a deletion of a gang that its cliques belong to, or another `PodGroup` in the annotations of the gang, because a
    ///   clique waits for its gang and names its `PodGroup`;
    /// - a change or a deletion of a child of any kind in [`desired::CHILD_KINDS`]. It enqueues the current and the previous
    ///   controller. A creation and a change of only the status have low
    ///   priority;
    /// - a relist of a child kind, because a child that was created and deleted before it has no delta;
    /// - the deletion of a child anywhere in the namespace, if a quota rejected creates of the group: it may release quota;
    /// - a compute domain of its replica of the set that appeared, disappeared, or changed in what a replica waits for;
    /// - the creation of a `ResourceClaimTemplate` from which its set or a scaling group of its set creates claims;
    /// - the end of the termination of its namespace, because nothing was created during it.
    fn triggers(
        ctx: &Context,
        controller: ControllerBuilder<PodCliqueScalingGroup>,
    ) -> ControllerBuilder<PodCliqueScalingGroup> {
        let PcsCaches { sets, groups, gangs, resource_claims, .. } = &ctx.caches;
        let (all_groups, all_sets) = (groups.clone(), sets.clone());
        let set_changed = |delta: &_| metadata_or_generation_changed(delta) || update::has_changed(delta);
        let changed_sets = sets.subscribe().filter(move |delta| std::future::ready(set_changed(delta)));
        let of_sets = changed_sets.flat_map(move |delta| stream::iter(groups_of_set(&all_groups, &delta)));
        let is_changed = was_created_or_deleted_or_has_other_pod_group;
        let changed_gangs = gangs.subscribe().filter(move |delta| std::future::ready(is_changed(delta)));
        let of_gangs = changed_gangs.flat_map(move |delta| stream::iter(groups_of_gang(&all_sets, &delta)));
        controller
            .watches(of_sets.map(Trigger::Reconcile))
            .watches(of_gangs.map(Trigger::Reconcile))
            .watches(ctx.caches.compute_domains.changed_groups(groups))
            .watches(resource_claims.groups_of_created(sets, groups))
            .watches(resource_claims.access.owners_after_change(groups))
            .retry_on(owners_after_namespace_termination(groups, &ctx.caches.terminating_namespaces))
    }

    fn observe(ctx: &Context, group: &PodCliqueScalingGroup, _now: Timestamp) -> Observed {
        observe::observe(ctx, group)
    }

    /// Reads the templates of claims and the revisions of replicas that are updated later, and finds out who has the names of the identity of the
    /// set. If the set must decide about the `PodGroup` of a gang, asks for the decision.
    async fn dereference(ctx: &Context, mut observed: Observed, _now: Timestamp) -> Result<Observed, ReconcileError> {
        let (client, keys) = (ctx.client(), observed.templates_to_read());
        let read = ctx.caches.resource_claims.read_templates(&client, keys, &mut observed.claims.templates);
        observed.read_errors = read.await;
        let read = async |observed: &Observed, hashes: BTreeSet<&str>| read_revisions(ctx, observed, hashes).await;
        let PcsCaches { sets, incarnations, .. } = &ctx.caches;
        let request = |set: &_, gang, hash: &_| incarnations.request_restart(sets, set, gang, hash);
        let mut observed = Box::pin(assign_revisions(observed, read, request)).await?;
        observed.identity_conflict = Box::pin(identity_conflict(ctx, &observed)).await?;
        if let Some(set) = observed.set.as_ref().filter(|_| !observed.undecided_gangs.is_empty()) {
            ctx.caches.incarnations.request_decision(set);
        }
        Ok(observed)
    }

    fn plan(observed: &Observed, now: Timestamp) -> Plan {
        plan::plan(observed, now)
    }

    fn status(
        observed: &Observed,
        plan: &Plan,
        result: &ExecutionResult,
        now: Timestamp,
    ) -> (PodCliqueScalingGroupStatus, StatusChange) {
        let status = status::status(observed, plan, result, now);
        let change = status::status_change(observed, &status);
        (status, change)
    }
}

/// Builds the group from the revision that the set has chosen, and lets each replica keep its revision until its turn. `read` reads revisions by
/// their hashes, and `request_restart` asks the set for the next incarnation of a gang, for the revision with a hash.
pub(crate) async fn assign_revisions(
    observed: Observed,
    read: impl AsyncFn(&Observed, BTreeSet<&str>) -> Result<BTreeMap<String, Arc<Revision>>, ReconcileError>,
    request_restart: impl Fn(&PodCliqueSet, String, &str),
) -> Result<Observed, ReconcileError> {
    let target = observed.target_hash().map(str::to_owned);
    let is_expanded = observed.set.is_some() && !observed.is_terminating();
    let Some(target) = target.filter(|_| is_expanded) else { return Ok(observed) };
    let is_current = observed.revision.as_ref().is_some_and(|current| current.hashes().generation_hash == target);
    let chosen = if is_current { BTreeSet::new() } else { BTreeSet::from([target.as_str()]) };
    let mut revisions = read(&observed, chosen).await?;
    let mut observed = match revisions.get(&target) {
        Some(revision) => observed.built_from(revision),
        None if is_current => observed,
        None => return Ok(observed.kept_as_it_is(&target)),
    };
    let states = observed.replica_states();
    let is_open = is_current && observed.set.as_ref().is_some_and(|set| update::is_open(set, &target));
    let mut earlier = observed.earlier_revisions(&states, is_open);
    for (replica, gang, hash) in observed.awaiting_restart(&states, &earlier) {
        if let Some(set) = observed.set.as_ref().filter(|_| is_open) {
            request_restart(set, gang, &target);
            earlier.insert(replica, hash);
        }
    }
    let unread = earlier.values().map(String::as_str).filter(|hash| *hash != target).collect();
    revisions.extend(read(&observed, unread).await?);
    observed.assign_revisions((&states, &earlier), is_open, &revisions);
    Ok(observed)
}

async fn read_revisions(
    ctx: &Context,
    observed: &Observed,
    hashes: BTreeSet<&str>,
) -> Result<BTreeMap<String, Arc<Revision>>, ReconcileError> {
    match observed.set.as_ref().zip(observed.revision.as_ref()) {
        Some((set, current)) => update::read_revisions(&ctx.client(), set, current, hashes).await,
        None => Ok(BTreeMap::new()),
    }
}

/// Why cliques that start after others are not created. Cliques that exist are not affected.
async fn identity_conflict(ctx: &Context, observed: &Observed) -> Result<Option<Waiting>, ReconcileError> {
    let Some(set) = observed.set.as_ref().filter(|_| observed.lacks_waiting_clique()) else { return Ok(None) };
    let identity = Identity { token: ctx.config().startup.token, ..Identity::default() };
    let conflicts = startup::name_conflicts(&ctx.client(), &ctx.caches.identities, set, &identity).await?;
    let labels = observed.base_labels();
    Ok(startup::identity_conflict(&NameConflicts { owner: set, conflicts: &conflicts, labels: &labels }))
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
