//! Users change a set while the scheduler binds its gang. In the end all pods belong to one incarnation of the gang, and they are bound. A seed
//! chooses the changes and their moments.

use std::collections::{BTreeMap, BTreeSet};

use e2e::binding_log::{is_bound, pod_group};
use e2e::namespace_state::TIMEOUT;
use e2e::{NamespaceState, TestCluster, test_cluster};
use futures::stream::{self, BoxStream, StreamExt};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use grove_dev_harness::live_objects::{self, Kind, ObjectChange};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::DeleteParams;
use kube::runtime::wait::await_condition;
use serde_json::json;

use super::case::{Case, POD_GROUP, pods_of, set};
use super::{HIGH, LOW, create_priority_classes, start};
use crate::it::own_cluster::kills::Numbers;

/// The sets that exist at the same time.
const CONCURRENCY: usize = 4;
const GANG: &str = "llm-0";
const CLIQUES: [&str; 2] = ["llm-0-a", "llm-0-b"];
/// The pods of the gang. Each needs one GPU.
const PODS: u32 = 5;

const DISRUPTIONS: [Disruption; 7] = [
    Disruption::DeleteClique(CLIQUES[0]),
    Disruption::DeleteClique(CLIQUES[1]),
    Disruption::DeleteCliques,
    Disruption::DeleteGang,
    Disruption::ChangePriority,
    Disruption::ScaleToZero(CLIQUES[0]),
    Disruption::ScaleToZero(CLIQUES[1]),
];
const MOMENTS: [Moment; 4] = [Moment::Created, Moment::FirstPod, Moment::FirstBoundPod, Moment::AllBound];

/// What a user changes.
#[derive(Clone, Copy, Debug)]
enum Disruption {
    DeleteClique(&'static str),
    DeleteCliques,
    DeleteGang,
    ChangePriority,
    ScaleToZero(&'static str),
}

/// When the user does it.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// The set was created.
    Created,
    /// The gang has a pod.
    FirstPod,
    /// A pod of the gang is bound.
    FirstBoundPod,
    /// All pods of the gang are bound.
    AllBound,
}

/// One set with nodes of its own.
#[derive(Clone, Copy, Debug)]
struct Race {
    number: usize,
    disruption: Disruption,
    moment: Moment,
    /// How many gangs of the set the nodes have capacity for.
    capacity: u32,
}

pub(super) type PodChanges = BoxStream<'static, Vec<ObjectChange<Pod>>>;

#[tokio::test(flavor = "multi_thread")]
async fn races_against_binding_end_in_one_incarnation() {
    // The races of this seed have all disruptions, and all moments.
    series("native-races", 8, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes long; run by `cargo xtask soak races`"]
async fn many_races_against_binding_end_in_one_incarnation() {
    let number = test_cluster::required_number::<u64>;
    let races = usize::try_from(number("GROVE_SOAK_RACES")).expect("a small number");
    series("soak-native-races", races, number("GROVE_SOAK_SEED")).await;
}

async fn series(cluster: &str, races: usize, seed: u64) {
    println!("seed {seed}, {races} races");
    let cluster = start(cluster, "--native-gangs").await;
    create_priority_classes(&cluster.client().await).await;
    let mut numbers = Numbers(seed);
    let races: Vec<Race> = (0..races).map(|number| Race::choose(number, &mut numbers)).collect();
    let shared = &cluster;
    let runs = stream::iter(races).map(|race| async move { (race, race.run(shared).await) });
    let results: Vec<(Race, usize)> = runs.buffer_unordered(CONCURRENCY).collect().await;
    for (race, incarnations) in &results {
        println!("{race:?}: pods of {incarnations} incarnations");
    }
    cluster.down().await;
}

pub(super) fn choose<T: Copy>(numbers: &mut Numbers, all: &[T]) -> T {
    let count = u64::try_from(all.len()).expect("a small number");
    let at = numbers.next().expect("an endless sequence") % count;
    all[usize::try_from(at).expect("a small number")]
}

impl Moment {
    /// Whether it has come. `pods` has the name of each pod, and whether the pod is bound.
    fn has_come(self, pods: &BTreeMap<String, bool>) -> bool {
        let bound = pods.values().filter(|is_bound| **is_bound).count();
        match self {
            Self::Created => true,
            Self::FirstPod => !pods.is_empty(),
            Self::FirstBoundPod => bound > 0,
            Self::AllBound => u32::try_from(bound).is_ok_and(|bound| bound == PODS),
        }
    }

    /// Waits for it by watch events alone. A list would take longer than the scheduler needs to bind the gang.
    async fn wait(self, changes: &mut PodChanges) {
        let mut pods = BTreeMap::new();
        while !self.has_come(&pods) {
            for ObjectChange { name, object } in changes.next().await.expect("the watch has no end") {
                match object {
                    Some(pod) => pods.insert(name, is_bound(&pod)),
                    None => pods.remove(&name),
                };
            }
        }
    }
}

impl Race {
    fn choose(number: usize, numbers: &mut Numbers) -> Self {
        let (disruption, moment) = (choose(numbers, &DISRUPTIONS), choose(numbers, &MOMENTS));
        Self { number, disruption, moment, capacity: choose(numbers, &[1, 2]) }
    }

    /// Returns the number of incarnations that had pods.
    async fn run(self, cluster: &TestCluster) -> usize {
        let case = Case::create(cluster, &format!("race-{}", self.number)).await;
        case.add_node("a", PODS * self.capacity).await;
        let mut changes: PodChanges = live_objects::changes(&case.ns.client, &case.ns.name).boxed();
        let listed = changes.next().await.expect("the watch starts with a list");
        assert!(listed.is_empty(), "{listed:?}");
        let mut set = set("llm", &[case.clique("a", (3, 2), "a"), case.clique("b", (2, 2), "a")]);
        set["spec"]["template"]["priorityClassName"] = json!(LOW);
        case.create_set(&set).await;
        let come = tokio::time::timeout(TIMEOUT, self.moment.wait(&mut changes)).await;
        assert!(come.is_ok(), "{self:?}: the moment does not come");
        let deleted = self.disrupt(&case).await;

        let is_done = |state: &NamespaceState| self.is_settled(state, &deleted) && has_one_incarnation(state);
        if let Err(state) = case.ns.try_wait_for(is_done).await {
            let is_settled = self.is_settled(&state, &deleted);
            panic!("{self:?}: settled {is_settled}, PodGroups {:?}\n{state}", named_pod_groups(&state));
        }
        case.pod_group(GANG).await;
        let incarnations = self.incarnations(&case).await;
        case.ns.delete().await;
        incarnations
    }

    /// Returns the uids of the deleted objects.
    async fn disrupt(self, case: &Case) -> BTreeSet<String> {
        match self.disruption {
            Disruption::DeleteClique(name) => BTreeSet::from([delete::<PodClique>(case, name).await]),
            Disruption::DeleteCliques => {
                let [a, b] = CLIQUES.map(|name| delete::<PodClique>(case, name));
                let (a, b) = tokio::join!(a, b);
                BTreeSet::from([a, b])
            }
            Disruption::DeleteGang => BTreeSet::from([delete::<PodGang>(case, GANG).await]),
            Disruption::ChangePriority => {
                let patch = json!({ "spec": { "template": { "priorityClassName": HIGH } } });
                case.ns.patch::<PodCliqueSet>("llm", patch).await;
                BTreeSet::new()
            }
            Disruption::ScaleToZero(name) => {
                wait_until_exists::<PodClique>(case, name).await;
                case.ns.scale::<PodClique>(name, 0).await;
                BTreeSet::new()
            }
        }
    }

    /// Whether the change has taken effect, all desired pods are bound, and there are no others.
    fn is_settled(self, state: &NamespaceState, deleted: &BTreeSet<String>) -> bool {
        let Some(gang) = state.gangs.get(GANG) else { return false };
        let cliques: Vec<&PodClique> = CLIQUES.iter().filter_map(|name| state.cliques.get(*name)).collect();
        let desired: i32 = cliques.iter().map(|clique| clique.spec.replicas).sum();
        let uids: Vec<String> = cliques.iter().filter_map(|clique| clique.uid()).chain(gang.uid()).collect();
        let pods = pods_of(state, GANG);
        cliques.len() == CLIQUES.len()
            && uids.iter().all(|uid| !deleted.contains(uid))
            && self.has_effect(gang, &cliques)
            && usize::try_from(desired).is_ok_and(|desired| pods.len() == desired && state.pods.len() == desired)
            && pods.iter().all(|pod| is_bound(pod))
            && self.has_condition(gang)
    }

    /// Whether a change that deletes nothing has taken effect.
    fn has_effect(self, gang: &PodGang, cliques: &[&PodClique]) -> bool {
        match self.disruption {
            Disruption::ChangePriority => gang.spec.priority_class_name.as_deref() == Some(HIGH),
            Disruption::ScaleToZero(name) => {
                cliques.iter().any(|clique| clique.name_any() == name && clique.spec.replicas == 0)
            }
            Disruption::DeleteClique(_) | Disruption::DeleteCliques | Disruption::DeleteGang => true,
        }
    }

    /// Whether the gang reports that its pods are scheduled together. The `PodGroup` of a deleted gang is terminating until its pods
    /// have ended.
    fn has_condition(self, gang: &PodGang) -> bool {
        let mut conditions = gang.status.iter().flat_map(|status| &status.conditions);
        let condition = conditions.find(|condition| condition.type_ == "GangScheduling");
        condition.is_some_and(|condition| match (condition.status.as_str(), condition.reason.as_str()) {
            ("True", "DefaultScheduler") => true,
            ("False", "NameTerminating") => matches!(self.disruption, Disruption::DeleteGang),
            _ => false,
        })
    }

    /// Counts the `PodGroup`s of all pods that ever existed. Each of them had one.
    async fn incarnations(self, case: &Case) -> usize {
        let events = case.events().await;
        let without: Vec<_> = events.iter().filter(|event| event.pod_group.is_none()).collect();
        assert!(without.is_empty(), "{self:?}: pods without a PodGroup: {without:?}");
        events.iter().map(|event| &event.pod_group).collect::<BTreeSet<_>>().len()
    }
}

/// The `PodGroup`s that the gang, its cliques and its pods name.
fn named_pod_groups(state: &NamespaceState) -> BTreeSet<Option<&str>> {
    let of_gangs = state.gangs.values().map(|gang| gang.annotations().get(POD_GROUP));
    let annotations = of_gangs.chain(state.cliques.values().map(|clique| clique.annotations().get(POD_GROUP)));
    annotations.map(|name| name.map(String::as_str)).chain(state.active_pods().map(pod_group)).collect()
}

/// A `PodGroup` and its successors in the same incarnation have the same name until the dot.
pub(super) fn has_one_incarnation(state: &NamespaceState) -> bool {
    let names = named_pod_groups(state);
    let incarnations: BTreeSet<_> = names.iter().map(|name| name.and_then(|name| name.split('.').next())).collect();
    incarnations.len() == 1 && !incarnations.contains(&None)
}

/// Deletes an object as soon as it exists, and returns its uid.
async fn delete<K: Kind>(case: &Case, name: &str) -> String {
    loop {
        match case.ns.api::<K>().delete(name, &DeleteParams::background()).await {
            Ok(deleted) => {
                let uid = deleted.either(|object| object.uid(), |status| status.details.map(|details| details.uid));
                return uid.expect("a uid");
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => wait_until_exists::<K>(case, name).await,
            Err(error) => panic!("{name} is not deleted: {error}"),
        }
    }
}

async fn wait_until_exists<K: Kind>(case: &Case, name: &str) {
    let exists = |object: Option<&K>| object.is_some();
    let waited = tokio::time::timeout(TIMEOUT, await_condition(case.ns.api::<K>(), name, exists)).await;
    waited.unwrap_or_else(|_| panic!("{name} does not exist")).expect("a watch");
}
