//! Sums over the objects of a cache, by a value that is computed from each object. The indexer updates them with each event, so a
//! reader gets a sum without reading the objects.

use std::collections::BTreeMap;

use kube::Resource;

use super::{Cache, index_scope::IndexScope};

/// A named sum: the total of an amount of all objects with the same value, for example with the same label.
#[derive(Debug)]
pub struct Sum<K> {
    /// The name, unique within an informer.
    pub name: &'static str,
    /// The value of an object; an object without a value does not count. It must depend on nothing but the object.
    pub value: fn(&K) -> Option<String>,
    /// The amount of an object. It must depend on nothing but the object.
    pub amount: fn(&K) -> usize,
    /// Whether objects of different namespaces can have the same value.
    pub scope: IndexScope,
}

impl<K> Clone for Sum<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Sum<K> {}

impl<K: Resource> Sum<K> {
    /// The value and the amount of an object, unless it adds nothing.
    fn part(&self, object: &K) -> Option<(String, usize)> {
        let value = (self.value)(object)?;
        self.scope.check(self.name, object, &value);
        let amount = (self.amount)(object);
        (amount > 0).then_some((value, amount))
    }
}

/// The totals of one sum, by value. A value with the total 0 has no entry.
#[derive(Debug)]
pub(super) struct Totals<K> {
    sum: Sum<K>,
    by_value: BTreeMap<String, usize>,
}

impl<K> Totals<K> {
    pub(super) fn new(sum: Sum<K>) -> Self {
        Self { sum, by_value: BTreeMap::new() }
    }

    pub(super) fn name(&self) -> &'static str {
        self.sum.name
    }

    pub(super) fn of(&self, value: &str) -> usize {
        self.by_value.get(value).copied().unwrap_or_default()
    }

    pub(super) fn len(&self) -> usize {
        self.by_value.len()
    }
}

impl<K: Resource> Totals<K> {
    /// Replaces the part of the stored object by that of its new state.
    pub(super) fn update(&mut self, old: Option<&K>, new: Option<&K>) {
        let [old, new] = [old, new].map(|object| object.and_then(|object| self.sum.part(object)));
        if old == new {
            return;
        }
        // Added first: a total that stays above 0 keeps its entry.
        if let Some((value, amount)) = new {
            let total = self.by_value.entry(value).or_default();
            *total = total.saturating_add(amount);
        }
        if let Some((value, amount)) = old
            && let Some(total) = self.by_value.get_mut(&value)
        {
            *total = total.saturating_sub(amount);
            if *total == 0 {
                self.by_value.remove(&value);
            }
        }
    }
}

impl<K: Resource> Cache<K> {
    /// The total of all objects with this value. An informer that was started without the sum scans all its objects.
    pub fn sum(&self, sum: &Sum<K>, value: &str) -> usize {
        let indexer = self.indexer.read();
        if let Some(totals) = indexer.totals(sum.name) {
            return totals.of(value);
        }
        let parts = indexer.iter().filter_map(|object| sum.part(object));
        parts.filter(|(other, _)| other == value).fold(0, |total: usize, (_, amount)| total.saturating_add(amount))
    }

    /// The number of values with a total above 0, of an informer that was started with the sum.
    pub fn sum_values(&self, sum: &Sum<K>) -> usize {
        self.indexer.read().totals(sum.name).map_or(0, Totals::len)
    }
}
