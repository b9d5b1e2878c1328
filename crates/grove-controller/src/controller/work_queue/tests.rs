//! The order, the delays and the de-duplication of keys. The tests pass the time.

use super::*;

mod tenants;

const MS: Duration = Duration::from_millis(1);

fn key(name: &str) -> Key {
    Key { namespace: String::new(), name: name.into() }
}

fn queue(concurrency: usize) -> WorkQueue {
    queue_with_metrics(concurrency, &prometheus::Registry::new())
}

fn queue_with_metrics(concurrency: usize, registry: &prometheus::Registry) -> WorkQueue {
    let metrics = crate::work_queue_metrics::WorkQueueMetrics::register(registry).unwrap();
    WorkQueue::new(concurrency, metrics.of_queue("test"))
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
    std::iter::from_fn(|| queue.get(now)).map(|key| key.name).collect()
}

/// The next key, which its worker has processed at once.
fn next(queue: &mut WorkQueue, now: Instant) -> String {
    let key = queue.get(now).unwrap();
    queue.done(&key, Duration::ZERO, now);
    key.name
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
    queue.done(&key("a"), Duration::ZERO, now);
    assert_eq!(names(&mut queue, now), ["a"]);
    queue.done(&key("a"), Duration::ZERO, now);
    assert_eq!(names(&mut queue, now), Vec::<String>::new());
}

#[test]
fn reconciles_run_before_those_with_low_priority_and_replace_them() {
    let (mut queue, now) = (queue(1), Instant::now());
    for name in ["a", "b", "c"] {
        queue.add_low_priority(key(name), now);
    }
    queue.add(key("b"), now + DEBOUNCE);
    assert_eq!(names(&mut queue, now + DEBOUNCE), ["b"]);
    queue.add(key("c"), now + DEBOUNCE);
    queue.done(&key("b"), Duration::ZERO, now + DEBOUNCE);
    assert_eq!([next(&mut queue, now + DEBOUNCE), next(&mut queue, now + DEBOUNCE)], ["c", "a"]);
    assert_eq!(names(&mut queue, now + MAX_COOLDOWN), Vec::<String>::new());
}

#[test]
fn triggers_with_low_priority_of_one_object_are_merged() {
    let (mut queue, now) = (queue(10), Instant::now());
    queue.add_low_priority(key("a"), now);
    assert_eq!(queue.next_due(), Some(now + DEBOUNCE));
    queue.add_low_priority(key("a"), now + DEBOUNCE / 2);
    assert_eq!(names(&mut queue, now + DEBOUNCE - MS), Vec::<String>::new());
    assert_eq!(names(&mut queue, now + DEBOUNCE), ["a"], "a further trigger does not extend the debounce");
    queue.done(&key("a"), Duration::ZERO, now + DEBOUNCE);
    assert_eq!(names(&mut queue, now + MAX_COOLDOWN), Vec::<String>::new());
}

#[test]
fn the_cooldown_follows_the_duration_of_the_last_reconcile_up_to_a_bound() {
    let (short, long) = (Duration::from_millis(50), Duration::from_mins(1));
    for (took, expected) in [(MS, DEBOUNCE), (short, short * COOLDOWN_FACTOR), (long, MAX_COOLDOWN)] {
        let (mut queue, now) = (queue(10), Instant::now());
        queue.add(key("a"), now);
        assert_eq!(names(&mut queue, now), ["a"]);
        queue.done(&key("a"), took, now);
        queue.add_low_priority(key("a"), now);
        assert_eq!(queue.next_due(), Some(now + expected), "{took:?}");
        let later = now + MAX_COOLDOWN * 10;
        assert_eq!(next(&mut queue, later), "a");
        queue.add_low_priority(key("a"), later);
        assert_eq!(queue.next_due(), Some(later + DEBOUNCE), "an old reconcile causes no cooldown");
    }
}

#[test]
fn a_cooldown_delays_no_reconcile() {
    let (mut queue, now) = (queue(10), Instant::now());
    for requeue in [Requeue::StatusAfter(MS), Requeue::After(MS)] {
        queue.add(key("a"), now);
        assert_eq!(names(&mut queue, now), ["a"]);
        queue.done(&key("a"), Duration::from_mins(1), now);
        let is_reconcile = requeue == Requeue::After(MS);
        queue.add_after(key("a"), requeue, now);
        assert_eq!(queue.next_due(), Some(now + if is_reconcile { MS } else { MAX_COOLDOWN }));
    }
}

#[test]
fn a_status_trigger_during_a_reconcile_leads_to_another_one_after_the_cooldown() {
    let (mut queue, now) = (queue(10), Instant::now());
    queue.add(key("a"), now);
    assert_eq!(names(&mut queue, now), ["a"]);
    queue.add_low_priority(key("a"), now);
    queue.done(&key("a"), MS * 50, now);
    assert_eq!(queue.next_due(), Some(now + MS * 50 * COOLDOWN_FACTOR));
}

#[test]
fn the_earlier_of_two_delays_counts_and_a_trigger_comes_before_both() {
    let (mut queue, now) = (queue(10), Instant::now());
    queue.add_after(key("a"), Requeue::After(Duration::from_mins(1)), now);
    queue.add_after(key("a"), Requeue::StatusAfter(Duration::from_secs(5)), now);
    queue.add_after(key("a"), Requeue::After(Duration::from_secs(30)), now);
    assert_eq!(queue.next_due(), Some(now + Duration::from_secs(5)));
    queue.add(key("a"), now);
    assert_eq!(next(&mut queue, now), "a");
    assert_eq!(queue.next_due(), None, "the reconcile sets the other times again");
}

#[test]
fn a_key_runs_with_the_priority_of_its_earliest_time() {
    for (first, second, is_reconcile) in [
        (Requeue::After(MS), Requeue::StatusAfter(MS * 2), true),
        (Requeue::StatusAfter(MS * 2), Requeue::After(MS), true),
        (Requeue::StatusAfter(MS), Requeue::After(MS), true),
        (Requeue::After(MS), Requeue::StatusAfter(MS), true),
        (Requeue::StatusAfter(MS), Requeue::After(MS * 2), false),
    ] {
        let (mut queue, now) = (queue(1), Instant::now());
        queue.add_after(key("a"), first, now);
        queue.add_after(key("a"), second, now);
        queue.add_after(key("other"), Requeue::After(MS), now);
        let expected = if is_reconcile { ["a", "other"] } else { ["other", "a"] };
        assert_eq!([next(&mut queue, now + MS), next(&mut queue, now + MS)], expected, "{first:?} {second:?}");
    }
}

#[test]
fn no_more_keys_are_processed_than_workers_exist() {
    let (mut queue, now) = (queue(2), Instant::now());
    for name in ["a", "b", "c"] {
        queue.add(key(name), now);
    }
    assert_eq!(names(&mut queue, now), ["a", "b"]);
    queue.add_low_priority(key("d"), now);
    assert_eq!(queue.next_due(), None, "the next one starts when one of them is done");
    queue.done(&key("b"), Duration::ZERO, now);
    assert_eq!(names(&mut queue, now), ["c"]);
}

#[test]
fn the_state_of_a_deleted_object_is_dropped() {
    let (mut queue, now) = (queue(1), Instant::now());
    for name in ["processed", "queued"] {
        queue.add(key(name), now);
    }
    queue.add_low_priority(key("delayed"), now);
    assert_eq!(names(&mut queue, now), ["processed"]);
    queue.add(key("processed"), now);
    for name in ["processed", "queued", "delayed"] {
        queue.remove(&key(name));
    }
    queue.done(&key("processed"), Duration::from_secs(1), now);
    assert_eq!(names(&mut queue, now + MAX_COOLDOWN), Vec::<String>::new());
    assert_eq!((queue.delayed.len(), queue.next_due()), (0, None));
    assert!(queue.processing.is_empty() && queue.cooldowns.is_empty());
}

#[test]
fn every_delayed_key_is_counted() {
    let (mut queue, now) = (queue(10), Instant::now());
    let delayed_keys = queue.metrics.delayed_keys().clone();
    queue.add_after(key("retry"), Requeue::After(MS), now);
    queue.add_low_priority(key("status"), now);
    queue.add_low_priority(key("deleted"), now);
    assert_eq!(delayed_keys.get(), 3);
    queue.remove(&key("deleted"));
    assert_eq!(delayed_keys.get(), 2);
    assert_eq!(names(&mut queue, now + MAX_COOLDOWN), ["retry", "status"]);
    assert_eq!(delayed_keys.get(), 0);
}

#[test]
fn expired_cooldowns_are_dropped() {
    let (mut queue, mut now) = (queue(1), Instant::now());
    for number in 0..1000 {
        let key = key(&number.to_string());
        queue.add(key.clone(), now);
        assert!(queue.get(now).is_some());
        queue.done(&key, MS * 50, now);
        now += MS * 50;
    }
    assert!(queue.cooldowns.len() <= MIN_COOLDOWNS, "{} cooldowns", queue.cooldowns.len());
}

#[tokio::test(start_paused = true)]
async fn the_metrics_count_keys_after_deduplication_and_the_work_in_progress() {
    let registry = prometheus::Registry::new();
    let (mut queue, now) = (queue_with_metrics(1, &registry), Instant::now());
    for name in ["a", "b", "a"] {
        queue.add_after(key(name), Requeue::After(MS), now);
    }
    queue.add_low_priority(key("c"), now);
    queue.add_low_priority(key("c"), now);
    assert_eq!(metrics(&registry, ["adds_total", "retries_total", "depth"]), ["3", "3", "0"]);
    assert_eq!(names(&mut queue, now + MS), ["a"]);
    assert_eq!(metrics(&registry, ["adds_total", "depth"]), ["3", "1"], "a due key is not added again");
    tokio::time::advance(MS * 1001).await;
    let in_progress = ["unfinished_work_seconds", "longest_running_processor_seconds"];
    assert_eq!(metrics(&registry, in_progress), ["1", "1"]);
    queue.done(&key("a"), MS, Instant::now());
    assert_eq!(names(&mut queue, Instant::now()), ["b"]);
    assert_eq!(metrics(&registry, ["depth"]), ["1"], "the reconcile with low priority is due");
    tokio::time::advance(MS * 1000).await;
    assert_eq!(metrics(&registry, in_progress), ["1", "1"]);
    queue.done(&key("b"), MS, Instant::now());
    assert_eq!(metrics(&registry, in_progress), ["0", "0"]);
}
