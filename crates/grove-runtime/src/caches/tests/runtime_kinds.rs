//! An informer of a kind that is known only at run time.

use std::sync::atomic::{AtomicBool, AtomicUsize};

use kube::{
    api::{ApiResource, DynamicObject},
    core::GroupVersionKind,
};

use super::*;

fn pod_group(name: &str, version: u32) -> Value {
    json!({ "apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": { "name": name, "namespace": "ns",
        "uid": name, "resourceVersion": version.to_string(),
        "ownerReferences": [{ "apiVersion": "v1", "kind": "Owner", "name": "o", "uid": "owner", "controller": true }] },
        "spec": { "minMember": version } })
}

#[tokio::test(start_paused = true)]
async fn a_kind_known_only_at_run_time_is_watched_in_the_chosen_version_once_it_is_installed() {
    let installed = Arc::new(AtomicBool::new(false));
    let server = Arc::clone(&installed);
    let (client, log) =
        mock_api_server::client(move |request| match (server.load(Ordering::SeqCst), request.is_watch()) {
            (false, _) => MockResponse::Text(404, "404 page not found\n"),
            (true, false) => {
                let metadata = json!({ "resourceVersion": "5" });
                MockResponse::ok(json!({ "apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroupList",
                "metadata": metadata, "items": [pod_group("a", 1)] }))
            }
            (true, true) => {
                MockResponse::Watch { events: vec![event("MODIFIED", &pod_group("a", 6))], stays_open: true }
            }
        });
    // A controller reads the version from its configuration, or from discovery.
    let version = "v2alpha2";
    let kind = GroupVersionKind::gvk("scheduling.run.ai", version, "PodGroup");
    let kind = ApiResource::from_gvk_with_plural(&kind, "podgroups");
    let (ready, metrics) = (Readiness::new(), Metrics::new().unwrap());
    let api = Api::<DynamicObject>::all_with(client, &kind);
    let handle = ready.register("podgroups");
    let cache = start_informer(api, &kind, InformerOptions::default(), handle, &metrics);
    let mut deltas = cache.subscribe();
    ready.wait().await;
    assert!(!cache.is_served() && cache.is_empty());

    let mut availability = cache.subscribe_availability();
    installed.store(true, Ordering::SeqCst);
    availability.changed().await.unwrap();
    assert!(deltas.next().await.unwrap().old.is_none());
    let changed = deltas.next().await.unwrap();
    assert_eq!(changed.new.unwrap().data["spec"]["minMember"], 6);
    assert_eq!(cache.owned_by("ns", "owner")[0].name_any(), "a");
    assert!(log.requests().iter().all(|request| request.path == "/apis/scheduling.run.ai/v2alpha2/podgroups"));
    let text = metrics.render().unwrap();
    assert!(text.contains(r#"grove_cache_objects{kind="PodGroup.scheduling.run.ai"} 1"#), "{text}");
}

/// The API server serves one of two versions, then none, then the other one.
#[tokio::test(start_paused = true)]
async fn an_informer_uses_the_version_that_the_api_server_serves() {
    const PATHS: [&str; 2] =
        ["/apis/scheduling.k8s.io/v1beta1/podgroups", "/apis/scheduling.k8s.io/v1alpha2/podgroups"];
    static IN_USE: AtomicUsize = AtomicUsize::new(1);
    let served_path = Arc::new(AtomicUsize::new(0));
    let server = Arc::clone(&served_path);
    let (client, log) = mock_api_server::client(move |request| {
        let is_served = PATHS.get(server.load(Ordering::SeqCst)) == Some(&&*request.path);
        match (is_served, request.is_watch()) {
            (false, _) => MockResponse::Text(404, "404 page not found\n"),
            (true, false) => {
                MockResponse::ok(json!({ "metadata": { "resourceVersion": "5" }, "items": [pod_group("a", 1)] }))
            }
            (true, true) => MockResponse::Watch { events: vec![], stays_open: false },
        }
    });
    let kind = GroupVersionKind::gvk("scheduling.k8s.io", "v1alpha2", "PodGroup");
    let kind = ApiResource::from_gvk_with_plural(&kind, "podgroups");
    let (ready, metrics) = (Readiness::new(), Metrics::new().unwrap());
    let options = InformerOptions::default().with_other_version(|| {
        let before = IN_USE.fetch_xor(1, Ordering::SeqCst);
        PATHS[before ^ 1].to_owned()
    });
    let api = Api::<DynamicObject>::all_with(client, &kind);
    let cache = start_informer(api, &kind, options, ready.register("podgroups"), &metrics);
    ready.wait().await;
    assert!(cache.is_served() && cache.len() == 1, "the first list finds the served version");
    let lists =
        |path: &str| log.requests().iter().filter(|request| !request.is_watch() && request.path == path).count();
    assert_eq!([lists(PATHS[1]), lists(PATHS[0])], [1, 1]);

    let mut availability = cache.subscribe_availability();
    served_path.store(2, Ordering::SeqCst);
    availability.changed().await.unwrap();
    assert!(!cache.is_served() && cache.is_empty());
    served_path.store(1, Ordering::SeqCst);
    availability.changed().await.unwrap();
    assert!(cache.is_served() && cache.len() == 1);
}
