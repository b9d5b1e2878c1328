//! Queued keys. Namespaces take turns: a tenant with thousands of queued keys delays any other tenant by at most one reconcile. In its turn, a
//! namespace gets its oldest reconcile, and if it has none its oldest one with low priority. Every fourth turn prefers one with low priority,
//! so that statuses change while many objects are created.

use std::collections::{BTreeMap, VecDeque};

use tokio::time::Instant;

use super::{Key, Priority};

/// Every turn of this number prefers a reconcile with low priority.
const LOW_PRIORITY_TURN: u32 = 4;

/// Queued keys with their times of arrival. Each key is queued once.
#[derive(Debug, Default)]
pub(super) struct FairQueue {
    /// Without empty queues.
    namespaces: BTreeMap<String, NamespaceQueue>,
    /// The namespaces with queued keys, in the order of their next turns.
    turns: VecDeque<String>,
    keys: BTreeMap<Key, Priority>,
    low_priority: usize,
}

/// The keys of one namespace, in order of arrival.
#[derive(Debug, Default)]
struct NamespaceQueue {
    normal: VecDeque<(Key, Instant)>,
    low: VecDeque<(Key, Instant)>,
    turn: u32,
}

impl FairQueue {
    /// The number of keys of this priority.
    pub(super) fn count(&self, priority: Priority) -> usize {
        match priority {
            Priority::Normal => self.keys.len() - self.low_priority,
            Priority::Low => self.low_priority,
        }
    }

    pub(super) fn contains(&self, key: &Key) -> bool {
        self.keys.contains_key(key)
    }

    /// Queues a key. One that is queued with low priority may get normal priority. Returns whether the key was not queued.
    pub(super) fn push(&mut self, key: Key, priority: Priority, since: Instant) -> bool {
        let existing = self.keys.get(&key).copied();
        if existing >= Some(priority) {
            return false;
        }
        self.remove(&key);
        self.low_priority += usize::from(priority == Priority::Low);
        self.keys.insert(key.clone(), priority);
        let is_first = !self.namespaces.contains_key(&key.namespace);
        if is_first {
            self.turns.push_back(key.namespace.clone());
        }
        let queue = self.namespaces.entry(key.namespace.clone()).or_default();
        queue.of(priority).push_back((key, since));
        existing.is_none()
    }

    /// The next key of the namespace whose turn it is.
    pub(super) fn pop(&mut self) -> Option<(Key, Instant)> {
        let namespace = self.turns.pop_front()?;
        let queue = self.namespaces.get_mut(&namespace)?;
        let (key, since) = queue.pop()?;
        if queue.is_empty() {
            self.namespaces.remove(&namespace);
        } else {
            self.turns.push_back(namespace);
        }
        self.forget(&key);
        Some((key, since))
    }

    pub(super) fn remove(&mut self, key: &Key) {
        let Some(priority) = self.forget(key) else { return };
        let Some(queue) = self.namespaces.get_mut(&key.namespace) else { return };
        queue.of(priority).retain(|(queued, _)| queued != key);
        if queue.is_empty() {
            self.namespaces.remove(&key.namespace);
            self.turns.retain(|namespace| *namespace != key.namespace);
        }
    }

    fn forget(&mut self, key: &Key) -> Option<Priority> {
        let priority = self.keys.remove(key)?;
        self.low_priority -= usize::from(priority == Priority::Low);
        Some(priority)
    }
}

impl NamespaceQueue {
    fn of(&mut self, priority: Priority) -> &mut VecDeque<(Key, Instant)> {
        match priority {
            Priority::Normal => &mut self.normal,
            Priority::Low => &mut self.low,
        }
    }

    fn pop(&mut self) -> Option<(Key, Instant)> {
        self.turn = (self.turn + 1) % LOW_PRIORITY_TURN;
        let (first, second) = match self.turn {
            0 => (&mut self.low, &mut self.normal),
            _ => (&mut self.normal, &mut self.low),
        };
        first.pop_front().or_else(|| second.pop_front())
    }

    fn is_empty(&self) -> bool {
        self.normal.is_empty() && self.low.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Key {
        let (namespace, name) = text.split_once('/').unwrap();
        Key { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// Keys whose names begin with `s` have low priority.
    fn queue(keys: &[&str]) -> FairQueue {
        let (mut queue, now) = (FairQueue::default(), Instant::now());
        for text in keys {
            let key = key(text);
            let priority = if key.name.starts_with('s') { Priority::Low } else { Priority::Normal };
            queue.push(key, priority, now);
        }
        queue
    }

    fn counts(queue: &FairQueue) -> [usize; 2] {
        [Priority::Normal, Priority::Low].map(|priority| queue.count(priority))
    }

    fn popped(mut queue: FairQueue) -> Vec<String> {
        let keys = std::iter::from_fn(|| queue.pop()).map(|(key, _)| [key.namespace, key.name].join("/")).collect();
        assert!(queue.keys.is_empty() && queue.namespaces.is_empty() && queue.turns.is_empty());
        assert_eq!(counts(&queue), [0, 0]);
        keys
    }

    #[test]
    fn namespaces_take_turns_and_their_keys_have_the_order_of_arrival() {
        let queue = queue(&["a/1", "a/2", "a/3", "b/1", "b/2", "a/4", "c/s1", "c/s2"]);
        assert_eq!(counts(&queue), [6, 2]);
        assert_eq!(popped(queue), ["a/1", "b/1", "c/s1", "a/2", "b/2", "c/s2", "a/3", "a/4"]);
    }

    #[test]
    fn reconciles_come_first_except_in_every_fourth_turn() {
        let keys: Vec<_> = (1..=6).flat_map(|number| [format!("a/s{number}"), format!("a/{number}")]).collect();
        let queue = queue(&keys.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(
            popped(queue),
            ["a/1", "a/2", "a/3", "a/s1", "a/4", "a/5", "a/6", "a/s2", "a/s3", "a/s4", "a/s5", "a/s6"]
        );
    }

    #[test]
    fn a_queued_key_may_get_normal_priority_and_not_the_reverse() {
        let (mut queue, now) = (queue(&["a/s1", "a/s2"]), Instant::now());
        assert!(!queue.push(key("a/s2"), Priority::Normal, now));
        assert!(!queue.push(key("a/s2"), Priority::Low, now));
        assert_eq!(counts(&queue), [1, 1]);
        assert_eq!(popped(queue), ["a/s2", "a/s1"]);
    }

    #[test]
    fn a_namespace_that_returns_is_behind_the_others() {
        let mut queue = queue(&["a/1", "b/1", "b/2"]);
        assert_eq!(queue.pop().unwrap().0, key("a/1"));
        assert!(queue.push(key("a/2"), Priority::Normal, Instant::now()));
        assert_eq!(popped(queue), ["b/1", "a/2", "b/2"]);
    }

    #[test]
    fn a_removed_key_leaves_nothing() {
        let mut queue = queue(&["a/1", "a/s1", "b/1", "b/2"]);
        for text in ["a/1", "a/1", "a/s1", "c/1", "b/1"] {
            queue.remove(&key(text));
        }
        assert!(!queue.contains(&key("a/1")) && !queue.namespaces.contains_key("a"));
        assert_eq!(popped(queue), ["b/2"]);
    }
}
