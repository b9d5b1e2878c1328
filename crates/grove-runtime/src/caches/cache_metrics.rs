//! The metrics about the size of a cache: the number of entries of each of its maps.

use prometheus::IntGauge;

use super::{Index, indexer::Indexer};
use crate::metrics::Metrics;

/// The gauges of one cache.
pub(super) struct CacheMetrics {
    objects: IntGauge,
    unreadable: IntGauge,
    /// In the order of the indices.
    index_values: Vec<IntGauge>,
}

impl CacheMetrics {
    pub(super) fn new<K>(metrics: &Metrics, kind: &str, indices: &[Index<K>]) -> Self {
        Self {
            objects: metrics.cache_objects(kind),
            unreadable: metrics.unreadable_objects(kind),
            index_values: indices.iter().map(|index| metrics.cache_index_values(kind, index.name)).collect(),
        }
    }

    pub(super) fn set<K>(&self, indexer: &Indexer<K>) {
        self.objects.set(count(indexer.len()));
        self.unreadable.set(count(indexer.unreadable.len()));
        for (gauge, size) in self.index_values.iter().zip(indexer.index_sizes()) {
            gauge.set(count(size));
        }
    }
}

fn count(size: usize) -> i64 {
    size.try_into().unwrap_or(i64::MAX)
}
