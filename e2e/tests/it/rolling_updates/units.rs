//! Which units of a set are down, after each watch event: pods of standalone cliques, replicas of scaling groups, and replicas of the set.

use std::collections::{BTreeMap, BTreeSet};

use e2e::Namespace;
use e2e::namespace_state::is_ready;
use e2e::watch_history::{Change, WatchHistory};
use grove_api_types::deletion::is_terminating;
use grove_api_types::labels;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use k8s_openapi::api::core::v1::Pod;
use kube::{Resource, ResourceExt};

/// An object in a watch event.
#[derive(Clone)]
pub(in crate::it) enum Object {
    Set(Box<PodCliqueSet>),
    Group(Box<PodCliqueScalingGroup>),
    Clique(Box<PodClique>),
    Pod(Box<Pod>),
}

/// Records all kinds of a namespace.
pub(in crate::it) async fn record(ns: &Namespace) -> WatchHistory<Object> {
    let history = WatchHistory::default().record(ns, Object::Set).await;
    let history = history.record(ns, Object::Group).await.record(ns, Object::Clique).await;
    history.record(ns, Object::Pod).await
}

/// The objects after some of the events, and the units that have served.
#[derive(Default)]
struct State {
    set_replicas: i32,
    groups: BTreeMap<String, PodCliqueScalingGroup>,
    cliques: BTreeMap<String, PodClique>,
    pods: BTreeMap<String, Pod>,
    served: BTreeMap<Owner, BTreeSet<i32>>,
}

/// A replica of the set, and the name of a standalone clique or of a scaling group in it.
type Owner = (i32, String);

fn number(object: &impl ResourceExt, label: &str) -> Option<i32> {
    object.labels().get(label)?.parse().ok()
}

fn put<K: Resource>(objects: &mut BTreeMap<String, K>, object: K, is_deleted: bool) {
    let name = object.name_any();
    if is_deleted {
        objects.remove(&name);
    } else {
        objects.insert(name, object);
    }
}

impl State {
    fn apply(&mut self, Change { object, is_deleted, .. }: &Change<Object>) {
        match object.clone() {
            Object::Set(set) => self.set_replicas = if *is_deleted { 0 } else { set.spec.replicas },
            Object::Group(group) => put(&mut self.groups, *group, *is_deleted),
            Object::Clique(clique) => put(&mut self.cliques, *clique, *is_deleted),
            Object::Pod(pod) => put(&mut self.pods, *pod, *is_deleted),
        }
    }

    /// Whether the desired units of each owner serve.
    fn units(&self) -> BTreeMap<Owner, BTreeMap<i32, bool>> {
        let mut ready: BTreeSet<(&str, i32)> = BTreeSet::new();
        for pod in self.pods.values().filter(|pod| is_ready(pod) && !is_terminating(*pod)) {
            let clique = pod.labels().get(labels::POD_CLIQUE).map(String::as_str);
            ready.extend(clique.zip(number(pod, labels::POD_INDEX)));
        }
        let mut units: BTreeMap<Owner, BTreeMap<i32, bool>> = BTreeMap::new();
        for (name, clique) in &self.cliques {
            let Some(replica) = number(clique, labels::SET_REPLICA).filter(|replica| *replica < self.set_replicas)
            else {
                continue;
            };
            let is_up = |index: i32| ready.contains(&(name.as_str(), index));
            let Some(group) = clique.labels().get(labels::SCALING_GROUP) else {
                let of_clique = (0..clique.spec.replicas).map(|index| (index, is_up(index)));
                units.insert((replica, name.clone()), of_clique.collect());
                continue;
            };
            let desired = self.groups.get(group).map_or(0, |group| group.spec.replicas);
            if let Some(index) = number(clique, labels::SCALING_GROUP_REPLICA).filter(|index| *index < desired) {
                let unit = units.entry((replica, group.clone())).or_default().entry(index).or_insert(true);
                *unit = *unit && (0..clique.spec.replicas).all(is_up);
            }
        }
        units
    }

    /// The units that have served, are desired, and are down now.
    fn down(&mut self) -> BTreeMap<Owner, Vec<i32>> {
        let units = self.units();
        self.served.retain(|owner, _| units.contains_key(owner));
        let mut down = BTreeMap::new();
        for (owner, units) in units {
            let served = self.served.entry(owner.clone()).or_default();
            served.retain(|index| units.contains_key(index));
            served.extend(units.iter().filter(|(_, is_up)| **is_up).map(|(index, _)| *index));
            let of_owner: Vec<_> = served.iter().copied().filter(|index| units.get(index) == Some(&false)).collect();
            if !of_owner.is_empty() {
                down.insert(owner, of_owner);
            }
        }
        down
    }
}

/// Asserts after each event: at most one pod of each standalone clique, one replica of each scaling group, and one replica of the set is down, and
/// the set reports at most one of its first `replicas` as updated. Those are the ones that it had before the update. `scenario` is for the message.
pub(in crate::it) fn assert_one_at_each_level(scenario: &str, changes: &[Change<Object>], replicas: i32) {
    let mut state = State::default();
    for (at, change) in changes.iter().enumerate() {
        state.apply(change);
        let down = state.down();
        let replicas_down: BTreeSet<i32> = down.keys().map(|(replica, _)| *replica).collect();
        assert!(
            down.values().all(|units| units.len() == 1) && replicas_down.len() <= 1,
            "{scenario}: {down:?} are down after\n{}",
            text(&changes[at.saturating_sub(40)..=at])
        );
        if let Object::Set(set) = &change.object {
            let progress = set.status.as_ref().and_then(|status| status.update_progress.as_ref());
            let updating = progress.iter().flat_map(|progress| &progress.currently_updating);
            let updating: Vec<_> = updating.filter(|entry| entry.replica_index < replicas).collect();
            assert!(updating.len() <= 1, "{scenario}: {updating:?} are updated");
        }
    }
    assert!(!state.served.is_empty(), "nothing has served");
}

/// The objects of the changes, one in each line, and what an update changes in them.
fn text(changes: &[Change<Object>]) -> String {
    let line = |Change { object, is_deleted, .. }: &Change<Object>| {
        let (object, fact) = match object {
            Object::Set(set) => (format!("PodCliqueSet {}", set.name_any()), updated_replicas(set)),
            Object::Group(group) => {
                let status = group.status.as_ref();
                (
                    format!("PodCliqueScalingGroup {}", group.name_any()),
                    format!("{:?}", status.map(|it| &it.update_progress)),
                )
            }
            Object::Clique(clique) => {
                let status = clique.status.as_ref();
                (format!("PodClique {}", clique.name_any()), format!("{:?}", status.map(|it| &it.update_progress)))
            }
            Object::Pod(pod) => {
                let fact = format!("ready {}, terminating {}", is_ready(pod), is_terminating(&**pod));
                (format!("Pod {}", pod.name_any()), fact)
            }
        };
        let deleted = if *is_deleted { " deleted" } else { "" };
        format!("{object}{deleted}: {fact}\n")
    };
    changes.iter().map(line).collect()
}

fn updated_replicas(set: &PodCliqueSet) -> String {
    let progress = set.status.as_ref().and_then(|status| status.update_progress.as_ref());
    let updating = progress.iter().flat_map(|progress| &progress.currently_updating);
    format!("updates {:?}", updating.map(|entry| entry.replica_index).collect::<Vec<_>>())
}
