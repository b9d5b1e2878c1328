//! The deletion of a clique: its in-memory state ends, and its pods are deleted unless the deletion orphaned them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use grove_api_types::configuration::OperatorConfiguration;
use grove_api_types::ownership::controller_owner_reference;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::PodClique;
use grove_controller::manager::Manager;
use grove_controller::orphan_deletions::OrphanDeletions;
use grove_controller::shared_informer_factory::SharedInformerFactory;
use grove_controller::slim_pod::SlimPod;
use grove_controller::template_access::TemplateAccess;
use grove_controller::terminating_namespaces::TerminatingNamespaces;
use grove_runtime::caches::{Cache, Delta, InformerOptions};
use grove_runtime::client::Clients;
use grove_runtime::runtime::Runtime;
use grove_test_support::mock_api_server::{self, MockResponse, RecordedRequest};
use serde_json::json;

use super::{gang, pod, snapshot};
use crate::claims::ClaimCaches;
use crate::clique::{CliqueReconciler, Context};
use crate::clique_memory::CliqueMemory;
use crate::gangs::{BY_GATING_GANG, PODS_BY_GANG};
use crate::informers::PclqCaches;
use crate::startup::InitContainer;
use crate::tombstones::Tombstones;
use grove_controller::reconciler::{Reconciler, cleanup_plan, reconcile};

/// An API server with one claim, of the removed index 7. It accepts the first pod and rejects all others.
fn manager() -> Manager {
    let pods = AtomicUsize::new(0);
    let owner = controller_owner_reference(&snapshot("").clique);
    let metadata =
        json!({ "name": "llm-0-decode-7-gpus", "namespace": "prod", "uid": "uid-claim", "ownerReferences": owner });
    let (client, _) = mock_api_server::client(move |request: &RecordedRequest| {
        if request.is_watch() {
            return MockResponse::Watch { events: vec![], stays_open: true };
        }
        if request.method == "GET" && request.path.contains("/resource.k8s.io/") {
            let items =
                if request.path.ends_with("/resourceclaims") { json!([{ "metadata": metadata }]) } else { json!([]) };
            return MockResponse::ok(json!({ "metadata": { "resourceVersion": "9" }, "items": items }));
        }
        let is_pod = request.method == "POST" && request.path.ends_with("/pods");
        if is_pod && pods.fetch_add(1, Ordering::SeqCst) > 0 {
            return MockResponse::error(403, "Forbidden");
        }
        let mut body = request.body.clone();
        body["metadata"]["uid"] = json!("uid-new");
        MockResponse::ok(body)
    });
    let clients = Clients { requests: client.clone(), watches: client };
    let runtime = Runtime::from_clients("test", clients, OperatorConfiguration::default()).unwrap();
    Manager::new(&runtime).unwrap()
}

fn pod_of(clique: &PodClique, name: &str, index: i32, phase: &str) -> SlimPod {
    let mut pod = SlimPod::clone(&pod(&json!({ "i": index, "name": name, "phase": phase })));
    pod.metadata.owner_references = Some(controller_owner_reference(clique));
    pod
}

/// A context with these caches and this state.
fn context(
    manager: &Manager,
    (cliques, pods, gangs): (Cache<PodClique>, Cache<SlimPod>, Cache<PodGang>),
    tombstones: Tombstones,
    orphan_deletions: OrphanDeletions,
) -> Arc<Context> {
    let informers = SharedInformerFactory::new(manager);
    let caches = PclqCaches {
        init_container: InitContainer::default(),
        cliques,
        pods,
        gangs,
        claims: ClaimCaches {
            claims: informers.cache(),
            templates: informers.cache(),
            access: TemplateAccess::new(None),
        },
        tombstones,
        orphan_deletions,
        terminating_namespaces: TerminatingNamespaces::new(Cache::from_objects([])),
        informers,
        memory: CliqueMemory::default(),
    };
    Context::new(manager, caches)
}

#[tokio::test(start_paused = true)]
async fn every_map_is_empty_after_the_deletion_of_the_clique() {
    let manager = manager();
    let options = InformerOptions::default().with_index(BY_GATING_GANG).with_sum(PODS_BY_GANG);
    let (cliques, clique_writer) = Cache::with_writer(options);
    let tombstones = Tombstones::new(&cliques);
    let recorder = tombstones.clone();
    let options = InformerOptions::default().with_observer(move |delta| recorder.record(delta));
    let (pods, pod_writer) = Cache::with_writer(options);
    let gangs = Cache::from_objects([PodGang::clone(&gang(&json!([])))]);
    let orphan_deletions = OrphanDeletions::default();
    let ctx = context(&manager, (cliques, pods, gangs), tombstones, orphan_deletions);
    assert!(manager.wait_for_cache_sync().await);

    let clique = Arc::new(
        snapshot(
            "{replicas: 5, labels: {grove.io/base-podgang: llm-9}, annotations: {grove.io/resource-claims: '{}'}}",
        )
        .state
        .clique,
    );
    clique_writer.apply((*clique).clone());
    for (name, index, phase) in [("a", 0, "Running"), ("b", 1, "Failed"), ("c", 2, "Running")] {
        pod_writer.apply(pod_of(&clique, name, index, phase));
    }
    pod_writer.delete(pod_of(&clique, "a", 0, "Running"));
    // The first reconcile creates pods, and the second one withholds the status, because a watch event is pending.
    assert!(reconcile(Arc::clone(&clique), Arc::clone(&ctx)).await.is_err(), "a pod is rejected");
    assert!(reconcile(Arc::clone(&clique), Arc::clone(&ctx)).await.is_ok());
    let counts = || {
        let remembered = CliqueMemory::MAPS.map(|(name, count)| (name, count(&ctx.caches.memory)));
        let others = CliqueReconciler::state_maps().iter().map(|(name, count)| (*name, count(&ctx)));
        remembered.into_iter().chain(others).chain([("statuses", ctx.status_writer.statuses())]).collect::<Vec<_>>()
    };
    assert!(counts().iter().all(|(_, count)| *count > 0), "{:?}", counts());

    clique_writer.delete((*clique).clone());
    assert_eq!(cleanup_plan(&ctx, &clique).steps().count(), 3, "the remaining pods and the claim are deleted");
    pod_writer.replace(vec![]);
    assert!(counts().iter().all(|(_, count)| *count == 0), "{:?}", counts());
}

#[tokio::test]
async fn the_pods_and_claims_of_a_deleted_clique_stay_if_its_deletion_orphaned_them() {
    let clique = snapshot("{replicas: 1}").state.clique;
    let (cliques, gangs) = (Cache::from_objects([]), Cache::from_objects([]));
    let pods = Cache::from_objects([pod_of(&clique, "a", 0, "Running")]);
    let (tombstones, orphan_deletions) = (Tombstones::new(&cliques), OrphanDeletions::default());
    let recorder = orphan_deletions.clone();
    let manager = manager();
    let ctx = context(&manager, (cliques, pods, gangs), tombstones, orphan_deletions);
    assert!(manager.wait_for_cache_sync().await);
    let stages = cleanup_plan(&ctx, &clique).stages;
    let kinds: Vec<_> =
        stages.iter().flat_map(|stage| &stage.steps).map(|step| &*step.target().resource.kind).collect();
    assert_eq!(kinds, ["Pod", "ResourceClaim"], "the claims are deleted after the pods");

    // The garbage collector removes the finalizer before the clique is deleted.
    let mut terminating = clique.clone();
    terminating.metadata.finalizers = Some(vec!["orphan".to_owned()]);
    recorder.record(&Delta { old: None, new: Some(Arc::new(terminating)) });
    assert!(cleanup_plan(&ctx, &clique).is_empty());
}
