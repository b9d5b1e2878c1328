//! Keys to reconcile: the keys of a namespace in order of arrival, and the namespaces in turn. So thousands of keys of one tenant delay a key
//! of another one by one key.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tokio::time::Instant;

use super::Key;

/// Queued keys with their times of arrival. Each key is queued once.
#[derive(Debug, Default)]
pub(super) struct FairQueue {
    /// By namespace, without empty queues.
    queues: BTreeMap<String, VecDeque<(Key, Instant)>>,
    /// The namespaces with queued keys, in the order of their next turns.
    turns: VecDeque<String>,
    keys: BTreeSet<Key>,
}

impl FairQueue {
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(super) fn contains(&self, key: &Key) -> bool {
        self.keys.contains(key)
    }

    pub(super) fn contains_namespace(&self, namespace: &str) -> bool {
        self.queues.contains_key(namespace)
    }

    /// Returns whether the key was not queued.
    pub(super) fn push(&mut self, key: Key, since: Instant) -> bool {
        if !self.keys.insert(key.clone()) {
            return false;
        }
        let Some(queue) = self.queues.get_mut(&key.namespace) else {
            self.turns.push_back(key.namespace.clone());
            self.queues.insert(key.namespace.clone(), VecDeque::from([(key, since)]));
            return true;
        };
        queue.push_back((key, since));
        true
    }

    /// The first key of the namespace that has its turn.
    pub(super) fn pop(&mut self) -> Option<(Key, Instant)> {
        let namespace = self.turns.pop_front()?;
        let queue = self.queues.get_mut(&namespace)?;
        let (key, since) = queue.pop_front()?;
        self.keys.remove(&key);
        if queue.is_empty() {
            self.queues.remove(&namespace);
        } else {
            self.turns.push_back(namespace);
        }
        Some((key, since))
    }

    pub(super) fn remove(&mut self, key: &Key) {
        if !self.keys.remove(key) {
            return;
        }
        let Some(queue) = self.queues.get_mut(&key.namespace) else { return };
        queue.retain(|(queued, _)| queued != key);
        if queue.is_empty() {
            self.queues.remove(&key.namespace);
            self.turns.retain(|namespace| *namespace != key.namespace);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Key {
        let (namespace, name) = text.split_once('/').unwrap();
        Key { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    fn queue(keys: &[&str]) -> FairQueue {
        let (mut queue, now) = (FairQueue::default(), Instant::now());
        for text in keys {
            queue.push(key(text), now);
        }
        queue
    }

    fn popped(mut queue: FairQueue) -> Vec<String> {
        let keys = std::iter::from_fn(|| queue.pop()).map(|(key, _)| [key.namespace, key.name].join("/")).collect();
        assert!(queue.is_empty() && queue.queues.is_empty() && queue.turns.is_empty());
        keys
    }

    #[test]
    fn the_namespaces_have_turns_and_their_keys_the_order_of_arrival() {
        let queue = queue(&["a/1", "a/2", "a/3", "b/1", "b/2", "a/4", "c/1"]);
        assert_eq!(queue.len(), 7);
        assert_eq!(popped(queue), ["a/1", "b/1", "c/1", "a/2", "b/2", "a/3", "a/4"]);
    }

    #[test]
    fn a_namespace_that_returns_is_behind_the_others() {
        let mut queue = queue(&["a/1", "b/1", "b/2"]);
        assert_eq!(queue.pop().unwrap().0, key("a/1"));
        assert!(!queue.contains_namespace("a"));
        assert!(queue.push(key("a/2"), Instant::now()));
        assert!(!queue.push(key("a/2"), Instant::now()), "it is queued");
        assert_eq!(popped(queue), ["b/1", "a/2", "b/2"]);
    }

    #[test]
    fn a_removed_key_leaves_nothing() {
        let mut queue = queue(&["a/1", "b/1", "b/2"]);
        for text in ["a/1", "a/1", "c/1", "b/1"] {
            queue.remove(&key(text));
        }
        assert!(!queue.contains(&key("a/1")) && !queue.contains_namespace("a") && queue.contains_namespace("b"));
        assert_eq!(popped(queue), ["b/2"]);
    }
}
