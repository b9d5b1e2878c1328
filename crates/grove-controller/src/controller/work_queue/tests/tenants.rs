//! The keys of one namespace do not delay those of another one.

use super::*;

fn key(namespace: &str, name: &str) -> Key {
    Key { namespace: namespace.into(), name: name.into() }
}

#[test]
fn a_key_waits_for_one_key_of_another_namespace() {
    let (mut queue, now) = (queue(1), Instant::now());
    for number in 0..1000 {
        queue.add(key("large", &number.to_string()), now);
    }
    queue.add(key("small", "a"), now);
    let mut next = || {
        let key = queue.get(now, None).unwrap();
        queue.done(&key, ReconcileDuration::default(), now);
        key.name
    };
    assert_eq!([next(), next(), next()], ["0", "a", "1"]);
}

#[test]
fn a_status_waits_only_for_reconciles_of_its_namespace() {
    let (mut queue, now) = (queue(2), Instant::now());
    for number in 0..100 {
        queue.add_status(key("large", &format!("status-{number}")), now);
        queue.add(key("large", &number.to_string()), now);
    }
    queue.add_status(key("small", "a"), now);
    let due = now + POLICY.delay(0);
    assert_eq!(names(&mut queue, due), ["a", "0"], "the number of waiting statuses is that of the namespace");
    queue.done(&key("small", "a"), ReconcileDuration::default(), due);
    assert_eq!(names(&mut queue, due), ["1"], "the statuses of the large namespace wait for its reconciles");
    queue.done(&key("large", "0"), ReconcileDuration::default(), due);
    let later = now + POLICY.delay(0) + POLICY.max_wait;
    assert_eq!(names(&mut queue, later), ["status-0"], "but not longer than their maximum");
}

#[test]
fn namespaces_have_turns_for_their_statuses() {
    let (mut queue, now) = (queue(1), Instant::now());
    for name in ["a", "b", "c"] {
        queue.add_status(key("first", name), now);
    }
    queue.add_status(key("second", "d"), now);
    let due = now + POLICY.delay(3);
    let mut next = || {
        let key = queue.get(due, None).unwrap();
        queue.done(&key, ReconcileDuration::default(), due);
        key.name
    };
    assert_eq!([next(), next(), next(), next()], ["a", "d", "b", "c"]);
}

#[test]
fn no_namespace_is_left_out_if_many_wait_for_their_reconciles() {
    let (mut queue, now) = (queue(1), Instant::now());
    for number in 0..1000 {
        let namespace = format!("busy-{number:04}");
        queue.add_status(key(&namespace, "status"), now);
        queue.add(key(&namespace, "reconcile"), now);
    }
    queue.add_status(key("idle", "a"), now);
    let due = now + POLICY.delay(0);
    let keys = std::iter::from_fn(|| {
        let key = queue.get(due, None)?;
        queue.done(&key, ReconcileDuration::default(), due);
        Some(key)
    });
    let position = keys.take(50).position(|key| key.namespace == "idle");
    assert!(position.is_some_and(|position| position <= 1000 / 64 + 1), "{position:?}");
}
