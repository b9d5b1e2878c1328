//! A standby observes all deltas and reconciles nothing. A new leader reconciles all objects.

use super::*;
use grove_runtime::leadership::Leadership;

/// Names in the order in which they were reconciled.
type Names = Arc<Mutex<Vec<String>>>;

fn noting(names: &Names) -> impl Fn(Arc<ConfigMap>, Arc<()>) -> std::future::Ready<Result<Requeue, Broken>> + use<> {
    let names = Arc::clone(names);
    move |object, _| {
        names.lock().unwrap().push(object.name_any());
        ready(Ok(Requeue::AwaitChange))
    }
}

fn sorted(names: &Names) -> Vec<String> {
    let mut names = std::mem::take(&mut *names.lock().unwrap());
    names.sort();
    names
}

fn standby() -> (Manager, Leadership, RequestLog) {
    let (client, log) = mock_api_server::client(|_| MockResponse::ok(config_map("child", 1, "uid-owner")));
    let clients = Clients { requests: client.clone(), watches: client };
    let leadership = Leadership::standby();
    let config = OperatorConfiguration::default();
    let runtime = Runtime::with_leadership(leadership.clone(), ("test", "here".to_owned()), clients, config).unwrap();
    (Manager::new(&runtime).unwrap(), leadership, log)
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_reconciles_all_objects() {
    let (manager, leadership, _) = standby();
    let names = Names::default();
    let deltas = vec![created("a"), created("b"), created("c"), deleted("b")];
    let builder = controller_of(&["a", "c"], deltas);
    let seen = Arc::clone(&names);
    let script = async {
        sleep(Duration::from_mins(5)).await;
        assert_eq!(sorted(&seen), Vec::<String>::new(), "it only watched");
        leadership.extend(Instant::now(), Duration::from_hours(1));
        sleep(Duration::from_secs(1)).await;
        assert_eq!(sorted(&seen), ["a", "c"]);
    };
    futures::join!(run_for(builder, &manager, Duration::from_mins(6), noting(&names)), script);
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_lost_its_lease_reconciles_nothing_until_it_leads_again() {
    let (manager, leadership, _) = standby();
    let names = Names::default();
    leadership.extend(Instant::now(), Duration::from_secs(10));
    let later = stream::once(sleep(Duration::from_secs(30))).map(|()| created("b"));
    let cache = Cache::from_objects(["a", "b"].map(|name| (*object(name)).clone()));
    let deltas = stream::iter([created("a")]).chain(later).chain(stream::pending());
    let builder = ControllerBuilder::new("maps", cache, deltas);
    let seen = Arc::clone(&names);
    let script = async {
        sleep(Duration::from_secs(5)).await;
        assert_eq!(sorted(&seen), ["a", "b"], "a new leader reconciles the whole cache");
        sleep(Duration::from_mins(1)).await;
        assert_eq!(sorted(&seen), Vec::<String>::new());
        leadership.extend(Instant::now(), Duration::from_hours(1));
        sleep(Duration::from_secs(1)).await;
        assert_eq!(sorted(&seen), ["a", "b"]);
    };
    futures::join!(run_for(builder, &manager, Duration::from_mins(3), noting(&names)), script);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_not_retried_after_the_lease_is_lost() {
    let (manager, leadership, _) = standby();
    leadership.extend(Instant::now(), Duration::from_secs(1));
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tries);
    let builder = controller(["a"]);
    run_for(builder, &manager, Duration::from_mins(10), move |_, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        ready(Err(Broken(ApiError::new(500, "X", "x"))))
    })
    .await;
    assert!((1..=2).contains(&tries.load(Ordering::SeqCst)));
}

#[tokio::test(start_paused = true)]
async fn a_standby_deletes_no_dependents_but_drops_its_state_about_them() {
    let (manager, _, log) = standby();
    let forgotten = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&forgotten);
    let builder = controller_of(&[], vec![created("gone"), deleted("gone")]).on_deleted(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        Plan::new().stage(Stage::new("children", [Step::delete(&*object("child"))]))
    });
    run_for(builder, &manager, Duration::from_secs(5), |_, _| ready(Ok(Requeue::AwaitChange))).await;
    assert_eq!(forgotten.load(Ordering::SeqCst), 1);
    assert!(log.requests().is_empty(), "{:?}", log.methods_and_names());
}
