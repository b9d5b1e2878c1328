//! The current objects of one namespace, from watches. Tests read them and wait for a state.
//!
//! After each watch event the module checks an invariant: no two active pods of a clique have the same index.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::time::Duration;

use futures::StreamExt;
use grove_api_types::deletion::is_terminating;
use grove_api_types::labels::PART_OF;
use grove_api_types::ownership::controller_of;
use grove_api_types::scheduler_v1alpha1::{PodGang, PodGangPhase};
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_dev_harness::live_objects::LiveObjects;
pub use grove_dev_harness::live_objects::is_ready;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, Resource, ResourceExt};
use tokio::sync::watch;

mod display;

/// The longest wait of a test. It bounds a hang, also on a machine that is many times slower than usual; no test measures
/// with it.
pub const TIMEOUT: Duration = Duration::from_mins(10);

/// How long a wait pauses after a list that failed or did not satisfy the predicate.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// The objects of a namespace, by name, and the violations of the index invariant so far.
#[derive(Clone, Default)]
pub struct NamespaceState {
    /// The objects.
    pub objects: LiveObjects,
    /// Active pods with the same index, since the start of the watches.
    duplicate_indices: BTreeSet<String>,
}

impl Deref for NamespaceState {
    type Target = LiveObjects;

    fn deref(&self) -> &LiveObjects {
        &self.objects
    }
}

impl NamespaceState {
    /// Whether there is no object of any kind.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// The pods that are neither terminating nor in a final phase, as client-go's `FilterActivePods`.
    pub fn active_pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.values().filter(|pod| !is_terminating(*pod) && !is_terminal(pod))
    }

    /// Whether every status is of the current generation and reports all desired replicas: no status write is outstanding.
    pub fn status_is_current(&self) -> bool {
        self.sets.values().all(set_status_is_current)
            && self.groups.values().all(group_status_is_current)
            && self.cliques.values().all(clique_status_is_current)
            && self.gangs.values().all(gang_status_is_current)
    }

    /// The number of pod references in all `PodGang`s.
    pub fn reference_count(&self) -> usize {
        self.gangs.values().flat_map(|gang| &gang.spec.podgroups).map(|group| group.pod_references.len()).sum()
    }

    /// Records active pods that share an index.
    fn record_duplicate_indices(&mut self) {
        let mut holders: BTreeMap<_, Vec<String>> = BTreeMap::new();
        for pod in self.active_pods() {
            let Some(owner) = controller_of(&pod.metadata) else { continue };
            let hostname = pod.spec.as_ref().and_then(|spec| spec.hostname.clone());
            holders.entry((owner.uid.clone(), hostname)).or_default().push(pod.name_any());
        }
        let duplicate_indices = holders.into_values().filter(|names| names.len() > 1).map(|names| names.join(", "));
        self.duplicate_indices.extend(duplicate_indices.collect::<Vec<_>>());
    }

    /// The indices of the ready active pods of a clique, ascending.
    pub fn ready_indices(&self, clique: &str) -> Vec<i32> {
        let of_clique = |pod: &&Pod| pod.labels().get("grove.io/podclique").is_some_and(|name| name == clique);
        let index = |pod: &Pod| pod.labels().get("grove.io/podclique-pod-index").and_then(|index| index.parse().ok());
        let mut indices: Vec<i32> =
            self.active_pods().filter(of_clique).filter(|pod| is_ready(pod)).filter_map(index).collect();
        indices.sort_unstable();
        indices
    }

    /// The pods of a set.
    pub fn pods_of<'s>(&'s self, set: &'s str) -> impl Iterator<Item = &'s Pod> {
        self.pods.values().filter(move |pod| pod.labels().get(PART_OF).is_some_and(|of| of == set))
    }

    /// Whether a set, scaling group or clique of this name has a condition with this reason, and with a message that contains the text.
    pub fn has_condition(&self, name: &str, type_: &str, reason: &str, text: &str) -> bool {
        let set = self.sets.get(name).and_then(|set| set.status.as_ref()).map(|status| &status.conditions);
        let group = self.groups.get(name).and_then(|group| group.status.as_ref()).map(|status| &status.conditions);
        let clique = self.cliques.get(name).and_then(|clique| clique.status.as_ref()).map(|status| &status.conditions);
        let mut conditions = set.into_iter().chain(group).chain(clique).flatten();
        conditions
            .any(|condition| condition.type_ == type_ && condition.reason == reason && condition.message.contains(text))
    }

    /// Whether the condition Available of the set is true for its current generation.
    pub fn is_available(&self, set: &str) -> bool {
        self.sets.get(set).is_some_and(|set| {
            let Some(status) = &set.status else { return false };
            status.observed_generation == set.metadata.generation
                && status.conditions.iter().any(|c| {
                    c.type_ == "Available" && c.status == "True" && c.observed_generation == set.metadata.generation
                })
        })
    }
}

fn set_status_is_current(set: &PodCliqueSet) -> bool {
    set.status.as_ref().is_some_and(|status| {
        let others = [status.available_replicas, status.updated_replicas];
        counts_match(set, set.spec.replicas, (status.observed_generation, status.replicas, &others))
    })
}

fn group_status_is_current(group: &PodCliqueScalingGroup) -> bool {
    group.status.as_ref().is_some_and(|status| {
        let others = [status.scheduled_replicas, status.available_replicas, status.updated_replicas];
        counts_match(group, group.spec.replicas, (status.observed_generation, status.replicas, &others))
    })
}

fn clique_status_is_current(clique: &PodClique) -> bool {
    clique.status.as_ref().is_some_and(|status| {
        let others = [status.scheduled_replicas, status.ready_replicas, status.updated_replicas];
        counts_match(clique, clique.spec.replicas, (status.observed_generation, status.replicas, &others))
    })
}

/// Whether a status is of the current generation, and each of its counts equals the desired replicas.
fn counts_match<K: Resource>(object: &K, desired: i32, (observed, replicas, others): StatusCounts<'_>) -> bool {
    observed == object.meta().generation && replicas == Some(desired) && others.iter().all(|count| *count == desired)
}

/// The observed generation, the replicas, and the other counts of a status.
type StatusCounts<'a> = (Option<i64>, Option<i32>, &'a [i32]);

fn gang_status_is_current(gang: &PodGang) -> bool {
    gang.status.as_ref().is_some_and(|status| {
        let holds = |name: &str| status.conditions.iter().any(|c| c.type_ == name && c.status == "True");
        let is_running = status.phase == PodGangPhase::Running;
        is_running && ["Initialized", "Ready", "Scheduled"].into_iter().all(holds)
    })
}

fn is_terminal(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Failed" | "Succeeded"))
}

/// Whether `new` has a higher resource version than `old`.
pub fn is_newer<K: Resource>(new: &K, old: &K) -> bool {
    let version = |object: &K| object.resource_version().and_then(|version| version.parse::<u64>().ok());
    version(new) > version(old)
}

/// Watches the objects of one namespace.
pub struct NamespaceWatcher {
    client: Client,
    namespace: String,
    state: watch::Receiver<NamespaceState>,
}

impl NamespaceWatcher {
    /// Starts the watches. They stop when the value is dropped.
    pub fn start(client: &Client, namespace: &str) -> Self {
        let (sender, state) = watch::channel(NamespaceState::default());
        let mut updates = LiveObjects::updates(client, namespace);
        tokio::spawn(async move {
            while let Some(update) = updates.next().await.filter(|_| !sender.is_closed()) {
                sender.send_modify(|state| {
                    state.objects.apply(update);
                    state.record_duplicate_indices();
                });
            }
        });
        Self { client: client.clone(), namespace: namespace.to_owned(), state }
    }

    /// Waits until `holds` is true, and returns the objects. `what` describes the state in the message of a failure.
    ///
    /// # Panics
    /// If `holds` does not become true in time; the message shows the latest objects, and then what was awaited.
    pub async fn wait_for(&self, what: &str, holds: impl Fn(&NamespaceState) -> bool) -> NamespaceState {
        let Ok(state) = self.try_wait_for(holds).await else {
            let nodes = display::ready_nodes(&self.client).await;
            panic!("{}{nodes}; timed out waiting for: {what}", *self.state.borrow())
        };
        state
    }

    /// Waits until `holds` is true, and returns the objects. The watches of different kinds deliver changes independently,
    /// so this method then lists all objects once more: the result includes every change that was stored before the awaited
    /// one.
    ///
    /// # Errors
    /// The latest objects, if `holds` does not become true in time.
    ///
    /// # Panics
    /// If two active pods have the same index meanwhile.
    pub async fn try_wait_for(
        &self,
        holds: impl Fn(&NamespaceState) -> bool,
    ) -> Result<NamespaceState, Box<NamespaceState>> {
        let mut receiver = self.state.clone();
        let is_done = |state: &NamespaceState| holds(state) || !state.duplicate_indices.is_empty();
        let waiting = async {
            loop {
                let watched = receiver.wait_for(is_done).await.expect("the watches outlive the test").clone();
                assert!(
                    watched.duplicate_indices.is_empty(),
                    "active pods with the same index: {:?}\n{watched}",
                    watched.duplicate_indices
                );
                if let Some(state) = self.read().await.ok().filter(&holds) {
                    assert!(
                        state.duplicate_indices.is_empty(),
                        "active pods with the same index: {:?}\n{state}",
                        state.duplicate_indices
                    );
                    return state;
                }
                // The list is older or newer than the watched objects: wait for the next change.
                let _ = tokio::time::timeout(RETRY_DELAY, receiver.changed()).await;
            }
        };
        let result = tokio::time::timeout(TIMEOUT, waiting).await;
        result.map_err(|_| Box::new(self.state.borrow().clone()))
    }

    /// Lists the stored objects. Fails while the API server does not respond.
    async fn read(&self) -> kube::Result<NamespaceState> {
        let objects = LiveObjects::list(&self.client, &self.namespace).await?;
        let mut state = NamespaceState { objects, duplicate_indices: BTreeSet::default() };
        state.record_duplicate_indices();
        Ok(state)
    }

    /// Waits until no object changes for this duration, and returns the objects.
    ///
    /// # Panics
    /// If the watches have ended.
    pub async fn wait_until_quiet(&self, quiet: Duration) -> NamespaceState {
        let mut receiver = self.state.clone();
        receiver.mark_unchanged();
        while let Ok(changed) = tokio::time::timeout(quiet, receiver.changed()).await {
            changed.expect("the watches outlive the test");
        }
        receiver.borrow().clone()
    }
}
