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
    assert_eq!([(); 3].map(|()| next(&mut queue, now)), ["0", "a", "1"]);
}

#[test]
fn a_status_waits_only_for_reconciles_of_its_namespace() {
    let (mut queue, now) = (queue(1), Instant::now());
    for number in 0..100 {
        queue.add_low_priority(key("large", &format!("status-{number}")), now);
        queue.add(key("large", &number.to_string()), now);
    }
    queue.add_low_priority(key("small", "a"), now);
    let due = now + DEBOUNCE;
    assert_eq!([(); 5].map(|()| next(&mut queue, due)), ["0", "a", "1", "2", "status-0"]);
}
