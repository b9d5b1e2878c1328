//! The order, the delays and the de-duplication of keys. The tests pass the time.

use super::*;

mod pauses;
mod tenants;

/// A pause delays the progress of few keys, too.
const POLICY: StatusPolicy = StatusPolicy { progress_burst: 0, ..StatusPolicy::DEFAULT };
const MS: Duration = Duration::from_millis(1);

fn key(name: &str) -> Key {
    Key { namespace: String::new(), name: name.into() }
}

fn queue(concurrency: usize) -> WorkQueue {
    queue_with_metrics(concurrency, &prometheus::Registry::new())
}

fn queue_with_metrics(concurrency: usize, registry: &prometheus::Registry) -> WorkQueue {
    let metrics = crate::work_queue_metrics::WorkQueueMetrics::register(registry).unwrap();
    WorkQueue::new(POLICY, concurrency, metrics.of_queue("test"))
}

/// The value of each counter and gauge `workqueue_{name}`.
fn metrics<const N: usize>(registry: &prometheus::Registry, names: [&str; N]) -> [String; N] {
    let families = registry.gather();
    names.map(|name| {
        let family = families.iter().find(|family| family.name() == format!("workqueue_{name}")).unwrap();
        let values =
            family.get_metric().iter().map(|metric| metric.get_counter().get_value() + metric.get_gauge().get_value());
        values.sum::<f64>().to_string()
    })
}

/// The names of all keys that workers get at this time.
fn names(queue: &mut WorkQueue, now: Instant) -> Vec<String> {
    names_until(queue, now, None)
}

/// The names of all keys that workers get at this time, if progress is paused longer.
fn names_during_pause(queue: &mut WorkQueue, now: Instant) -> Vec<String> {
    names_until(queue, now, Some(now + MS))
}

fn names_until(queue: &mut WorkQueue, now: Instant, paused_until: Option<Instant>) -> Vec<String> {
    std::iter::from_fn(|| queue.get(now, paused_until)).map(|key| key.name).collect()
}

/// Adds progress with the delays of the policy.
fn add_progress(queue: &mut WorkQueue, key: Key, now: Instant) {
    queue.add_after(key, progress(MS, POLICY.progress_deadline), now);
}

fn progress(due: Duration, deadline: Duration) -> Requeue {
    Requeue::ProgressAfter { due, deadline, reconcile_after: None }
}

fn has_delayed_key(queue: &WorkQueue) -> bool {
    !queue.delayed.is_empty()
}

fn took(duration: Duration) -> ReconcileDuration {
    ReconcileDuration { duration, cpu: Duration::ZERO }
}

#[test]
fn a_key_is_queued_once_and_processed_once_at_a_time() {
    let (mut queue, now) = (queue(10), Instant::now());
    for name in ["a", "b", "a"] {
        queue.add(key(name), now);
    }
    assert_eq!(names(&mut queue, now), ["a", "b"]);
    queue.add(key("a"), now);
    queue.add(key("a"), now);
    assert_eq!(names(&mut queue, now), Vec::<String>::new(), "a worker processes it");
    queue.done(&key("a"), ReconcileDuration::default(), now);
    assert_eq!(names(&mut queue, now), ["a"]);
    queue.done(&key("a"), ReconcileDuration::default(), now);
    assert_eq!(names(&mut queue, now), Vec::<String>::new());
}

#[test]
fn reconciles_run_before_status_only_reconciles_and_replace_them() {
    let (mut queue, now) = (queue(1), Instant::now());
    queue.add_status(key("a"), now);
    queue.add_status(key("b"), now);
    let due = now + POLICY.delay(1);
    queue.add(key("b"), due);
    queue.add(key("c"), due);
    for expected in ["b", "c", "a"] {
        assert_eq!(names(&mut queue, due), [expected]);
        queue.done(&key(expected), ReconcileDuration::default(), due);
    }
    assert_eq!(names(&mut queue, due + POLICY.max_delay), Vec::<String>::new());
}

#[test]
fn a_status_only_reconcile_waits_behind_reconciles_for_a_bounded_time() {
    let (mut queue, now) = (queue(1), Instant::now());
    queue.add_status(key("status"), now);
    let due = queue.next_due(None).unwrap();
    for number in 0..10 {
        queue.add(key(&number.to_string()), now);
    }
    assert_eq!(names(&mut queue, due + POLICY.max_wait - MS), ["0"]);
    queue.done(&key("0"), ReconcileDuration::default(), due);
    assert_eq!(names(&mut queue, due + POLICY.max_wait), ["status"]);
}

#[test]
fn status_only_triggers_of_one_object_are_merged() {
    let (mut queue, now) = (queue(10), Instant::now());
    queue.add_status(key("a"), now);
    assert_eq!(queue.next_due(None), Some(now + POLICY.debounce));
    queue.add_status(key("a"), now + POLICY.debounce / 2);
    assert_eq!(names(&mut queue, now + POLICY.debounce - MS), Vec::<String>::new());
    assert_eq!(names(&mut queue, now + POLICY.debounce), ["a"]);
    queue.done(&key("a"), ReconcileDuration::default(), now + POLICY.debounce);
    assert_eq!(names(&mut queue, now + POLICY.max_delay), Vec::<String>::new());
}

#[test]
fn concurrent_status_only_reconciles_are_limited() {
    let (mut queue, now) = (queue(100), Instant::now());
    for number in 0..20 {
        queue.add_status(key(&number.to_string()), now);
    }
    let later = now + POLICY.max_delay;
    let first = names(&mut queue, later);
    assert_eq!(first.len(), POLICY.concurrency);
    assert_eq!(queue.next_due(None), None, "the next one starts when one of them is done");
    queue.done(&key(&first[0]), ReconcileDuration::default(), later);
    assert_eq!(names(&mut queue, later).len(), 1);
}

#[test]
fn progress_runs_behind_everything_else_and_not_during_a_pause_for_a_bounded_time() {
    let (mut queue, now) = (queue(1), Instant::now());
    add_progress(&mut queue, key("progress"), now);
    queue.add_status(key("status"), now);
    let due = now + POLICY.debounce;
    queue.add(key("reconcile"), due);
    for expected in ["reconcile", "status"] {
        assert_eq!(names(&mut queue, due), [expected]);
        queue.done(&key(expected), ReconcileDuration::default(), due);
    }
    let bound = now + POLICY.progress_deadline;
    assert_eq!(names_during_pause(&mut queue, bound - MS), Vec::<String>::new());
    queue.add(key("reconcile"), now);
    assert_eq!(names_during_pause(&mut queue, bound), ["progress"]);
    queue.done(&key("progress"), ReconcileDuration::default(), bound);
    assert_eq!(names_during_pause(&mut queue, bound), ["reconcile"]);
}

#[test]
fn few_keys_write_progress_at_once() {
    let (mut queue, now) = (queue(100), Instant::now());
    for number in 0..20 {
        add_progress(&mut queue, key(&number.to_string()), now);
    }
    let later = now + MS;
    assert_eq!(names(&mut queue, later).len(), POLICY.progress_concurrency);
    assert_eq!(queue.next_due(None), None, "the next one starts when one of them is done");
}

#[test]
fn progress_replaces_no_other_trigger_and_every_other_trigger_replaces_progress() {
    for progress_is_first in [true, false] {
        let (mut queue, now) = (queue(10), Instant::now());
        for is_progress in [progress_is_first, !progress_is_first] {
            if is_progress {
                add_progress(&mut queue, key("a"), now);
            } else {
                queue.add_status(key("a"), now);
            }
        }
        assert_eq!(names_during_pause(&mut queue, now + POLICY.debounce), ["a"]);
        queue.done(&key("a"), ReconcileDuration::default(), now + POLICY.debounce);
        assert!(!has_delayed_key(&queue));
    }
}

#[test]
fn the_cooldown_follows_the_duration_and_the_cpu_time_of_the_last_reconcile_up_to_a_bound() {
    let (short, long) = (Duration::from_millis(50), Duration::from_mins(1));
    for (elapsed, expected) in [
        (took(MS), POLICY.debounce),
        (took(short), short * POLICY.duration_factor),
        (ReconcileDuration { duration: MS * 2, cpu: MS * 2 }, MS * 2 * POLICY.cpu_factor),
        (took(long), POLICY.max_delay),
    ] {
        let (mut queue, now) = (queue(10), Instant::now());
        queue.add(key("a"), now);
        assert_eq!(names(&mut queue, now), ["a"]);
        queue.done(&key("a"), elapsed, now);
        queue.add_status(key("a"), now);
        assert_eq!(queue.next_due(None), Some(now + expected), "{elapsed:?}");
        let later = now + POLICY.max_delay * 10;
        assert_eq!(names(&mut queue, later), ["a"]);
        queue.done(&key("a"), ReconcileDuration::default(), later);
        queue.add_status(key("a"), later);
        assert_eq!(queue.next_due(None), Some(later + POLICY.debounce), "an old reconcile causes no cooldown");
    }
}

#[test]
fn a_status_trigger_during_a_reconcile_leads_to_another_one_after_the_cooldown() {
    let (mut queue, now) = (queue(10), Instant::now());
    queue.add(key("a"), now);
    assert_eq!(names(&mut queue, now), ["a"]);
    queue.add_status(key("a"), now);
    queue.done(&key("a"), took(Duration::from_millis(50)), now);
    assert_eq!(queue.next_due(None), Some(now + POLICY.cooldown(Duration::from_millis(50), Duration::ZERO)));
}

#[test]
fn the_earlier_of_two_delays_counts_and_a_trigger_comes_before_both() {
    let (mut queue, now) = (queue(10), Instant::now());
    queue.add_after(key("a"), Requeue::After(Duration::from_mins(1)), now);
    queue.add_after(key("a"), Requeue::After(Duration::from_secs(5)), now);
    queue.add_after(key("a"), Requeue::After(Duration::from_secs(30)), now);
    assert_eq!(queue.next_due(None), Some(now + Duration::from_secs(5)));
    queue.add(key("a"), now);
    assert_eq!(names(&mut queue, now), ["a"]);
    queue.done(&key("a"), ReconcileDuration::default(), now);
    assert_eq!(queue.next_due(None), None);
}

#[test]
fn a_key_with_a_deadline_and_a_status_trigger_runs_once_at_the_earlier_time_with_the_priority_of_that_time() {
    for deadline_is_first in [true, false] {
        let (mut queue, now) = (queue(1), Instant::now());
        for is_deadline in [deadline_is_first, !deadline_is_first] {
            if is_deadline {
                queue.add_after(key("a"), Requeue::After(POLICY.debounce * 2), now);
            } else {
                queue.add_status(key("a"), now);
            }
        }
        let due = now + POLICY.debounce;
        assert_eq!(queue.next_due(None), Some(due));
        queue.add(key("b"), due);
        for expected in ["b", "a"] {
            assert_eq!(names(&mut queue, due), [expected], "the status-only reconcile runs behind the reconcile");
            queue.done(&key(expected), ReconcileDuration::default(), due);
        }
        assert!(!has_delayed_key(&queue));
    }
}

#[test]
fn a_deadline_waits_neither_for_a_pause_nor_for_the_workers_of_statuses_and_progress() {
    let (mut queue, now) = (queue(100), Instant::now());
    for number in 0..POLICY.concurrency {
        queue.add_status(key(&format!("busy-status{number}")), now);
    }
    for number in 0..POLICY.progress_concurrency {
        add_progress(&mut queue, key(&format!("busy-progress{number}")), now);
    }
    let busy = now + POLICY.max_delay;
    assert_eq!(names(&mut queue, busy).len(), POLICY.concurrency + POLICY.progress_concurrency);
    let deadline = Duration::from_secs(3);
    let (due, reconcile_after) = (MS, Some(deadline));
    let progress = Requeue::ProgressAfter { due, deadline: POLICY.progress_deadline, reconcile_after };
    queue.add_after(key("progress"), progress, now);
    queue.add_after(key("status"), Requeue::After(deadline), now);
    queue.add_status(key("status"), now);
    for paused_until in [None, Some(busy + deadline)] {
        assert_eq!(queue.next_due(paused_until), Some(now + deadline));
        assert_eq!(names_until(&mut queue, now + deadline - MS, paused_until), Vec::<String>::new());
    }
    assert_eq!(names_during_pause(&mut queue, now + deadline), ["progress", "status"]);
    assert!(!has_delayed_key(&queue));
}

#[test]
fn no_more_keys_are_processed_than_workers_exist() {
    let (mut queue, now) = (queue(2), Instant::now());
    for name in ["a", "b", "c"] {
        queue.add(key(name), now);
    }
    assert_eq!(names(&mut queue, now), ["a", "b"]);
    assert_eq!(queue.next_due(None), None);
    queue.done(&key("b"), ReconcileDuration::default(), now);
    assert_eq!(names(&mut queue, now), ["c"]);
}

#[test]
fn the_state_of_a_deleted_object_is_dropped() {
    let (mut queue, now) = (queue(1), Instant::now());
    for name in ["processed", "queued"] {
        queue.add(key(name), now);
    }
    queue.add_status(key("delayed"), now);
    add_progress(&mut queue, key("progress"), now);
    assert_eq!(names(&mut queue, now), ["processed"]);
    queue.add(key("processed"), now);
    for name in ["processed", "queued", "delayed", "progress"] {
        queue.remove(&key(name));
    }
    queue.done(&key("processed"), took(Duration::from_secs(1)), now);
    assert_eq!(names(&mut queue, now + POLICY.max_delay), Vec::<String>::new());
    assert!(queue.queue.is_empty() && !has_delayed_key(&queue));
    assert!(queue.processing.is_empty() && queue.cooldowns.is_empty());
}

#[test]
fn every_delayed_key_is_counted() {
    let (mut queue, now) = (queue(10), Instant::now());
    let delayed_keys = queue.metrics.delayed_keys().clone();
    queue.add_after(key("retry"), Requeue::After(MS), now);
    queue.add_status(key("status"), now);
    add_progress(&mut queue, key("progress"), now);
    assert_eq!(delayed_keys.get(), 3);
    queue.remove(&key("progress"));
    assert_eq!(delayed_keys.get(), 2);
    assert_eq!(names(&mut queue, now + POLICY.max_delay), ["retry", "status"]);
    assert_eq!(delayed_keys.get(), 0);
}

#[test]
fn expired_cooldowns_are_dropped() {
    let (mut queue, mut now) = (queue(1), Instant::now());
    for number in 0..1000 {
        let key = key(&number.to_string());
        queue.add(key.clone(), now);
        assert!(queue.get(now, None).is_some());
        queue.done(&key, took(Duration::from_millis(50)), now);
        now += Duration::from_millis(50);
    }
    assert!(queue.cooldowns.len() <= MIN_COOLDOWNS, "{} cooldowns", queue.cooldowns.len());
}

#[tokio::test(start_paused = true)]
async fn the_metrics_count_keys_after_deduplication_and_the_work_in_progress() {
    let registry = prometheus::Registry::new();
    let (mut queue, now) = (queue_with_metrics(10, &registry), Instant::now());
    for name in ["a", "b", "a"] {
        queue.add_after(key(name), Requeue::After(MS), now);
    }
    queue.add_status(key("c"), now);
    queue.add_status(key("c"), now);
    assert_eq!(metrics(&registry, ["adds_total", "retries_total", "depth"]), ["3", "3", "1"]);
    assert_eq!(names(&mut queue, now + MS), ["a", "b"]);
    assert_eq!(metrics(&registry, ["adds_total", "depth"]), ["3", "1"], "a due key is not added again");
    queue.done(&key("a"), took(MS), now + MS);
    tokio::time::advance(MS * 1001).await;
    let in_progress = ["unfinished_work_seconds", "longest_running_processor_seconds"];
    assert_eq!(metrics(&registry, in_progress), ["1", "1"]);
    assert_eq!(names(&mut queue, Instant::now()), ["c"]);
    tokio::time::advance(MS * 1000).await;
    assert_eq!(metrics(&registry, in_progress), ["3", "2"]);
    queue.done(&key("b"), took(MS), Instant::now());
    assert_eq!(metrics(&registry, in_progress), ["1", "1"]);
    queue.done(&key("c"), took(MS), Instant::now());
    assert_eq!(metrics(&registry, in_progress), ["0", "0"]);
}
