//! The controller: backoff per object, triggers, deletion of dependents, drain.

use std::{
    future::ready,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use grove_api_types::configuration::OperatorConfiguration;
use grove_runtime::{api_error::ApiError, caches::InformerOptions, client::Clients, runtime::Runtime};
use grove_test_support::mock_api_server::{self, MockResponse, RecordedRequest, RequestLog, config_map};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use tokio::time::{Instant, sleep};

use super::*;
use crate::{
    executor,
    plan::{Stage, Step, Target},
    reconcile_error::ReconcileError,
};

mod standby;

#[derive(Debug, thiserror::Error)]
#[error("could not reconcile")]
struct Broken(#[source] ApiError);

fn manager(script: impl Fn(&RecordedRequest) -> MockResponse + Send + Sync + 'static) -> (Manager, RequestLog) {
    let (client, log) = mock_api_server::client(script);
    let clients = Clients { requests: client.clone(), watches: client };
    let runtime = Runtime::from_clients("test", clients, OperatorConfiguration::default()).unwrap();
    (Manager::new(&runtime).unwrap(), log)
}

fn object(name: &str) -> Arc<ConfigMap> {
    Arc::new(serde_json::from_value(config_map(name, 1, "owner")).unwrap())
}

fn created(name: &str) -> Delta<ConfigMap> {
    Delta { old: None, new: Some(object(name)) }
}

fn deleted(name: &str) -> Delta<ConfigMap> {
    Delta { old: Some(object(name)), new: None }
}

/// A controller of the objects `cached`, whose deltas arrive now.
fn controller_of(cached: &[&str], deltas: Vec<Delta<ConfigMap>>) -> ControllerBuilder<ConfigMap> {
    let cache = Cache::from_objects(cached.iter().map(|name| (*object(name)).clone()));
    ControllerBuilder::new("maps", cache, stream::iter(deltas).chain(stream::pending()))
}

/// A controller of these objects; the delta of each creation arrives now.
fn controller<const N: usize>(names: [&str; N]) -> ControllerBuilder<ConfigMap> {
    controller_of(&names, names.iter().map(|name| created(name)).collect())
}

/// Runs the controller for this time, then stops the service and waits for the drain.
async fn run_for<F, R>(builder: ControllerBuilder<ConfigMap>, manager: &Manager, time: Duration, reconcile: F)
where
    F: Fn(Arc<ConfigMap>, Arc<()>) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Requeue, Broken>> + Send + 'static,
{
    let stop = async {
        sleep(time).await;
        manager.shutdown().cancel();
    };
    futures::join!(builder.run(manager, Arc::new(()), reconcile), stop);
}

#[tokio::test(start_paused = true)]
async fn a_failing_object_is_retried_with_backoff_and_delays_no_other() {
    let (manager, _) = manager(|_| MockResponse::NoResponse);
    let tries: Arc<Mutex<Vec<(String, Duration)>>> = Arc::default();
    let (noted, began) = (Arc::clone(&tries), Instant::now());
    let builder = controller(["bad", "good"]).concurrency(1);
    run_for(builder, &manager, Duration::from_mins(10), move |object, _| {
        let name = object.name_any();
        noted.lock().unwrap().push((name.clone(), began.elapsed()));
        async move { if name == "bad" { Err(Broken(ApiError::new(500, "X", "x"))) } else { Ok(Requeue::AwaitChange) } }
    })
    .await;
    let tries = tries.lock().unwrap();
    let of = |name: &str| tries.iter().filter(|(tried, _)| tried == name).count();
    assert_eq!(of("good"), 1, "a success waits for a change");
    assert!((14..=30).contains(&of("bad")), "{} tries in ten minutes", of("bad"));
}

#[tokio::test(start_paused = true)]
async fn the_retry_after_of_the_server_delays_the_retry() {
    let (manager, _) = manager(|_| MockResponse::NoResponse);
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tries);
    let builder = controller(["a"]);
    run_for(builder, &manager, Duration::from_secs(25), move |_, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        let mut failure = ApiError::new(429, "X", "x");
        failure.retry_after = Some(Duration::from_secs(10));
        ready(Err(Broken(failure)))
    })
    .await;
    assert_eq!(tries.load(Ordering::SeqCst), 3, "at 0, 10 and 20 seconds");
}

#[tokio::test(start_paused = true)]
async fn a_failed_reconcile_is_retried_at_its_deadline_if_the_backoff_is_longer() {
    const DEADLINE: Duration = Duration::from_millis(100);
    for (requeue, retry_after, expected) in [
        (Requeue::After(DEADLINE), None, Requeue::After(DEADLINE)),
        (Requeue::StatusAfter(DEADLINE), None, Requeue::After(DEADLINE)),
        (Requeue::StatusAfter(DEADLINE), Some(DEADLINE * 2), Requeue::After(DEADLINE * 2)),
        (Requeue::After(DEADLINE), Some(DEADLINE * 100), Requeue::After(DEADLINE * 100)),
    ] {
        let error = ApiError { retry_after, ..ApiError::new(429, "X", "x") };
        let read = ReconcileError::Read { name: "x".to_owned(), source: error.clone(), requeue };
        let source = executor::Error::Write { target: Box::new(Target::of(&*object("a"))), error };
        for failure in [read, ReconcileError::Execute { source, requeue }] {
            assert_eq!(requeue_after(failure).await, expected, "{requeue:?} {retry_after:?}");
        }
    }
}

/// When an object is enqueued again after its first failure.
async fn requeue_after(failure: ReconcileError) -> Requeue {
    let (manager, _) = manager(|_| MockResponse::NoResponse);
    let (metrics, rate_limiter) = (manager.metrics().clone(), Arc::new(FailureRateLimiter::default()));
    let worker = Worker { controller: "maps", metrics, rate_limiter };
    let key = Key { namespace: "ns".to_owned(), name: "a".to_owned() };
    worker.reconcile_one(key, object("a"), ready(Err(failure))).await.requeue
}

#[tokio::test(start_paused = true)]
async fn nothing_is_reconciled_before_all_caches_are_filled() {
    let (manager, _) = manager(|_| MockResponse::NoResponse);
    let pods = manager.readiness().register("pods");
    let tries = Arc::new(AtomicUsize::new(0));
    let (counted, seen) = (Arc::clone(&tries), Arc::clone(&tries));
    let builder = controller(["a"]);
    let filled = async move {
        sleep(Duration::from_secs(5)).await;
        assert_eq!(seen.load(Ordering::SeqCst), 0);
        pods.set_ready();
    };
    let running = run_for(builder, &manager, Duration::from_secs(10), move |_, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        ready(Ok(Requeue::AwaitChange))
    });
    futures::join!(running, filled);
    assert_eq!(tries.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_in_progress_ends_before_the_drain() {
    let (manager, _) = manager(|_| MockResponse::NoResponse);
    let finished = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&finished);
    let builder = controller(["a"]);
    run_for(builder, &manager, Duration::from_secs(1), move |_, _| {
        let counted = Arc::clone(&counted);
        async move {
            sleep(Duration::from_secs(8)).await;
            counted.fetch_add(1, Ordering::SeqCst);
            Ok(Requeue::AwaitChange)
        }
    })
    .await;
    assert_eq!(finished.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_trigger_of_another_kind_enqueues_only_existing_objects() {
    let (manager, _) = manager(|_| MockResponse::NoResponse);
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tries);
    let later = stream::once(sleep(Duration::from_secs(1)))
        .flat_map(|()| stream::iter(["a", "absent"]).map(|name| ObjectRef::new(name).within("ns")));
    let builder = controller(["a"]).watches(later.chain(stream::pending()));
    run_for(builder, &manager, Duration::from_secs(5), move |_, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        ready(Ok(Requeue::AwaitChange))
    })
    .await;
    assert_eq!(tries.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn dependents_of_a_deleted_object_are_deleted_after_a_live_get() {
    for (live, expected) in [
        (mock_api_server::status(404, "NotFound"), vec!["GET owner", "DELETE child"]),
        (config_map("owner", 1, "owner"), vec!["GET owner"]),
    ] {
        let (manager, log) = manager(move |request| match &*request.method {
            "GET" => MockResponse::Json(if live["kind"] == "Status" { 404 } else { 200 }, live.clone()),
            _ => MockResponse::ok(config_map("child", 1, "uid-owner")),
        });
        let builder = controller_of(&[], vec![created("owner"), deleted("owner")])
            .on_deleted(|_| Plan::new().stage(Stage::new("children", [Step::delete(&*object("child"))])));
        run_for(builder, &manager, Duration::from_secs(5), |_, _| ready(Ok(Requeue::AwaitChange))).await;
        assert_eq!(log.methods_and_names(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_dependent_that_changed_is_deleted_by_a_later_attempt() {
    let deletes = AtomicUsize::new(0);
    let (manager, log) = manager(move |request| match &*request.method {
        "GET" => MockResponse::Json(404, mock_api_server::status(404, "NotFound")),
        _ if deletes.fetch_add(1, Ordering::SeqCst) == 0 => MockResponse::error(409, "Conflict"),
        _ => MockResponse::ok(config_map("child", 1, "uid-owner")),
    });
    let builder = controller_of(&[], vec![created("owner"), deleted("owner")]).on_deleted(|_| {
        Plan::new().stage(Stage::new("children", [Step::delete_with_optimistic_lock(&*object("child"))]))
    });
    run_for(builder, &manager, Duration::from_secs(5), |_, _| ready(Ok(Requeue::AwaitChange))).await;
    assert_eq!(log.methods_and_names(), ["GET owner", "DELETE child", "GET owner", "DELETE child"]);
}

#[tokio::test(start_paused = true)]
async fn dependents_that_do_not_fit_into_one_plan_are_deleted_by_the_next_plans() {
    for (plans, is_stale, expected) in [(20, false, 20), (20, true, 6)] {
        let (manager, log) = manager(|request| match &*request.method {
            "GET" => MockResponse::Json(404, mock_api_server::status(404, "NotFound")),
            _ => MockResponse::ok(config_map("child", 1, "uid-owner")),
        });
        let planned = AtomicUsize::new(0);
        let builder = controller_of(&[], vec![created("owner"), deleted("owner")]).on_deleted(move |_| {
            let number = planned.fetch_add(1, Ordering::SeqCst);
            let name = if is_stale { "child".to_owned() } else { format!("child{number}") };
            let mut child = (*object(&name)).clone();
            child.metadata.uid = Some(name);
            let plan = Plan::new().stage(Stage::new("children", (number < plans).then(|| Step::delete(&child))));
            plan.continue_after((number + 1 < plans).then_some(Duration::from_secs(1)))
        });
        run_for(builder, &manager, Duration::from_mins(10), |_, _| ready(Ok(Requeue::AwaitChange))).await;
        assert_eq!(log.count(|request| request.method == "DELETE"), expected, "is stale: {is_stale}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dependent_that_always_changes_does_not_prevent_the_deletes_of_the_next_plans() {
    let (manager, log) = manager(|request| match &*request.method {
        "GET" => MockResponse::Json(404, mock_api_server::status(404, "NotFound")),
        _ if request.path.ends_with("/changing") => MockResponse::error(409, "Conflict"),
        _ => MockResponse::ok(config_map("child", 1, "uid-owner")),
    });
    let planned = AtomicUsize::new(0);
    let builder = controller_of(&[], vec![created("owner"), deleted("owner")]).on_deleted(move |_| {
        let number = planned.fetch_add(1, Ordering::SeqCst);
        let others = (number < 20).then(|| object(&format!("child{number}")));
        let dependents = std::iter::once(object("changing")).chain(others);
        let deletes = dependents.map(|dependent| Step::delete_with_optimistic_lock(&*dependent));
        let plan = Plan::new().stage(Stage::new("children", deletes));
        plan.continue_after((number < 20).then_some(Duration::from_secs(1)))
    });
    run_for(builder, &manager, Duration::from_mins(10), |_, _| ready(Ok(Requeue::AwaitChange))).await;
    let deletes = |name: &str| log.count(|request| request.method == "DELETE" && request.path.contains(name));
    assert_eq!(deletes("/child"), 20);
    assert_eq!(deletes("/changing"), 26, "attempts without progress are limited");
}

#[tokio::test(start_paused = true)]
async fn the_state_of_an_object_that_is_deleted_during_its_reconcile_is_dropped_after_the_reconcile() {
    let (manager, _) = manager(|_| MockResponse::NoResponse);
    let later = stream::once(sleep(Duration::from_secs(1))).map(|()| deleted("owner"));
    let deltas = stream::iter([created("owner")]).chain(later).chain(stream::pending());
    let log: Arc<Mutex<Vec<&str>>> = Arc::default();
    let (dropped, reconciled) = (Arc::clone(&log), Arc::clone(&log));
    let builder = ControllerBuilder::new("maps", Cache::from_objects([(*object("owner")).clone()]), deltas);
    let builder = builder.on_deleted(move |_| {
        dropped.lock().unwrap().push("dropped");
        Plan::new()
    });
    run_for(builder, &manager, Duration::from_secs(5), move |_, _| {
        let reconciled = Arc::clone(&reconciled);
        async move {
            sleep(Duration::from_secs(3)).await;
            reconciled.lock().unwrap().push("reconciled");
            Ok(Requeue::AwaitChange)
        }
    })
    .await;
    assert_eq!(*log.lock().unwrap(), ["dropped", "reconciled", "dropped"]);
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_that_ends_after_the_deletion_of_its_object_leaves_no_delayed_key() {
    let (manager, _) = manager(|_| MockResponse::NoResponse);
    let later = stream::once(sleep(Duration::from_secs(2))).map(|()| deleted("a"));
    let deltas = stream::iter([created("a"), created("b")]).chain(later).chain(stream::pending());
    let cached = ["a", "b"].map(|name| (*object(name)).clone());
    let builder = ControllerBuilder::new("maps", Cache::from_objects(cached), deltas);
    let entries = |map: &str| {
        let name = format!(r#"grove_state_entries{{controller="maps",map="{map}"}} "#);
        let text = manager.metrics().render().unwrap();
        text.lines().find_map(|line| line.strip_prefix(&name)?.parse::<usize>().ok()).unwrap()
    };
    let observed = async {
        let mut counts = vec![];
        for seconds in [1, 2, 2] {
            sleep(Duration::from_secs(seconds)).await;
            counts.push(["delayed_keys", "deleted_during_reconcile"].map(entries));
        }
        counts
    };
    let running = run_for(builder, &manager, Duration::from_secs(6), |_, _| async {
        sleep(Duration::from_secs(4)).await;
        Ok(Requeue::After(Duration::from_hours(1)))
    });
    let ((), counts) = futures::join!(running, observed);
    assert_eq!(counts, [[0, 0], [0, 1], [1, 0]], "before the deletion, after it, and after both reconciles");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_starts_to_be_served_enqueues_all_objects() {
    let installed = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let server = Arc::clone(&installed);
    let (manager, _) = manager(move |request| match (server.load(Ordering::SeqCst), request.is_watch()) {
        (false, _) => MockResponse::Text(404, "404 page not found\n"),
        (true, false) => mock_api_server::config_maps(5, &[]),
        (true, true) => MockResponse::Watch { events: vec![], stays_open: true },
    });
    let _watched = manager.start_informer::<ConfigMap>(InformerOptions::default());
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tries);
    let builder = controller(["a"]);
    let install = async {
        sleep(Duration::from_mins(1)).await;
        assert_eq!(tries.load(Ordering::SeqCst), 1);
        installed.store(true, Ordering::SeqCst);
    };
    let running = run_for(builder, &manager, Duration::from_mins(2), move |_, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        ready(Ok(Requeue::AwaitChange))
    });
    futures::join!(running, install);
    assert_eq!(tries.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_retry_resets_the_backoff_of_the_object() {
    let (manager, _) = manager(|_| MockResponse::NoResponse);
    let tries: Arc<Mutex<Vec<Duration>>> = Arc::default();
    let (noted, began) = (Arc::clone(&tries), Instant::now());
    let quota_released = stream::once(sleep(Duration::from_mins(10))).map(|()| ObjectRef::new("a").within("ns"));
    let builder = controller(["a"]).retry_on(quota_released.chain(stream::pending()));
    run_for(builder, &manager, Duration::from_mins(11), move |_, _| {
        noted.lock().unwrap().push(began.elapsed());
        ready(Err(Broken(ApiError::new(403, "X", "x"))))
    })
    .await;
    let after = tries.lock().unwrap().iter().filter(|at| at.as_secs() >= 600 && at.as_secs() < 605).count();
    assert!((3..=5).contains(&after), "{after} tries in the five seconds after the trigger");
}

#[tokio::test(start_paused = true)]
async fn the_reconciler_gets_the_object_of_the_cache_without_a_copy() {
    let (manager, _) = manager(|_| MockResponse::NoResponse);
    let builder = controller(["a"]);
    let (expected, seen) = (builder.cache.get("ns", "a").unwrap(), Arc::new(AtomicUsize::new(0)));
    let noted = Arc::clone(&seen);
    run_for(builder, &manager, Duration::from_secs(1), move |object, _| {
        assert!(Arc::ptr_eq(&object, &expected));
        noted.fetch_add(1, Ordering::SeqCst);
        async { Ok(Requeue::AwaitChange) }
    })
    .await;
    assert_eq!(seen.load(Ordering::SeqCst), 1);
}
