//! What an informer watches, and how its cache stores it.

use std::{
    fmt::{self, Debug, Formatter},
    sync::Arc,
};

use kube::{Resource, runtime::watcher};

use super::{Cache, Delta, Filter, Index, Sum, prerequisite::Prerequisite};

/// The number of objects in a page of a list. The text of a page is in memory at once, and an object may have 1.5 megabytes.
pub(crate) const OBJECTS_PER_PAGE: u32 = 50;

/// Receives each delta before it is published. See [`InformerOptions::with_observer`].
pub type DeltaObserver<K> = Arc<dyn Fn(&Delta<K>) + Send + Sync>;

/// Changes an object before it is stored. See [`InformerOptions::with_transform`].
pub type Transform<K> = fn(&mut K);

/// What an informer watches and how its cache stores it. By default these are all objects, indexed by their controller.
pub struct InformerOptions<K> {
    pub(super) config: watcher::Config,
    pub(super) filter: Option<Filter<K>>,
    pub(super) transform: Option<Transform<K>>,
    pub(super) indices: Vec<Index<K>>,
    pub(super) sums: Vec<Sum<K>>,
    pub(super) observers: Vec<DeltaObserver<K>>,
    pub(super) is_optional: bool,
    /// See [`InformerOptions::with_other_version`].
    pub(super) use_other_version: Option<fn() -> String>,
    pub(super) prerequisite: Option<Prerequisite>,
}

impl<K> Debug for InformerOptions<K> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let indices = self.indices.iter().map(|index| index.name).collect::<Vec<_>>();
        f.debug_struct("InformerOptions")
            .field("config", &self.config)
            .field("indices", &indices)
            .finish_non_exhaustive()
    }
}

impl<K: Resource> Default for InformerOptions<K> {
    fn default() -> Self {
        watcher::Config::default().page_size(OBJECTS_PER_PAGE).into()
    }
}

impl<K: Resource> From<watcher::Config> for InformerOptions<K> {
    /// The selectors, the page size and the timeout of `config` count. Lists are always consistent reads.
    fn from(config: watcher::Config) -> Self {
        Self {
            config,
            filter: None,
            transform: None,
            indices: vec![Index::OWNER],
            sums: vec![],
            observers: vec![],
            is_optional: false,
            use_other_version: None,
            prerequisite: None,
        }
    }
}

impl<K> InformerOptions<K> {
    /// Stores only objects that pass `filter`. An object that does not pass any more counts as deleted, so the filter should
    /// read only what rarely changes.
    #[must_use]
    pub fn with_filter(mut self, filter: Filter<K>) -> Self {
        self.filter = Some(filter);
        self
    }

    /// Drops the fields that the service does not read before an object enters the cache (client-go: `SetTransform`). Such an object must
    /// never be sent to the API server.
    #[must_use]
    pub fn with_transform(mut self, transform: Transform<K>) -> Self {
        self.transform = Some(transform);
        self
    }

    /// Adds an index.
    #[must_use]
    pub fn with_index(mut self, index: Index<K>) -> Self {
        self.indices.push(index);
        self
    }

    /// Adds a sum.
    #[must_use]
    pub fn with_sum(mut self, sum: Sum<K>) -> Self {
        self.sums.push(sum);
        self
    }

    /// Adds an observer of deltas. The cache calls it while it is locked: a reader that does not find a deleted object any
    /// more also finds what the observer stored about the deletion. So the observer must be quick, and must not read this
    /// cache, nor another cache with an observer that reads this one.
    #[must_use]
    pub fn with_observer(mut self, observer: impl Fn(&Delta<K>) + Send + Sync + 'static) -> Self {
        self.observers.push(Arc::new(observer));
        self
    }

    /// The kind has two versions. If the API server does not serve one of them, the informer calls `use_other_version`, which changes the
    /// version of the kind in the process and returns the new URL path of the kind, and tries that one.
    #[must_use]
    pub fn with_other_version(mut self, use_other_version: fn() -> String) -> Self {
        self.use_other_version = Some(use_other_version);
        self
    }

    /// The objects are needed only together with those of another kind. The informer starts after the first list of that kind, and does not
    /// stop when the kind is no longer served. Until then the cache is empty. Meanwhile, the service is ready if the API server does not
    /// serve that kind, or forbids its list.
    #[must_use]
    pub fn after_list_of<O>(mut self, other: &Cache<O>) -> Self {
        self.prerequisite = Some(Prerequisite::of(other));
        self
    }

    /// The service can work without the objects. If its account may not read them, the cache is empty until it may, and the
    /// service is ready.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.is_optional = true;
        self
    }
}
