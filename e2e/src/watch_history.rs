//! The watch events about some kinds in a namespace, in the order of their resource versions. Tests check invariants after each of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use grove_dev_harness::live_objects::Kind;
use kube::api::ListParams;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::namespace::Namespace;
use crate::poll::poll_until;

/// An object after its creation or change, or before its deletion.
#[derive(Clone)]
pub struct Change<O> {
    /// The object.
    pub object: O,
    /// Whether the object was deleted.
    pub is_deleted: bool,
    version: u64,
    /// Kind and name.
    key: (String, String),
}

/// Records the events of a namespace until the value is dropped. `O` has a variant per kind.
pub struct WatchHistory<O> {
    changes: Arc<Mutex<Vec<Change<O>>>>,
    watches: Vec<Watch>,
}

impl<O> Default for WatchHistory<O> {
    fn default() -> Self {
        Self { changes: Arc::default(), watches: Vec::new() }
    }
}

/// The watch of one kind.
struct Watch {
    task: JoinHandle<()>,
    /// Reads the resource versions of the objects that exist now.
    existing: Box<dyn Fn() -> BoxFuture<'static, kube::Result<Vec<u64>>> + Send + Sync>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<O: Clone + Send + 'static> WatchHistory<O> {
    /// Also records the events of this kind. It returns after the watch has listed its objects: a later list would give an object the version
    /// of its latest change instead of that of its create.
    ///
    /// # Panics
    /// If the watch ends before that.
    pub async fn record<K: Kind>(mut self, ns: &Namespace, wrap: fn(Box<K>) -> O) -> Self {
        let (client, namespace) = (ns.client.clone(), ns.name.clone());
        let (listed, is_listed) = oneshot::channel();
        let task = tokio::spawn(watch(ns.api::<K>(), Arc::clone(&self.changes), listed, wrap));
        is_listed.await.expect("the watch lists its objects");
        let existing = Box::new(move || existing::<K>(client.clone(), namespace.clone()).boxed());
        self.watches.push(Watch { task, existing });
        self
    }

    /// Waits until the recorded events lead to the objects that exist, and returns the events.
    pub async fn changes(&self) -> Vec<Change<O>> {
        let recorded = poll_until(async || {
            let mut versions = BTreeSet::new();
            for watch in &self.watches {
                versions.extend((watch.existing)().await.ok()?);
            }
            let changes = self.changes.lock();
            (recorded(&changes) == versions).then(|| changes.clone())
        });
        let mut changes = recorded.await;
        changes.sort_by_key(|change| change.version);
        changes
    }
}

async fn existing<K: Kind>(client: Client, namespace: String) -> kube::Result<Vec<u64>> {
    let objects = Api::<K>::namespaced(client, &namespace).list_metadata(&ListParams::default()).await?;
    Ok(objects.items.iter().map(version).collect())
}

/// The resource versions of the objects that exist after these changes. The changes of one kind are in their order.
fn recorded<O>(changes: &[Change<O>]) -> BTreeSet<u64> {
    let mut versions = BTreeMap::new();
    for Change { version, is_deleted, key, object: _ } in changes {
        if *is_deleted {
            versions.remove(key);
        } else {
            versions.insert(key, *version);
        }
    }
    versions.into_values().collect()
}

fn version(object: &impl ResourceExt) -> u64 {
    object.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default()
}

/// Records the changes of one kind, and sends when the first list is complete.
async fn watch<K: Kind, O>(
    api: Api<K>,
    changes: Arc<Mutex<Vec<Change<O>>>>,
    listed: oneshot::Sender<()>,
    wrap: fn(Box<K>) -> O,
) {
    let mut listed = Some(listed);
    let mut events = Box::pin(watcher(api, Config::default()).default_backoff());
    while let Some(event) = events.next().await {
        let (object, is_deleted) = match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => (object, false),
            Ok(Event::Delete(object)) => (object, true),
            Ok(Event::InitDone) => {
                if let Some(listed) = listed.take() {
                    listed.send(()).expect("the caller waits");
                }
                continue;
            }
            Ok(Event::Init) | Err(_) => continue,
        };
        let (version, key) = (version(&object), (K::kind(&()).into_owned(), object.name_any()));
        changes.lock().push(Change { object: wrap(Box::new(object)), is_deleted, version, key });
    }
}

/// Applies a change to the objects of a kind by name.
pub fn replace<K: Resource>(objects: &mut BTreeMap<String, K>, object: K, is_deleted: bool) {
    if is_deleted {
        objects.remove(&object.name_any());
    } else {
        objects.insert(object.name_any(), object);
    }
}
