//! Caches with interrupted watches: they converge, report missed deletions, and do not flood the API server.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::*;
use crate::{metrics::Metrics, ready::Readiness};
use grove_test_support::mock_api_server::{
    self, MockResponse, RecordedRequest, RequestLog, config_map, config_maps, status,
};

mod api_servers;
mod indices;
mod runtime_kinds;
mod subscribers;
mod unreadable;

const OPEN: MockResponse = MockResponse::Watch { events: vec![], stays_open: true };

struct Informer {
    cache: Cache<ConfigMap>,
    deltas: Box<dyn Stream<Item = Delta<ConfigMap>> + Send + Unpin>,
    ready: Readiness,
    metrics: Metrics,
    log: RequestLog,
}

/// An informer of an API server with these responses to the nth list and to the nth watch.
fn informer(
    lists: impl Fn(usize) -> MockResponse + Send + Sync + 'static,
    watches: impl Fn(usize, &RecordedRequest) -> MockResponse + Send + Sync + 'static,
) -> Informer {
    informer_with(InformerOptions::default(), lists, watches)
}

/// The same with other options.
fn informer_with(
    options: InformerOptions<ConfigMap>,
    lists: impl Fn(usize) -> MockResponse + Send + Sync + 'static,
    watches: impl Fn(usize, &RecordedRequest) -> MockResponse + Send + Sync + 'static,
) -> Informer {
    let (list_count, watch_count) = (AtomicUsize::new(0), AtomicUsize::new(0));
    start(options, move |request| {
        if request.is_watch() {
            watches(watch_count.fetch_add(1, Ordering::SeqCst), request)
        } else if !request.is_list() {
            // The current resource version, which is always newer than that of any object.
            config_maps(1_000_000, &[])
        } else {
            lists(list_count.fetch_add(1, Ordering::SeqCst))
        }
    })
}

fn start(
    options: InformerOptions<ConfigMap>,
    respond: impl Fn(&RecordedRequest) -> MockResponse + Send + Sync + 'static,
) -> Informer {
    let (client, log) = mock_api_server::client(respond);
    let (ready, metrics) = (Readiness::new(), Metrics::new().unwrap());
    let cache = start_informer(Api::all(client), &(), options, ready.register("configmaps"), &metrics);
    let deltas = cache.subscribe();
    Informer { cache, deltas: Box::new(deltas), ready, metrics, log }
}

impl Informer {
    /// The next delta as text.
    async fn next(&mut self) -> String {
        text(&self.deltas.next().await.unwrap())
    }

    fn names(&self) -> Vec<String> {
        self.cache.all().iter().map(|object| object.name_any()).collect()
    }
}

/// A delta as text: `+name`, `~name` or `-name`.
fn text(delta: &Delta<ConfigMap>) -> String {
    let sign = match (&delta.old, &delta.new) {
        (None, _) => '+',
        (Some(_), Some(_)) => '~',
        (Some(_), None) => '-',
    };
    format!("{sign}{}", delta.object().unwrap().name_any())
}

fn event(type_: &str, object: &Value) -> Value {
    json!({ "type": type_, "object": object })
}

fn map(name: &str, version: u32) -> Value {
    config_map(name, version, "owner")
}

#[tokio::test(start_paused = true)]
async fn the_first_list_fills_the_cache_before_the_service_is_ready() {
    let mut informer = informer(|_| config_maps(5, &[map("b", 2), map("a", 1)]), |_, _| OPEN);
    assert_eq!(informer.ready.wait().now_or_never(), None);
    informer.ready.wait().await;
    assert_eq!((informer.next().await, informer.next().await), ("+b".into(), "+a".into()));
    let owned: Vec<_> = informer.cache.owned_by("ns", "owner").iter().map(|object| object.name_any()).collect();
    assert_eq!(owned, ["a", "b"]);
    assert_eq!(informer.cache.get("ns", "a").unwrap().metadata.managed_fields, None);
    assert_eq!(informer.cache.len(), 2);
    let list = &informer.log.requests()[0];
    assert!(!list.query.contains("resourceVersion"), "not a consistent read: {}", list.query);
}

#[tokio::test(start_paused = true)]
async fn watch_events_change_the_cache_and_its_metrics() {
    let events = vec![
        event("MODIFIED", &map("a", 6)),
        event("ADDED", &map("b", 7)),
        event("DELETED", &map("a", 8)),
        event("BOOKMARK", &json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "resourceVersion": "9" } })),
    ];
    let mut informer = informer(
        |_| config_maps(5, &[map("a", 1)]),
        move |_, _| MockResponse::Watch { events: events.clone(), stays_open: true },
    );
    for expected in ["+a", "~a", "+b", "-a"] {
        assert_eq!(informer.next().await, expected);
    }
    assert_eq!(informer.names(), ["b"]);
    let text = informer.metrics.render().unwrap();
    assert!(text.contains(r#"grove_cache_objects{kind="ConfigMap"} 1"#), "{text}");
    assert!(text.contains(r#"reflector_watches_total{kind="ConfigMap"} 1"#), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_410_in_the_watch_leads_to_a_list_and_missing_objects_are_reported_as_deleted() {
    let mut informer = informer(
        |nth| match nth {
            0 => config_maps(5, &[map("a", 1), map("b", 2), map("c", 3)]),
            _ => config_maps(20, &[map("a", 1), map("c", 15), map("d", 16)]),
        },
        |nth, _| match nth {
            0 => MockResponse::Watch { events: vec![event("ERROR", &status(410, "Expired"))], stays_open: true },
            _ => OPEN,
        },
    );
    for expected in ["+a", "+b", "+c", "-b", "~c", "+d"] {
        assert_eq!(informer.next().await, expected);
    }
    assert_eq!(informer.names(), ["a", "c", "d"]);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(informer.log.requests().len(), 4, "{:?}", informer.log.methods_and_names());
}

#[tokio::test(start_paused = true)]
async fn a_410_to_the_watch_request_leads_to_a_list() {
    let mut informer = informer(
        |nth| config_maps(5, if nth == 0 { &[] } else { std::slice::from_ref(Box::leak(Box::new(map("a", 1)))) }),
        |nth, _| if nth == 0 { MockResponse::error(410, "Expired") } else { OPEN },
    );
    assert_eq!(informer.next().await, "+a");
    assert_eq!(informer.log.count(RecordedRequest::is_list), 2);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_watch_continues_at_its_resource_version_without_a_list() {
    let mut informer = informer(
        |_| config_maps(5, &[map("a", 1)]),
        |nth, request| match nth {
            0 => MockResponse::Watch { events: vec![event("MODIFIED", &map("a", 6))], stays_open: false },
            _ if request.query.contains("resourceVersion=6") => {
                MockResponse::Watch { events: vec![event("MODIFIED", &map("a", 7))], stays_open: true }
            }
            _ => MockResponse::error(400, "WatchedFromTheWrongVersion"),
        },
    );
    for expected in ["+a", "~a", "~a"] {
        assert_eq!(informer.next().await, expected);
    }
    assert_eq!(informer.log.count(RecordedRequest::is_list), 1);
}

#[tokio::test(start_paused = true)]
async fn watches_that_a_busy_server_closes_are_restarted_without_backoff() {
    let mut informer = informer(
        |_| config_maps(5, &[map("a", 1)]),
        |nth, _| match u32::try_from(nth).unwrap() {
            nth @ 0..20 => {
                MockResponse::Watch { events: vec![event("MODIFIED", &map("a", 6 + nth))], stays_open: false }
            }
            _ => OPEN,
        },
    );
    assert_eq!(informer.next().await, "+a");
    let started = tokio::time::Instant::now();
    for _ in 0..20 {
        assert_eq!(informer.next().await, "~a");
    }
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    assert_eq!(informer.log.count(RecordedRequest::is_list), 1);
}

#[tokio::test(start_paused = true)]
async fn failures_are_retried_with_backoff_and_the_cache_converges_when_they_end() {
    type Failing = fn() -> MockResponse;
    // Each failure, and the requests of one retry: a watch after a list or after a check of the resource version; after a
    // request without an answer after both.
    let kinds: [(&str, usize, Failing); 6] = [
        ("closed at once", 2, || MockResponse::Watch { events: vec![], stays_open: false }),
        ("410 in the stream", 2, || MockResponse::Watch {
            events: vec![event("ERROR", &status(410, "Expired"))],
            stays_open: true,
        }),
        ("410", 2, || MockResponse::error(410, "Expired")),
        ("429", 2, || MockResponse::error(429, "TooManyRequests")),
        ("500", 2, || MockResponse::error(500, "InternalError")),
        ("broken", 3, || MockResponse::ConnectionReset),
    ];
    for (failure, requests_per_retry, failing) in kinds {
        let ended = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (for_lists, for_watches) = (Arc::clone(&ended), Arc::clone(&ended));
        let mut informer = informer(
            move |_| {
                if for_lists.load(Ordering::SeqCst) {
                    config_maps(9, &[map("a", 1), map("z", 8)])
                } else {
                    config_maps(5, &[map("a", 1)])
                }
            },
            move |_, _| {
                if for_watches.load(Ordering::SeqCst) {
                    MockResponse::Watch { events: vec![event("ADDED", &map("z", 8))], stays_open: true }
                } else {
                    failing()
                }
            },
        );
        assert_eq!(informer.next().await, "+a");
        tokio::time::sleep(Duration::from_mins(10)).await;
        // The first delays have a mean sum of 12 s. All others are uniformly distributed between 5 s and 10 s: their mean is 7.5 s
        // and their standard deviation 1.44 s. So the mean number of retries in ten minutes is 83 and its standard deviation
        // 83^0.5 * 1.44 / 7.5 = 1.75. The bounds are more than six of these away, so that jitter never reaches them.
        let retries = informer.log.count(RecordedRequest::is_watch) - 1;
        assert!((72..=94).contains(&retries), "{failure}: {retries} retries in ten minutes");
        let requests = informer.log.requests().len();
        assert_eq!(requests, 2 + retries * requests_per_retry, "{failure}: {retries} retries");
        ended.store(true, Ordering::SeqCst);
        let created = tokio::time::timeout(Duration::from_secs(11), informer.next()).await;
        assert_eq!(created.ok().as_deref(), Some("+z"), "{failure}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_list_is_retried_and_the_service_stays_unready() {
    let informer = informer(
        |nth| if nth < 5 { MockResponse::error(500, "InternalError") } else { config_maps(5, &[map("a", 1)]) },
        |_, _| OPEN,
    );
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert!(!informer.ready.pending().is_empty());
    informer.ready.wait().await;
    assert_eq!(informer.names(), ["a"]);
    assert_eq!(informer.log.count(RecordedRequest::is_list), 6);
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_restarted() {
    let informer = informer(|_| config_maps(5, &[]), |_, _| OPEN);
    tokio::time::sleep(Duration::from_secs(301)).await;
    assert_eq!(informer.log.count(RecordedRequest::is_watch), 2);
    assert_eq!(informer.log.count(RecordedRequest::is_list), 1);
}

#[tokio::test(start_paused = true)]
async fn the_pages_of_a_list_are_joined() {
    let mut informer = informer(
        |nth| match nth {
            0 => MockResponse::ok(json!({ "metadata": { "continue": "token" }, "items": [map("a", 1)] })),
            _ => config_maps(5, &[map("b", 2)]),
        },
        |_, _| OPEN,
    );
    assert_eq!((informer.next().await, informer.next().await), ("+a".into(), "+b".into()));
    assert!(informer.log.requests()[1].query.contains("continue=token"));
}

#[test]
fn an_object_with_a_known_name_and_another_uid_is_a_delete_and_a_create() {
    let object = |uid: &str| -> ConfigMap {
        let mut object: ConfigMap = serde_json::from_value(map("a", 1)).unwrap();
        object.metadata.uid = Some(uid.into());
        object
    };
    let (cache, writer) = Cache::with_writer(InformerOptions::default());
    writer.apply(object("first"));
    let deltas = writer.apply(object("second"));
    let deltas: Vec<_> = deltas.iter().map(|delta| (delta.old.is_some(), delta.new.is_some())).collect();
    assert_eq!(deltas, [(true, false), (false, true)]);
    assert!(writer.delete(object("first")).is_empty(), "the delete of the first object came late");
    assert_eq!(cache.get("ns", "a").unwrap().uid().as_deref(), Some("second"));
    assert_eq!((cache.len(), cache.owned_by("ns", "owner").len()), (1, 1));
}
