//! Acts and tellings, in paused time.

use std::task::Poll;

use futures::{channel::mpsc, future::FutureExt};
use k8s_openapi::api::core::v1::ConfigMap;

use super::*;

fn named(name: &str) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.into());
    object
}

fn reference(name: &str) -> ObjectRef<ConfigMap> {
    ObjectRef::new(name)
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_gets_a_pause_after_each_telling_that_asked_it() {
    let (lanes, sender, mut merged) = lanes();
    lanes.load.wrote(Duration::from_millis(5));
    (0..30).for_each(|_| lanes.load.wrote(Duration::from_secs(1)));
    for name in ["a", "b", "c"] {
        sender.unbounded_send(Wake::Tell(reference(name))).unwrap();
    }
    assert_eq!(merged.next().await, Some(reference("a")));
    let running = lanes.begins(&named("a"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(running);
    let asked = Instant::now();
    assert_eq!(merged.next().await, Some(reference("b")));
    assert!(asked.elapsed() > Duration::from_millis(100), "the server is spared");
    let told = Instant::now();
    drop(lanes.begins(&named("b")));
    assert_eq!(merged.next().await, Some(reference("c")));
    assert_eq!(told.elapsed(), Duration::ZERO, "nothing was asked for b");
}

fn lanes() -> (Arc<Lanes>, mpsc::UnboundedSender<Wake<ConfigMap>>, BoxStream<'static, ObjectRef<ConfigMap>>) {
    let (sender, wakes) = mpsc::unbounded();
    let lanes = Arc::new(Lanes::default());
    let merged = Arc::clone(&lanes).merge(wakes.boxed()).boxed();
    (lanes, sender, merged)
}

#[tokio::test(start_paused = true)]
async fn what_calls_for_an_act_goes_first_and_covers_what_was_to_be_told() {
    let (lanes, sender, mut merged) = lanes();
    for wake in [Wake::Tell(reference("a")), Wake::Tell(reference("b")), Wake::Act(reference("b"))] {
        sender.unbounded_send(wake).unwrap();
    }
    let began = Instant::now();
    assert_eq!(merged.next().await, Some(reference("b")));
    assert_eq!(began.elapsed(), Duration::ZERO);
    drop(lanes.begins(&named("b")));
    assert_eq!(merged.next().await, Some(reference("a")));
    assert!(began.elapsed() >= PAUSE);
    drop(lanes.begins(&named("a")));
    assert_eq!(merged.next().now_or_never(), None);
}

#[tokio::test(start_paused = true)]
async fn many_changes_are_told_once_and_never_in_a_crowd() {
    let (lanes, sender, mut merged) = lanes();
    for name in ["a", "a", "b", "a", "b", "c", "d", "e"] {
        sender.unbounded_send(Wake::Tell(reference(name))).unwrap();
    }
    for name in ["a", "b", "c", "d"] {
        assert_eq!(merged.next().await, Some(reference(name)));
    }
    assert_eq!(tokio::time::timeout(LONGEST * 3, merged.next()).await.ok(), None, "all four are still being told");
    drop(lanes.begins(&named("a")));
    assert_eq!(merged.next().await, Some(reference("e")));
}

#[tokio::test(start_paused = true)]
async fn between_acts_one_is_told_at_a_time() {
    let (lanes, sender, mut merged) = lanes();
    for wake in [Wake::Act(reference("a")), Wake::Tell(reference("b")), Wake::Tell(reference("c"))] {
        sender.unbounded_send(wake).unwrap();
    }
    assert_eq!(merged.next().await, Some(reference("a")));
    drop(lanes.begins(&named("a")));
    let began = Instant::now();
    assert_eq!(merged.next().await, Some(reference("b")));
    assert!(began.elapsed() < CALM);
    assert_eq!(merged.next().await, Some(reference("c")));
    assert_eq!(began.elapsed(), CALM);
}

#[tokio::test(start_paused = true)]
async fn what_is_told_later_is_told_earlier_when_more_comes() {
    let (lanes, sender, mut merged) = lanes();
    let began = Instant::now();
    lanes.tells_after(&named("a"), LONGEST * 5);
    lanes.tells_after(&named("b"), LONGEST * 5);
    sender.unbounded_send(Wake::Tell(reference("a"))).unwrap();
    assert_eq!(merged.next().await, Some(reference("a")));
    assert!(began.elapsed() < LONGEST);
    drop(lanes.begins(&named("a")));
    assert_eq!(merged.next().await, Some(reference("b")));
    assert_eq!(began.elapsed(), LONGEST * 5);
}

#[tokio::test(start_paused = true)]
async fn acts_that_never_begin_hold_tellings_up_for_a_while_only() {
    let (lanes, sender, mut merged) = lanes();
    sender.unbounded_send(Wake::Act(reference("stuck"))).unwrap();
    sender.unbounded_send(Wake::Tell(reference("a"))).unwrap();
    assert_eq!(merged.next().await, Some(reference("stuck")));
    let began = Instant::now();
    assert_eq!(merged.next().await, Some(reference("a")));
    assert!(began.elapsed() >= LONGEST && began.elapsed() <= LONGEST * 2);
    sender.unbounded_send(Wake::Tell(reference("b"))).unwrap();
    lanes.forgets(&reference("a"));
    lanes.forgets(&reference("stuck"));
    let began = Instant::now();
    assert_eq!(merged.next().await, Some(reference("b")));
    assert!(began.elapsed() < LONGEST);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_takes_long_is_told_less_often() {
    let (lanes, sender, mut merged) = lanes();
    let running = lanes.begins(&named("a"));
    tokio::time::sleep(Duration::from_millis(100)).await;
    drop(running);
    sender.unbounded_send(Wake::Tell(reference("a"))).unwrap();
    let began = Instant::now();
    assert_eq!(merged.next().await, Some(reference("a")));
    assert!(began.elapsed() >= Duration::from_millis(100) * SHARE);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_computes_long_is_told_less_often_still() {
    let (lanes, sender, mut merged) = lanes();
    let mut running = lanes.begins(&named("a"));
    let mut parts = [Duration::from_millis(10), Duration::from_millis(5)].into_iter();
    let computing = poll_fn(|context| match parts.next() {
        Some(part) => {
            pass(part);
            context.waker().wake_by_ref();
            Poll::Pending
        }
        None => Poll::Ready("done"),
    });
    assert_eq!(running.carry_out(computing).await, "done");
    drop(running);
    sender.unbounded_send(Wake::Tell(reference("a"))).unwrap();
    let began = Instant::now();
    assert_eq!(merged.next().await, Some(reference("a")));
    assert_eq!(began.elapsed(), Duration::from_millis(15) * LABOUR);
}

/// Lets paused time pass as if something had been computed for so long.
fn pass(time: Duration) {
    assert!(tokio::time::advance(time).now_or_never().is_none(), "it passes, and then lets others run");
}
