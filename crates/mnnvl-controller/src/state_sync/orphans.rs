//! The reconcilers of objects whose domain no longer exists: of `DaemonSet`s, claim templates and nodes.
//!
//! A domain is deleted after its objects ([`super::plan`]). But a user may remove its finalizer, and the kubelet plugin may label a node late.
//! A live LIST confirms that the domain does not exist, because the cache of domains may be older than the object.

use std::borrow::Cow;
use std::sync::Arc;

use futures::stream::{self, StreamExt};
use grove_api_types::compute_domain::{ComputeDomain, DOMAIN_LABEL};
use grove_controller::controller::ControllerBuilder;
use grove_controller::manager::Manager;
use grove_controller::plan::{Plan, Stage, Step};
use grove_controller::reconcile_error::ReconcileError;
use grove_controller::requeue::Requeue;
use grove_runtime::caches::Cache;
use grove_runtime::live_list;
use kube::api::ListParams;
use kube::runtime::reflector::ObjectRef;
use kube::{Resource, ResourceExt};
use serde::Deserialize;

use super::StateSyncContext;
use super::domain::SyncedDomain;
use super::informers::BY_UID;
use super::objects::{SlimClaimTemplate, SlimDaemonSet, SlimNode, by_domain, delete, release};

/// The names of the controllers in logs, metrics and events.
const DAEMON_SETS: &str = "computedomain-daemonset-controller";
const CLAIM_TEMPLATES: &str = "computedomain-claimtemplate-controller";
const NODES: &str = "computedomain-node-controller";

/// The identity of a live domain.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Identity {
    uid: String,
}

/// Reconciles the `DaemonSet`s until the service is stopped.
pub(super) async fn run_daemon_sets(manager: &Manager, ctx: Arc<StateSyncContext>) {
    let controller = triggers(DAEMON_SETS, &ctx.caches.daemon_sets, &ctx.caches.domains);
    let reconcile = async |object: Arc<SlimDaemonSet>, ctx: Arc<StateSyncContext>| {
        let is_ours = object.metadata.namespace.as_deref() == Some(ctx.settings.namespace.as_str());
        let steps = if is_ours { vec![delete(&*object), release(&*object)] } else { vec![] };
        reconcile(&*object, &ctx, steps).await
    };
    controller.run(manager, ctx, reconcile).await;
}

/// Reconciles the claim templates until the service is stopped.
pub(super) async fn run_claim_templates(manager: &Manager, ctx: Arc<StateSyncContext>) {
    let controller = triggers(CLAIM_TEMPLATES, &ctx.caches.claim_templates, &ctx.caches.domains);
    let reconcile = async |object: Arc<SlimClaimTemplate>, ctx: Arc<StateSyncContext>| {
        // Without the finalizer, it is a template of a user.
        let released = release(&*object);
        let steps = if released.is_some() { vec![delete(&*object), released] } else { vec![] };
        reconcile(&*object, &ctx, steps).await
    };
    controller.run(manager, ctx, reconcile).await;
}

/// Reconciles the nodes until the service is stopped.
pub(super) async fn run_nodes(manager: &Manager, ctx: Arc<StateSyncContext>) {
    let controller = triggers(NODES, &ctx.caches.nodes, &ctx.caches.domains);
    let reconcile = async |object: Arc<SlimNode>, ctx: Arc<StateSyncContext>| {
        let steps = vec![object.remove_label()];
        reconcile(&*object, &ctx, steps).await
    };
    controller.run(manager, ctx, reconcile).await;
}

/// What triggers a reconcile of an object, besides the reasons that [`ControllerBuilder::new`] lists for every controller: the deletion of its
/// domain.
fn triggers<K>(name: &'static str, objects: &Cache<K>, domains: &Cache<SyncedDomain>) -> ControllerBuilder<K>
where
    K: Resource<DynamicType = ()> + Send + Sync + 'static,
{
    let of_domain = objects.clone();
    let deleted = domains.subscribe().filter_map(async |delta| delta.old.filter(|_| delta.new.is_none()));
    let of_deleted = deleted.flat_map(move |domain| {
        let found = of_domain.by_index(&by_domain(), &domain.uid().unwrap_or_default());
        stream::iter(found.into_iter().map(|object| ObjectRef::from_obj(&*object)))
    });
    ControllerBuilder::new(name, objects.clone(), objects.subscribe()).watches(of_deleted)
}

/// Executes the steps if the domain of the object does not exist.
async fn reconcile<K: Resource<DynamicType = ()>>(
    object: &K,
    ctx: &StateSyncContext,
    steps: Vec<Option<Step>>,
) -> Result<Requeue, ReconcileError> {
    let requeue = Requeue::AwaitChange;
    let uid = object.labels().get(DOMAIN_LABEL).map(Cow::Borrowed).unwrap_or_default();
    if steps.iter().all(Option::is_none) || !ctx.caches.domains.by_index(&BY_UID, &uid).is_empty() {
        return Ok(requeue);
    }
    let is_it = |live: Identity| (live.uid == *uid).then_some(());
    let exists = live_list::find_metadata::<ComputeDomain, _, _>(&ctx.client, None, ListParams::default(), is_it).await;
    if exists.map_err(|error| ReconcileError::read(object.name_any(), &error))?.is_some() {
        return Ok(requeue);
    }
    // A domain has ended before its objects, so each step is a stage: the deletion precedes the removal of the finalizer.
    let stages = steps.into_iter().flatten().map(|step| Stage::new("orphan", [step]));
    let plan = stages.fold(Plan::new(), Plan::stage);
    let executed = ctx.executor.execute(object, &plan).await;
    executed.into_result().map_err(|source| ReconcileError::Execute { source, requeue })?;
    Ok(requeue)
}
