//! The watch events about the pods of a namespace, in their order: which pods were bound, and when.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use futures::StreamExt;
use futures::stream::BoxStream;
use grove_api_types::deletion::is_terminating;
use grove_dev_harness::live_objects::{self, ObjectChange};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use parking_lot::Mutex;

use crate::poll::poll_until;

/// A pod as one watch event reported it.
#[derive(Clone, Debug)]
pub struct PodEvent {
    /// The name of the pod.
    pub name: String,
    /// The uid of the pod.
    pub uid: String,
    /// The `PodGang` of the pod, from its label.
    pub gang: String,
    /// The `PodGroup` of the workload API that the pod belongs to.
    pub pod_group: Option<String>,
    /// Whether the pod has a node.
    pub is_bound: bool,
    /// The node of the pod.
    pub node: Option<String>,
    /// Whether the pod has a deletion timestamp.
    pub is_terminating: bool,
    version: u64,
}

impl PodEvent {
    fn of(pod: &Pod) -> Self {
        Self {
            name: pod.name_any(),
            uid: pod.uid().unwrap_or_default(),
            gang: pod.labels().get("grove.io/podgang").cloned().unwrap_or_default(),
            pod_group: pod_group(pod).map(str::to_owned),
            is_bound: is_bound(pod),
            node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
            is_terminating: is_terminating(pod),
            version: version(pod),
        }
    }

    /// Whether the event is about this state of the pod, or a later one.
    fn includes(&self, pod: &Pod) -> bool {
        pod.uid().is_some_and(|uid| uid == self.uid) && self.version >= version(pod)
    }
}

/// The `PodGroup` of the workload API that a pod belongs to.
pub fn pod_group(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.scheduling_group.as_ref()?.pod_group_name.as_deref()
}

/// Whether a pod has a node.
pub fn is_bound(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some())
}

/// A number that grows with each change in the cluster.
fn version(pod: &Pod) -> u64 {
    pod.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default()
}

/// The names of the bound pods in events that `is_relevant` selects.
pub fn bound_pods(events: &[PodEvent], is_relevant: impl Fn(&PodEvent) -> bool) -> BTreeSet<&str> {
    let bound = events.iter().filter(|event| event.is_bound && is_relevant(event));
    bound.map(|event| event.name.as_str()).collect()
}

/// Records the watch events until the value is dropped.
pub struct BindingLog {
    pods: Api<Pod>,
    events: Arc<Mutex<Vec<PodEvent>>>,
}

impl BindingLog {
    /// Starts the watch. It includes every change after this call.
    ///
    /// # Panics
    /// If the stream of events ends.
    pub async fn start(client: &Client, namespace: &str) -> Self {
        let mut changes = live_objects::changes::<Pod>(client, namespace).boxed();
        let listed = changes.next().await.expect("the watch starts with a list");
        let events = Arc::new(Mutex::new(Vec::new()));
        record(&events, &listed);
        tokio::spawn(record_all(changes, Arc::downgrade(&events)));
        Self { pods: Api::namespaced(client.clone(), namespace), events }
    }

    /// All events until now.
    ///
    /// # Panics
    /// If the pods cannot be listed, or the watch does not report the listed ones in time.
    pub async fn events(&self) -> Vec<PodEvent> {
        let stored = self.pods.list(&ListParams::default()).await.expect("the pods").items;
        poll_until(async || {
            let events = self.events.lock();
            let is_reported = |pod: &Pod| events.iter().any(|event| event.includes(pod));
            stored.iter().all(is_reported).then(|| events.clone())
        })
        .await
    }
}

async fn record_all(mut changes: BoxStream<'static, Vec<ObjectChange<Pod>>>, events: Weak<Mutex<Vec<PodEvent>>>) {
    while let Some(changes) = changes.next().await {
        let Some(events) = events.upgrade() else { return };
        record(&events, &changes);
    }
}

fn record(events: &Mutex<Vec<PodEvent>>, changes: &[ObjectChange<Pod>]) {
    events.lock().extend(changes.iter().filter_map(|change| change.object.as_ref()).map(PodEvent::of));
}
