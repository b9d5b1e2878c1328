//! All objects of one namespace, kept current by watches; tests look at it and wait for it to look otherwise.
//!
//! What must hold at every moment is checked at every event: no two live pods of a clique have one index.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};
use std::ops::Deref;
use std::time::Duration;

use futures::StreamExt;
use grove_api_types::deletion::is_terminating;
use grove_api_types::ownership::controller_of;
use grove_api_types::scheduler_v1alpha1::{PodGang, PodGangPhase};
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_dev_harness::live_objects::LiveObjects;
pub use grove_dev_harness::live_objects::is_ready;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, Resource, ResourceExt};
use tokio::sync::watch;

/// A test that has waited this long has failed. It bounds a hang, on a machine that is many times slower than usual too; no
/// test measures with it.
pub const LIMIT: Duration = Duration::from_mins(10);

/// After a list that failed.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// The objects of a namespace, by name, and what was wrong among them at any time.
#[derive(Clone, Default)]
pub struct World {
    /// The objects.
    pub objects: LiveObjects,
    /// Pods that were live beside another of the same index, ever since the world is followed.
    doubles: BTreeSet<String>,
}

impl Deref for World {
    type Target = LiveObjects;

    fn deref(&self) -> &LiveObjects {
        &self.objects
    }
}

impl World {
    /// Whether nothing is left of any kind.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Pods that are neither terminating nor at their end.
    pub fn live_pods(&self) -> impl Iterator<Item = &Pod> {
        self.pods.values().filter(|pod| !is_terminating(*pod) && !ended(pod))
    }

    /// Whether every status tells of the present generation and of all that is asked for: there is nothing left to be said.
    pub fn is_told(&self) -> bool {
        self.sets.values().all(is_told_of_set)
            && self.groups.values().all(is_told_of_group)
            && self.cliques.values().all(is_told_of_clique)
            && self.gangs.values().all(is_told_of_gang)
    }

    /// How many pods the gangs refer to.
    pub fn references(&self) -> usize {
        self.gangs.values().flat_map(|gang| &gang.spec.podgroups).map(|group| group.pod_references.len()).sum()
    }

    /// Remembers the live pods that share an index with another.
    fn look_for_doubles(&mut self) {
        let mut holders: BTreeMap<_, Vec<String>> = BTreeMap::new();
        for pod in self.live_pods() {
            let Some(owner) = controller_of(&pod.metadata) else { continue };
            let hostname = pod.spec.as_ref().and_then(|spec| spec.hostname.clone());
            holders.entry((owner.uid.clone(), hostname)).or_default().push(pod.name_any());
        }
        let doubles = holders.into_values().filter(|names| names.len() > 1).map(|names| names.join(" beside "));
        self.doubles.extend(doubles.collect::<Vec<_>>());
    }

    /// Live pods of one clique that are ready, by index.
    pub fn ready_indices(&self, clique: &str) -> Vec<i32> {
        let of_clique = |pod: &&Pod| pod.labels().get("grove.io/podclique").is_some_and(|name| name == clique);
        let index = |pod: &Pod| pod.labels().get("grove.io/podclique-pod-index").and_then(|index| index.parse().ok());
        let mut indices: Vec<i32> =
            self.live_pods().filter(of_clique).filter(|pod| is_ready(pod)).filter_map(index).collect();
        indices.sort_unstable();
        indices
    }

    /// Whether the set is available, by its own word about its present generation.
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

fn is_told_of_set(set: &PodCliqueSet) -> bool {
    set.status.as_ref().is_some_and(|status| {
        let others = [status.available_replicas, status.updated_replicas];
        tells(set, set.spec.replicas, (status.observed_generation, status.replicas, &others))
    })
}

fn is_told_of_group(group: &PodCliqueScalingGroup) -> bool {
    group.status.as_ref().is_some_and(|status| {
        let others = [status.scheduled_replicas, status.available_replicas, status.updated_replicas];
        tells(group, group.spec.replicas, (status.observed_generation, status.replicas, &others))
    })
}

fn is_told_of_clique(clique: &PodClique) -> bool {
    clique.status.as_ref().is_some_and(|status| {
        let others = [status.scheduled_replicas, status.ready_replicas, status.updated_replicas];
        tells(clique, clique.spec.replicas, (status.observed_generation, status.replicas, &others))
    })
}

/// Whether a status is of the object as it is now, and each of its counts is what is asked for.
fn tells<K: Resource>(object: &K, wanted: i32, (observed, replicas, others): Told<'_>) -> bool {
    observed == object.meta().generation && replicas == Some(wanted) && others.iter().all(|count| *count == wanted)
}

/// Of a status: the generation, the replicas, and its other counts.
type Told<'a> = (Option<i64>, Option<i32>, &'a [i32]);

fn is_told_of_gang(gang: &PodGang) -> bool {
    gang.status.as_ref().is_some_and(|status| {
        let holds = |name: &str| status.conditions.iter().any(|c| c.type_ == name && c.status == "True");
        status.phase == PodGangPhase::Running && holds("Initialized") && holds("Ready")
    })
}

fn ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Failed" | "Succeeded"))
}

/// Whether `now` is a later version than `then`.
pub fn is_later<K: Resource>(now: &K, then: &K) -> bool {
    let version = |object: &K| object.resource_version().and_then(|version| version.parse::<u64>().ok());
    version(now) > version(then)
}

impl Display for World {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for set in self.sets.values() {
            writeln!(f, "PodCliqueSet {}: {:?}", set.name_any(), set.status)?;
        }
        for group in self.groups.values() {
            writeln!(f, "PodCliqueScalingGroup {} of {}: {:?}", group.name_any(), group.spec.replicas, group.status)?;
        }
        for clique in self.cliques.values() {
            writeln!(f, "PodClique {} of {}: {:?}", clique.name_any(), clique.spec.replicas, clique.status)?;
        }
        for gang in self.gangs.values() {
            writeln!(f, "PodGang {}: {:?}", gang.name_any(), gang.status)?;
        }
        for name in self.services.keys() {
            writeln!(f, "Service {name}")?;
        }
        for pod in self.pods.values() {
            let phase = pod.status.as_ref().and_then(|status| status.phase.clone());
            let leaving = is_terminating(pod);
            writeln!(f, "Pod {}: {phase:?}, ready {}, terminating {leaving}", pod.name_any(), is_ready(pod))?;
        }
        Ok(())
    }
}

/// Follows the world of one namespace.
pub struct Follower {
    client: Client,
    namespace: String,
    seen: watch::Receiver<World>,
}

impl Follower {
    /// Starts the watches; they end with the follower.
    pub fn start(client: &Client, namespace: &str) -> Self {
        let (sender, seen) = watch::channel(World::default());
        let mut updates = LiveObjects::updates(client, namespace);
        tokio::spawn(async move {
            while let Some(update) = updates.next().await.filter(|_| !sender.is_closed()) {
                sender.send_modify(|world| {
                    world.objects.apply(update);
                    world.look_for_doubles();
                });
            }
        });
        Self { client: client.clone(), namespace: namespace.to_owned(), seen }
    }

    /// Waits until the world is as `holds` says, and returns it.
    ///
    /// # Panics
    /// When it does not come about; the message shows the world as it was last.
    pub async fn until(&self, what: &str, holds: impl Fn(&World) -> bool) -> World {
        let Ok(world) = self.arrives(holds).await else { panic!("still not so: {what}\n{}", *self.seen.borrow()) };
        world
    }

    /// Waits until the world is as `holds` says. Watches of different kinds are told of changes each in its own time, so the
    /// world is read once more then: what is returned has all that was stored before the change that was waited for.
    ///
    /// # Errors
    /// The world as it was last, when that does not come about.
    ///
    /// # Panics
    /// When two live pods have one index meanwhile.
    pub async fn arrives(&self, holds: impl Fn(&World) -> bool) -> Result<World, Box<World>> {
        let mut seen = self.seen.clone();
        let over = |world: &World| holds(world) || !world.doubles.is_empty();
        let arriving = async {
            loop {
                let watched = seen.wait_for(over).await.expect("the watches outlive the test").clone();
                assert!(watched.doubles.is_empty(), "live pods of one index: {:?}\n{watched}", watched.doubles);
                if let Some(world) = self.read().await.ok().filter(&holds) {
                    assert!(world.doubles.is_empty(), "live pods of one index: {:?}\n{world}", world.doubles);
                    return world;
                }
                // The next change may be on its way, or was there before the world was read.
                let _ = tokio::time::timeout(ASK_AGAIN, seen.changed()).await;
            }
        };
        let arrived = tokio::time::timeout(LIMIT, arriving).await;
        arrived.map_err(|_| Box::new(self.seen.borrow().clone()))
    }

    /// All that is stored at this moment; an error while the API server does not answer.
    async fn read(&self) -> kube::Result<World> {
        let objects = LiveObjects::list(&self.client, &self.namespace).await?;
        let mut world = World { objects, doubles: BTreeSet::default() };
        world.look_for_doubles();
        Ok(world)
    }

    /// Waits until nothing has changed for that long, and returns the world.
    ///
    /// # Panics
    /// When the watches have ended.
    pub async fn at_rest(&self, quiet: Duration) -> World {
        let mut receiver = self.seen.clone();
        receiver.mark_unchanged();
        while let Ok(changed) = tokio::time::timeout(quiet, receiver.changed()).await {
            changed.expect("the watches outlive the test");
        }
        receiver.borrow().clone()
    }
}
