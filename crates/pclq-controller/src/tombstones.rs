//! Tombstones: the last deleted pod of each index of a clique. The name of the next pod at the index depends on it. So does the delay of
//! its replacement, if the pod ended before its deletion.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use grove_api_types::labels::{POD_INDEX, TEMPLATE_HASH};
use grove_api_types::ownership::controller_of;
use grove_api_types::v1alpha1::PodClique;
use grove_controller::slim_pod::{SlimPod, SlimPodSpec};
use grove_runtime::caches::{Cache, Delta};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use parking_lot::Mutex;

use crate::pod::index;

/// The last deleted pods of one clique, by index.
type PodsByIndex = BTreeMap<i32, Arc<SlimPod>>;

/// The tombstones of all cliques. A clone shares them.
///
/// The tombstones of a clique are removed with it. A pod leaves no tombstone if its clique is no longer in the cache.
#[derive(Clone, Debug)]
pub(crate) struct Tombstones {
    cliques: Cache<PodClique>,
    /// One lock for both maps: a reader finds a pod that ended in one of them.
    pods: Arc<Mutex<Pods>>,
}

#[derive(Debug, Default)]
struct Pods {
    /// By the uid of the clique.
    deleted: BTreeMap<String, PodsByIndex>,
    /// The uids of the existing pods that failed or succeeded before they were terminating. The final state of a pod does not show it:
    /// the kubelet sets the same phases when it stops a terminating pod.
    ended_uids: BTreeSet<String>,
}

impl Tombstones {
    /// No pod was deleted yet. `cliques` is the cache that cliques are reconciled from.
    pub(crate) fn new(cliques: &Cache<PodClique>) -> Self {
        Self { cliques: cliques.clone(), pods: Arc::default() }
    }

    /// Stores the pod if the delta is its deletion, with its phase if it ended before. The pod cache calls this before any reader misses
    /// the pod, so a reader that reads the pods first and the tombstones second finds each deleted pod in one of them.
    pub(crate) fn record(&self, delta: &Delta<SlimPod>) {
        if let Some(ended) = delta.new.as_ref().filter(|pod| !pod.is_live() && !pod.is_terminating()) {
            self.pods.lock().ended_uids.extend(ended.metadata.uid.clone());
        }
        let Some(pod) = delta.old.as_ref().filter(|_| delta.is_delete()) else { return };
        let mut pods = self.pods.lock();
        let has_ended = pods.ended_uids.remove(pod.metadata.uid.as_deref().unwrap_or_default());
        let (Some(owner), Some(index)) = (controller_of(&pod.metadata), index(pod)) else { return };
        // The check is under the lock: if the clique is in the cache here, `forget` for its deletion runs later.
        let clique = self.cliques.get(&pod.namespace().unwrap_or_default(), &owner.name);
        if clique.and_then(|clique| clique.uid()).as_ref() == Some(&owner.uid) {
            let tombstone = if has_ended { ended_identity_of(pod) } else { identity_of(pod) };
            pods.deleted.entry(owner.uid.clone()).or_default().insert(index, Arc::new(tombstone));
        }
    }

    /// The last deleted pod of each index of the clique, and the terminating ones of its `pods` that ended before, as their tombstones
    /// will be. The API server deletes a pod that ended in two steps, so a reconcile can observe it in between.
    pub(crate) fn of_clique(&self, uid: &str, pods: &[Arc<SlimPod>]) -> (Vec<Arc<SlimPod>>, Vec<Arc<SlimPod>>) {
        let Pods { deleted, ended_uids } = &*self.pods.lock();
        let has_ended = |pod: &&Arc<SlimPod>| pod.metadata.uid.as_ref().is_some_and(|uid| ended_uids.contains(uid));
        let terminating = pods.iter().filter(|pod| pod.is_terminating()).filter(has_ended);
        let tombstones = deleted.get(uid).into_iter().flat_map(PodsByIndex::values).cloned();
        (tombstones.collect(), terminating.map(|pod| Arc::new(ended_identity_of(pod))).collect())
    }

    /// The number of tombstones.
    pub(crate) fn len(&self) -> usize {
        self.pods.lock().deleted.values().map(PodsByIndex::len).sum()
    }

    /// The number of existing pods that ended before they were terminating.
    pub(crate) fn ended_pods(&self) -> usize {
        self.pods.lock().ended_uids.len()
    }

    /// Removes the tombstones of a clique after its deletion.
    pub(crate) fn forget(&self, clique_uid: &str) {
        self.pods.lock().deleted.remove(clique_uid);
    }
}

/// The fields of a pod that the name of its successor depends on. They need a tenth of the memory of the pod.
fn identity_of(pod: &SlimPod) -> SlimPod {
    let ObjectMeta { name, namespace, uid, resource_version, creation_timestamp, .. } = pod.metadata.clone();
    let index_label = pod.labels().get_key_value(POD_INDEX).map(|(key, value)| (key.clone(), value.clone()));
    let labels = index_label.map(|label| BTreeMap::from([label]));
    let metadata =
        ObjectMeta { name, namespace, uid, resource_version, creation_timestamp, labels, ..ObjectMeta::default() };
    let spec = SlimPodSpec { hostname: pod.spec.hostname.clone(), ..SlimPodSpec::default() };
    SlimPod { metadata, spec, ..SlimPod::default() }
}

/// The same with the fields that the delay of its replacement depends on.
fn ended_identity_of(pod: &SlimPod) -> SlimPod {
    let mut identity = identity_of(pod);
    let template_hash = pod.labels().get(TEMPLATE_HASH).map(|hash| (TEMPLATE_HASH.to_owned(), hash.clone()));
    identity.labels_mut().extend(template_hash);
    identity.status.phase.clone_from(&pod.status.phase);
    identity
}

#[cfg(test)]
mod tests {
    use grove_runtime::caches::{InformerOptions, Writer};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;
    use serde_json::json;

    use super::*;

    fn clique(uid: &str) -> PodClique {
        let metadata = json!({ "namespace": "ns", "name": "c", "uid": uid });
        let object = json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "metadata": metadata,
            "spec": { "roleName": "r", "replicas": 1, "podSpec": { "containers": [] } } });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_tombstone_has_the_identity_of_its_pod() {
        let mut pod = pod("a", 3, 7, "u");
        pod.labels_mut().extend([(POD_INDEX.to_owned(), "3".to_owned()), ("other".to_owned(), "x".to_owned())]);
        let tombstone = identity_of(&pod);
        let identity = |pod: &SlimPod| (pod.metadata.uid.clone(), pod.metadata.name.clone(), index(pod));
        assert_eq!(identity(&tombstone), identity(&pod));
        pod.spec.hostname = None;
        assert_eq!(index(&identity_of(&pod)), Some(3), "by its label");
        assert_eq!((tombstone.labels().len(), tombstone.metadata.owner_references), (1, None));
    }

    fn pod(name: &str, index: i32, version: u32, clique_uid: &str) -> SlimPod {
        let owner = json!([{ "apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "name": "c", "uid": clique_uid,
            "controller": true }]);
        let metadata = json!({ "namespace": "ns", "name": name, "uid": name, "resourceVersion": version.to_string(),
            "ownerReferences": owner });
        serde_json::from_value(json!({ "metadata": metadata, "spec": { "hostname": format!("c-{index}") } })).unwrap()
    }

    struct Fixture {
        cliques: Writer<PodClique>,
        pods: Writer<SlimPod>,
        pod_cache: Cache<SlimPod>,
        tombstones: Tombstones,
    }

    impl Fixture {
        fn new() -> Self {
            let (clique_cache, cliques) = Cache::with_writer(InformerOptions::default());
            let tombstones = Tombstones::new(&clique_cache);
            let recorder = tombstones.clone();
            let options = InformerOptions::default().with_observer(move |delta| recorder.record(delta));
            let (pod_cache, pods) = Cache::with_writer(options);
            Self { cliques, pods, pod_cache, tombstones }
        }

        fn tombstones_of(&self, uid: &str) -> Vec<Arc<SlimPod>> {
            self.tombstones.of_clique(uid, &[]).0
        }

        fn of_clique(&self, uid: &str) -> Vec<String> {
            self.tombstones_of(uid).iter().map(|pod| pod.name_any()).collect()
        }
    }

    #[test]
    fn the_last_deleted_pod_of_each_index_leaves_a_tombstone() {
        let fixture = Fixture::new();
        fixture.cliques.apply(clique("u"));
        let pods = [("a", 0), ("b", 1), ("c", 1), ("d", 2)];
        for (name, index) in pods {
            fixture.pods.apply(pod(name, index, 1, "u"));
        }
        assert!(fixture.of_clique("u").is_empty());
        for (name, index) in &pods[..3] {
            fixture.pods.delete(pod(name, *index, 2, "u"));
        }
        assert_eq!(fixture.of_clique("u"), ["a", "c"]);
        assert_eq!(fixture.tombstones_of("u")[0].resource_version().as_deref(), Some("2"), "the final state");
        fixture.pods.replace(vec![]);
        assert_eq!(fixture.of_clique("u"), ["a", "c", "d"], "a deletion that only a list reported");
    }

    #[test]
    fn the_tombstone_of_a_pod_has_its_phase_if_the_pod_ended_before_its_deletion() {
        let fixture = Fixture::new();
        fixture.cliques.apply(clique("u"));
        let state = |name: &str, index: i32, version: u32, (phase, is_terminating): (&str, bool)| {
            let mut pod = pod(name, index, version, "u");
            pod.labels_mut().insert(TEMPLATE_HASH.to_owned(), "1h".to_owned());
            pod.status.phase = Some(phase.to_owned());
            pod.metadata.deletion_timestamp = is_terminating.then_some(Time(Timestamp::UNIX_EPOCH));
            pod
        };
        let ended = [("Running", false), ("Failed", false), ("Failed", true)];
        let stopped = [("Running", false), ("Running", true), ("Failed", true)];
        for (name, index, states) in [("ended", 0, ended), ("stopped", 1, stopped)] {
            for (version, of_version) in (1..).zip(states) {
                fixture.pods.apply(state(name, index, version, of_version));
            }
            let (tombstones, terminating) = fixture.tombstones.of_clique("u", &fixture.pod_cache.owned_by("ns", "u"));
            let deleted = tombstones.iter().chain(&terminating);
            let ended = deleted.map(|pod| (pod.name_any(), pod.status.phase.clone(), pod.is_terminating()));
            let expected = ("ended".to_owned(), Some("Failed".to_owned()), false);
            assert_eq!(ended.collect::<Vec<_>>(), [expected], "while {name} is terminating");
            fixture.pods.delete(state(name, index, 9, states[2]));
        }
        let tombstones = fixture.tombstones_of("u");
        let phase_and_hash = |pod: &Arc<SlimPod>| (pod.status.phase.clone(), pod.labels().get(TEMPLATE_HASH).cloned());
        let expected = (Some("Failed".to_owned()), Some("1h".to_owned()));
        assert_eq!(tombstones.iter().map(phase_and_hash).collect::<Vec<_>>(), [expected, (None, None)]);
        assert_eq!((fixture.tombstones.len(), fixture.tombstones.ended_pods()), (2, 0));
    }

    #[test]
    fn a_pod_that_changes_and_is_deleted_after_its_clique_leaves_no_tombstone() {
        let fixture = Fixture::new();
        fixture.cliques.apply(clique("u"));
        fixture.pods.replace(vec![pod("a", 0, 1, "u"), pod("b", 1, 1, "u")]);
        fixture.pods.delete(pod("a", 0, 2, "u"));
        fixture.cliques.delete(clique("u"));
        fixture.tombstones.forget("u");
        // The last pod of the clique is terminating for a while.
        fixture.pods.apply(pod("b", 1, 3, "u"));
        fixture.pods.apply(pod("b", 1, 4, "u"));
        fixture.pods.delete(pod("b", 1, 5, "u"));
        assert_eq!(fixture.tombstones.len(), 0);
    }

    #[test]
    fn a_pod_of_a_clique_that_was_deleted_before_the_start_leaves_no_tombstone() {
        let fixture = Fixture::new();
        fixture.cliques.apply(clique("successor"));
        fixture.pods.replace(vec![pod("a", 0, 1, "u"), pod("b", 0, 1, "successor")]);
        fixture.pods.replace(vec![]);
        assert!(fixture.of_clique("u").is_empty());
        assert_eq!(fixture.of_clique("successor"), ["b"]);
    }

    #[test]
    fn every_reader_that_misses_a_deleted_pod_finds_its_tombstone() {
        let fixture = Fixture::new();
        fixture.cliques.apply(clique("u"));
        fixture.pods.apply(pod("p0", 0, 1, "u"));
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for round in 0..2000 {
                    fixture.pods.delete(pod(&format!("p{round}"), 0, 2, "u"));
                    fixture.pods.apply(pod(&format!("p{}", round + 1), 0, 1, "u"));
                }
            });
            let mut newest = 0;
            while !writer.is_finished() {
                let pods = fixture.pod_cache.owned_by("ns", "u");
                let tombstones = fixture.tombstones_of("u");
                let known = pods.iter().chain(&tombstones);
                let seen = known.filter_map(|pod| pod.name_any()[1..].parse::<i32>().ok()).max().unwrap_or(-1);
                assert!(seen >= newest, "p{newest} was observed before, and now the newest observed pod is p{seen}");
                newest = seen;
            }
        });
    }
}
