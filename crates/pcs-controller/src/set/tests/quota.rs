//! Simulations of a set against an API server that rejects some of its children: reconcile after reconcile, until all children exist.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use grove_controller::create_backoff::CreateBackoff;
use grove_controller::events::EventBroadcaster;
use grove_controller::executor::Executor;
use grove_controller::plan::Step;
use grove_runtime::caches::Delta;
use grove_runtime::metrics::Metrics;
use grove_test_support::mock_api_server::{self, MockResponse, RecordedRequest};
use kube::ResourceExt;
use serde_json::json;

use super::{plan, stored, without_children};
use crate::set::desired::CHILD_KINDS;
use crate::set::observed::Observed;

/// The most creates that are in flight.
const IN_FLIGHT: usize = grove_controller::executor::MAX_IN_FLIGHT_WRITES;

/// A set with two cliques per replica, and everything that its reconciles need.
struct Simulation {
    observed: Observed,
    backoff: CreateBackoff<PodCliqueSet>,
    executor: Executor,
}

impl Simulation {
    /// A new set of this size. The API server creates an object or responds with `rejection`.
    fn new(
        replicas: i32,
        rejection: impl Fn(&RecordedRequest) -> Option<MockResponse> + Send + Sync + 'static,
    ) -> Self {
        let (client, _) = mock_api_server::client(move |request: &RecordedRequest| {
            rejection(request).unwrap_or_else(|| MockResponse::Json(201, request.body.clone()))
        });
        let mut observed = without_children();
        observed.set.spec.replicas = replicas;
        let executor = Executor::new(client, EventBroadcaster::discarding(), Metrics::new().expect("metrics"));
        Self { observed, backoff: CreateBackoff::default(), executor }
    }

    /// The numbers of created and of rejected objects of one reconcile. Then the caches have the created ones.
    async fn reconcile(&mut self) -> (usize, usize) {
        let Self { observed, backoff, executor } = self;
        observed.backed_off = backoff.active(&observed.set);
        let plan = plan(observed);
        let result = executor.execute(&observed.set, &plan).await;
        backoff.record(&observed.set, &observed.backed_off, &result);
        let created = result.steps.iter().filter(|step| step.result.is_ok());
        let created: BTreeSet<_> =
            created.map(|step| (step.target.resource.kind.as_str(), step.target.name.as_str())).collect();
        for step in plan.steps() {
            let Step::Create(create) = step else { panic!("{step} is not a create") };
            if created.contains(&(create.target.resource.kind.as_str(), create.target.name.as_str())) {
                assert!(CHILD_KINDS.apply_create(create, &mut observed.children, stored), "{step}");
            }
        }
        (created.len(), result.failures().count())
    }

    /// Waits for the next retry.
    async fn wait_for_retry(&mut self) -> Duration {
        assert_eq!(self.reconcile().await, (0, 0), "nothing is sent during the backoff");
        let wait = self.observed.backed_off.retry_after.expect("a retry");
        tokio::time::advance(wait).await;
        wait
    }

    /// Reports the deletion of an object in the namespace.
    fn report_deletion(&self) {
        let mut other = PodClique::clone(self.observed.children.of_kind::<PodClique>().next().expect("a clique"));
        other.metadata.name = Some("other".to_owned());
        assert_eq!(self.backoff.reset_on_delete(&Delta { old: Some(Arc::new(other)), new: None }).len(), 1);
    }

    fn is_complete(&self) -> bool {
        plan(&self.observed).is_empty() && self.backoff.is_empty()
    }
}

/// The rejections of a quota for one resource. `limit` may change.
fn quota(
    resource: &'static str,
    limit: &Arc<AtomicUsize>,
) -> impl Fn(&RecordedRequest) -> Option<MockResponse> + use<> {
    let (limit, used) = (Arc::clone(limit), AtomicUsize::new(0));
    move |request| {
        if !request.path.ends_with(resource) {
            return None;
        }
        if used.load(Ordering::SeqCst) < limit.load(Ordering::SeqCst) {
            used.fetch_add(1, Ordering::SeqCst);
            return None;
        }
        let mut body = mock_api_server::status(403, "Forbidden");
        body["message"] = json!("\"x\" is forbidden: exceeded quota: small");
        Some(MockResponse::Json(403, body))
    }
}

#[tokio::test(start_paused = true)]
async fn a_quota_that_admits_one_more_clique_per_retry_is_used_at_once_and_rejects_few_creates() {
    let limit = Arc::new(AtomicUsize::new(10));
    let mut simulation = Simulation::new(50, quota("/podcliques", &limit));
    let (created, rejected) = simulation.reconcile().await;
    assert_eq!(created, 1 + 50 + 50 + 10, "the revision, all services, all gangs and ten cliques");
    assert!((1..=IN_FLIGHT).contains(&rejected), "{rejected} rejections");
    for missing in (1..=90_usize).rev() {
        assert!(simulation.wait_for_retry().await <= Duration::from_millis(500));
        limit.fetch_add(1, Ordering::SeqCst);
        assert_eq!(
            simulation.reconcile().await,
            (1, missing.saturating_sub(1).min(2)),
            "{missing} cliques are missing"
        );
    }
    assert!(simulation.is_complete());
}

#[tokio::test(start_paused = true)]
async fn a_quota_of_gangs_delays_their_cliques_and_a_deleted_object_releases_one_create() {
    let limit = Arc::new(AtomicUsize::new(10));
    let mut simulation = Simulation::new(50, quota("/podgangs", &limit));
    let (created, rejected) = simulation.reconcile().await;
    assert_eq!(created, 1 + 50 + 10 + 20, "the revision, all services, ten gangs and their cliques");
    assert!((1..=IN_FLIGHT).contains(&rejected), "{rejected} rejections");
    for used in 11..=20 {
        limit.store(used, Ordering::SeqCst);
        simulation.report_deletion();
        assert_eq!(simulation.reconcile().await, (3, 2), "a gang and its cliques");
        let children = &simulation.observed.children;
        let has_gang = |clique: &Arc<PodClique>| {
            clique.name_any().rsplit_once('-').is_some_and(|(gang, _)| children.get::<PodGang>(gang).is_some())
        };
        assert_eq!(children.of_kind::<PodClique>().filter(|clique| has_gang(clique)).count(), 2 * used);
        assert_eq!(children.of_kind::<PodClique>().count(), 2 * used);
    }
    simulation.report_deletion();
    assert_eq!(simulation.reconcile().await, (0, 1), "the quota is exhausted");
    limit.store(50, Ordering::SeqCst);
    simulation.wait_for_retry().await;
    assert_eq!(simulation.reconcile().await, (30 + 60, 0));
    assert!(simulation.is_complete());
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_a_large_set_follows_at_full_speed_after_the_retry() {
    let limit = Arc::new(AtomicUsize::new(0));
    let mut simulation = Simulation::new(100, quota("/podcliques", &limit));
    assert_eq!(simulation.reconcile().await, (1 + 200, IN_FLIGHT));
    limit.store(usize::MAX, Ordering::SeqCst);
    simulation.wait_for_retry().await;
    assert_eq!(simulation.reconcile().await, (63, 0));
    simulation.observed.backed_off = simulation.backoff.active(&simulation.observed.set);
    let slow_starts = plan(&simulation.observed).stages.into_iter().map(|stage| (stage.steps.len(), stage.slow_start));
    assert_eq!(slow_starts.collect::<Vec<_>>(), [(137, None)]);
    assert_eq!(simulation.reconcile().await, (137, 0));
    assert!(simulation.is_complete());
}

#[tokio::test(start_paused = true)]
async fn a_policy_about_one_clique_of_each_replica_delays_no_other_clique() {
    let is_allowed = Arc::new(AtomicUsize::new(0));
    let allowed = Arc::clone(&is_allowed);
    let mut simulation = Simulation::new(100, move |request| {
        let is_decode = request.body["metadata"]["name"].as_str().is_some_and(|name| name.ends_with("-decode"));
        let is_denied = is_decode && allowed.load(Ordering::SeqCst) == 0;
        is_denied.then(|| MockResponse::error(422, "Invalid"))
    });
    assert_eq!(simulation.reconcile().await, (1 + 300, 100));
    simulation.wait_for_retry().await;
    assert_eq!(simulation.reconcile().await, (0, 100));
    is_allowed.store(1, Ordering::SeqCst);
    simulation.wait_for_retry().await;
    assert_eq!(simulation.reconcile().await, (100, 0));
    assert!(simulation.is_complete());
}
