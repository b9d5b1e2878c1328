//! Caches under broken watches: they converge, tell what vanished, and do not flood the server.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::*;
use crate::ready::Readiness;
use grove_test_support::mock_api_server::{
    self, MockResponse, RecordedRequest, RequestLog, config_map, config_maps, status,
};

mod holders;
mod servers;

const OPEN: MockResponse = MockResponse::Watch { events: vec![], stays_open: true };

struct Watched {
    cache: Cache<ConfigMap>,
    changes: Box<dyn Stream<Item = Delta<ConfigMap>> + Send + Unpin>,
    ready: Readiness,
    log: RequestLog,
}

/// A cache over a server that answers the nth list and the nth watch as told.
fn watched(
    lists: impl Fn(usize) -> MockResponse + Send + Sync + 'static,
    watches: impl Fn(usize, &RecordedRequest) -> MockResponse + Send + Sync + 'static,
) -> Watched {
    keeping(None, lists, watches)
}

/// The same, of what `keep` says matters.
fn keeping(
    keep: Option<Filter<ConfigMap>>,
    lists: impl Fn(usize) -> MockResponse + Send + Sync + 'static,
    watches: impl Fn(usize, &RecordedRequest) -> MockResponse + Send + Sync + 'static,
) -> Watched {
    let (listed, begun) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let (client, log) = mock_api_server::client(move |asked| {
        if asked.is_watch() {
            watches(begun.fetch_add(1, Ordering::SeqCst), asked)
        } else if !asked.is_list() {
            // How far the server is: always farther than anybody knows.
            config_maps(1_000_000, &[])
        } else {
            lists(listed.fetch_add(1, Ordering::SeqCst))
        }
    });
    let ready = Readiness::new();
    let slot: Slot<ConfigMap> = |object| Some(object.name_any()[..1].to_owned());
    let metrics = Metrics::new().unwrap();
    let handle = ready.register("configmaps");
    let (cache, changes) =
        start_informer(Api::all(client), watcher::Config::default(), handle, (Some(slot), keep), &metrics);
    Watched { cache, changes: Box::new(changes), ready, log }
}

impl Watched {
    /// The next change as text: `+name`, `~name`, `-name`.
    async fn next(&mut self) -> String {
        let delta = self.changes.next().await.unwrap();
        let sign = match (&delta.old, &delta.new) {
            (None, _) => '+',
            (Some(_), Some(_)) => '~',
            (Some(_), None) => '-',
        };
        format!("{sign}{}", delta.object().unwrap().name_any())
    }

    fn names(&self) -> Vec<String> {
        self.cache.all().iter().map(|object| object.name_any()).collect()
    }
}

fn event(type_: &str, object: &Value) -> Value {
    json!({ "type": type_, "object": object })
}

fn map(name: &str, version: u32) -> Value {
    config_map(name, version, "owner")
}

#[tokio::test(start_paused = true)]
async fn the_first_list_fills_the_cache_before_it_is_ready() {
    let mut watched = watched(|_| config_maps(5, &[map("b", 2), map("a", 1)]), |_, _| OPEN);
    assert_eq!(watched.ready.wait().now_or_never(), None);
    watched.ready.wait().await;
    assert_eq!((watched.next().await, watched.next().await), ("+b".into(), "+a".into()));
    let owned: Vec<_> = watched.cache.owned_by("owner").iter().map(|object| object.name_any()).collect();
    assert_eq!(owned, ["a", "b"]);
    assert_eq!(watched.cache.get("ns", "a").unwrap().metadata.managed_fields, None);
    assert_eq!(watched.cache.len(), 2);
    let list = &watched.log.requests()[0];
    assert!(!list.query.contains("resourceVersion"), "not a consistent read: {}", list.query);
}

#[tokio::test(start_paused = true)]
async fn events_change_the_cache_and_a_deleted_object_is_remembered_in_its_slot() {
    let events = vec![
        event("MODIFIED", &map("a", 6)),
        event("ADDED", &map("b", 7)),
        event("DELETED", &map("a", 8)),
        event("BOOKMARK", &json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "resourceVersion": "9" } })),
    ];
    let mut watched = watched(
        |_| config_maps(5, &[map("a", 1)]),
        move |_, _| MockResponse::Watch { events: events.clone(), stays_open: true },
    );
    for expected in ["+a", "~a", "+b", "-a"] {
        assert_eq!(watched.next().await, expected);
    }
    assert_eq!(watched.names(), ["b"]);
    let departed = watched.cache.departed("owner");
    assert_eq!((departed.len(), departed[0].resource_version()), (1, Some("8".into())));
    watched.cache.forget_owner("owner");
    assert!(watched.cache.departed("owner").is_empty());
}

#[tokio::test(start_paused = true)]
async fn after_410_within_the_watch_everything_is_listed_and_what_vanished_is_told() {
    let mut watched = watched(
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
        assert_eq!(watched.next().await, expected);
    }
    assert_eq!(watched.names(), ["a", "c", "d"]);
    assert_eq!(watched.cache.departed("owner").len(), 1);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(watched.log.requests().len(), 4, "{:?}", watched.log.methods_and_names());
}

#[tokio::test(start_paused = true)]
async fn a_410_to_the_watch_request_itself_leads_to_a_list_too() {
    let mut watched = watched(
        |nth| config_maps(5, if nth == 0 { &[] } else { std::slice::from_ref(Box::leak(Box::new(map("a", 1)))) }),
        |nth, _| if nth == 0 { MockResponse::error(410, "Expired") } else { OPEN },
    );
    assert_eq!(watched.next().await, "+a");
    assert_eq!(watched.log.count(RecordedRequest::is_list), 2);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_watch_goes_on_where_it_ended_without_a_list() {
    let mut watched = watched(
        |_| config_maps(5, &[map("a", 1)]),
        |nth, asked| match nth {
            0 => MockResponse::Watch { events: vec![event("MODIFIED", &map("a", 6))], stays_open: false },
            _ if asked.query.contains("resourceVersion=6") => {
                MockResponse::Watch { events: vec![event("MODIFIED", &map("a", 7))], stays_open: true }
            }
            _ => MockResponse::error(400, "WatchedFromTheWrongPlace"),
        },
    );
    for expected in ["+a", "~a", "~a"] {
        assert_eq!(watched.next().await, expected);
    }
    assert_eq!(watched.log.count(RecordedRequest::is_list), 1);
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_that_closes_watches_again_and_again_is_kept_up_with() {
    let mut watched = watched(
        |_| config_maps(5, &[map("a", 1)]),
        |begun, _| match u32::try_from(begun).unwrap() {
            begun @ 0..20 => {
                MockResponse::Watch { events: vec![event("MODIFIED", &map("a", 6 + begun))], stays_open: false }
            }
            _ => OPEN,
        },
    );
    assert_eq!(watched.next().await, "+a");
    let began = tokio::time::Instant::now();
    for _ in 0..20 {
        assert_eq!(watched.next().await, "~a");
    }
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(watched.log.count(RecordedRequest::is_list), 1);
}

#[tokio::test(start_paused = true)]
async fn no_failure_is_answered_with_a_flood_and_the_cache_converges_when_it_ends() {
    type Failing = fn() -> MockResponse;
    let kinds: [(&str, Failing); 6] = [
        ("closed at once", || MockResponse::Watch { events: vec![], stays_open: false }),
        ("410 in the stream", || MockResponse::Watch {
            events: vec![event("ERROR", &status(410, "Expired"))],
            stays_open: true,
        }),
        ("410", || MockResponse::error(410, "Expired")),
        ("429", || MockResponse::error(429, "TooManyRequests")),
        ("500", || MockResponse::error(500, "InternalError")),
        ("broken", || MockResponse::ConnectionReset),
    ];
    for (what, failing) in kinds {
        let healed = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (for_lists, for_watches) = (Arc::clone(&healed), Arc::clone(&healed));
        let mut watched = watched(
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
        assert_eq!(watched.next().await, "+a");
        tokio::time::sleep(Duration::from_mins(10)).await;
        let requests = watched.log.requests().len();
        assert!((60..=260).contains(&requests), "{what}: {requests} requests in ten minutes");
        healed.store(true, Ordering::SeqCst);
        let came = tokio::time::timeout(Duration::from_secs(11), watched.next()).await;
        assert_eq!(came.ok().as_deref(), Some("+z"), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_is_tried_again_and_keeps_the_service_unready() {
    let watched = watched(
        |nth| if nth < 5 { MockResponse::error(500, "InternalError") } else { config_maps(5, &[map("a", 1)]) },
        |_, _| OPEN,
    );
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert!(!watched.ready.pending().is_empty());
    watched.ready.wait().await;
    assert_eq!(watched.names(), ["a"]);
    assert_eq!(watched.log.count(RecordedRequest::is_list), 6);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_fell_silent_is_begun_anew() {
    let watched = watched(|_| config_maps(5, &[]), |_, _| OPEN);
    tokio::time::sleep(Duration::from_secs(301)).await;
    assert_eq!(watched.log.count(RecordedRequest::is_watch), 2);
    assert_eq!(watched.log.count(RecordedRequest::is_list), 1);
}

#[tokio::test(start_paused = true)]
async fn pages_are_put_together() {
    let mut watched = watched(
        |nth| match nth {
            0 => MockResponse::ok(json!({ "metadata": { "continue": "token" }, "items": [map("a", 1)] })),
            _ => config_maps(5, &[map("b", 2)]),
        },
        |_, _| OPEN,
    );
    assert_eq!((watched.next().await, watched.next().await), ("+a".into(), "+b".into()));
    assert!(watched.log.requests()[1].query.contains("continue=token"));
}

#[test]
fn an_object_of_the_same_name_with_another_uid_is_another_object() {
    let object = |uid: &str| -> ConfigMap {
        let mut object: ConfigMap = serde_json::from_value(map("a", 1)).unwrap();
        object.metadata.uid = Some(uid.into());
        object
    };
    let cache = Cache::from_objects([object("first")]);
    let changes = cache.apply_event(Event::Apply(object("second")));
    let told: Vec<_> = changes.iter().map(|delta| (delta.old.is_some(), delta.new.is_some())).collect();
    assert_eq!(told, [(true, false), (false, true)]);
    assert!(cache.apply_event(Event::Delete(object("first"))).is_empty(), "the late news of the first is about nobody");
    assert_eq!(cache.get("ns", "a").unwrap().uid().as_deref(), Some("second"));
}
