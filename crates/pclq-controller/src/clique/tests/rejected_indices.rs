//! The API server rejects some pods of a clique for reasons of their own: a retry tries the other indices in turn.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use grove_api_types::configuration::OperatorConfiguration;
use grove_api_types::labels::POD_INDEX;
use grove_controller::manager::Manager;
use grove_controller::orphan_deletions::OrphanDeletions;
use grove_controller::shared_informer_factory::SharedInformerFactory;
use grove_controller::template_access::TemplateAccess;
use grove_controller::terminating_namespaces::TerminatingNamespaces;
use grove_runtime::caches::Cache;
use grove_runtime::client::Clients;
use grove_runtime::runtime::Runtime;
use grove_test_support::mock_api_server::{self, MockResponse, RecordedRequest, RequestLog};
use serde_json::json;

use super::snapshot;
use crate::claims::ClaimCaches;
use crate::clique::Context;
use crate::clique_memory::CliqueMemory;
use crate::informers::PclqCaches;
use crate::startup::InitContainer;
use crate::tombstones::Tombstones;
use grove_controller::reconciler::reconcile;

/// Longer than the first backoff.
const BACKOFF: Duration = Duration::from_secs(1);

/// The index of the pod, if the request creates one.
fn created_index(request: &RecordedRequest) -> Option<i32> {
    let is_create = request.method == "POST" && request.path.ends_with("/pods");
    request.body["metadata"]["labels"][POD_INDEX].as_str().filter(|_| is_create)?.parse().ok()
}

/// A clique in an API server that rejects the pods with these indices.
struct Fixture {
    ctx: Arc<Context>,
    log: RequestLog,
}

impl Fixture {
    fn new(rejected: impl Fn(i32) -> bool + Send + Sync + 'static) -> Self {
        let (client, log) = mock_api_server::client(move |request| {
            if created_index(request).is_some_and(&rejected) {
                return MockResponse::error(403, "Forbidden");
            }
            let mut body = request.body.clone();
            body["metadata"]["uid"] = json!(format!("uid-{}", body["metadata"]["name"]));
            MockResponse::ok(body)
        });
        let clients = Clients { requests: client.clone(), watches: client };
        let runtime = Runtime::from_clients("test", clients, OperatorConfiguration::default()).unwrap();
        let (cliques, informers) = (Cache::from_objects([]), SharedInformerFactory::new(&runtime));
        let caches = PclqCaches {
            init_container: InitContainer::default(),
            claims: ClaimCaches {
                claims: informers.cache(),
                templates: informers.cache(),
                access: TemplateAccess::new(None),
            },
            informers,
            tombstones: Tombstones::new(&cliques),
            cliques,
            pods: Cache::from_objects([]),
            gangs: Cache::from_objects([]),
            orphan_deletions: OrphanDeletions::default(),
            terminating_namespaces: TerminatingNamespaces::new(Cache::from_objects([])),
            memory: CliqueMemory::default(),
        };
        let ctx = Context::new(&Manager::new(&runtime).unwrap(), caches);
        Self { ctx, log }
    }

    /// Reconciles a clique of this size, and returns the indices of the creates.
    async fn reconcile_later(&self, replicas: i32) -> BTreeSet<i32> {
        tokio::time::advance(BACKOFF).await;
        let before = self.log.requests().len();
        let clique = Arc::new(snapshot(&format!("{{replicas: {replicas}}}")).state.clique);
        let _ = reconcile(clique, Arc::clone(&self.ctx)).await;
        self.log.requests()[before..].iter().filter_map(created_index).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn pods_that_are_rejected_for_reasons_of_their_own_block_the_others_for_one_backoff() {
    let fixture = Fixture::new(|index| index < 8);
    assert_eq!(fixture.reconcile_later(20).await, (0..8).collect::<BTreeSet<_>>(), "the first batch");
    let expected: BTreeSet<_> = [0].into_iter().chain(8..20).collect();
    assert_eq!(fixture.reconcile_later(20).await, expected, "the lowest index, and all behind the first batch");
}

#[tokio::test(start_paused = true)]
async fn each_index_is_tried_in_turn() {
    let fixture = Fixture::new(|_| true);
    assert_eq!(fixture.reconcile_later(11).await, (0..8).collect::<BTreeSet<_>>());
    for expected in [[0, 8], [0, 9], [0, 10], [0, 1], [0, 2]] {
        let mut sent = BTreeSet::new();
        while sent.is_empty() {
            sent = fixture.reconcile_later(11).await;
        }
        assert_eq!(sent, BTreeSet::from(expected), "the lowest index, and the next one in turn");
    }
}
