//! The informers of a process (client-go's `SharedInformerFactory`): one per kind, which all its controllers share.

use std::{
    any::{Any, TypeId},
    collections::BTreeMap,
    fmt::{self, Debug, Formatter},
    sync::Arc,
};

use grove_runtime::{
    caches::{Cache, InformerOptions},
    runtime::Runtime,
};
use kube::Resource;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

/// The informers of a process, by the Rust type of their objects. A clone shares them.
#[derive(Clone)]
pub struct SharedInformerFactory {
    runtime: Runtime,
    caches: Arc<Mutex<BTreeMap<TypeId, Box<dyn Any + Send>>>>,
}

impl SharedInformerFactory {
    /// No informer is started yet.
    pub fn new(runtime: &Runtime) -> Self {
        Self { runtime: runtime.clone(), caches: Arc::default() }
    }

    /// The cache of kind `K` in all namespaces. The first call starts the informer, with the default options. Call this for
    /// every kind before the process waits for its caches.
    pub fn cache<K>(&self) -> Cache<K>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        self.cache_with(InformerOptions::default())
    }

    /// Like [`SharedInformerFactory::cache`], but the first call starts the informer with these options. Later calls ignore them.
    pub fn cache_with<K>(&self, options: InformerOptions<K>) -> Cache<K>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let mut caches = self.caches.lock();
        if let Some(cache) = caches.get(&TypeId::of::<K>()).and_then(|cache| cache.downcast_ref::<Cache<K>>()) {
            return cache.clone();
        }
        let cache = self.runtime.start_informer::<K>(options);
        caches.insert(TypeId::of::<K>(), Box::new(cache.clone()));
        cache
    }
}

impl Debug for SharedInformerFactory {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedInformerFactory").field("kinds", &self.caches.lock().len()).finish_non_exhaustive()
    }
}
