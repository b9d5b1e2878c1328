//! The scenarios of updates that the tests of the Go operator have, under their names. At each watch event at most one unit of each level is down.

use std::collections::BTreeSet;

use e2e::watch_history::WatchHistory;
use e2e::{Namespace, NamespaceState, in_namespace};
use grove_api_types::deletion::is_terminating;
use grove_api_types::labels;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::units::{assert_one_at_each_level, record};
use super::{NEW_IMAGE, all_are_ready, available, change_image, has_ended, image, label, pods_of, uids};

#[tokio::test]
async fn with_on_delete_only_deleted_pods_are_new() {
    in_namespace("e2e-od-2", od_2).await;
}

#[tokio::test]
async fn with_on_delete_new_units_are_new_and_the_last_ones_are_removed() {
    in_namespace("e2e-od-4", od_4).await;
}

#[tokio::test]
async fn after_on_delete_the_next_template_replaces_all_pods() {
    in_namespace("e2e-od-8", od_8).await;
}

/// A replica of the set has this many pods: two of `f`, and two replicas of the group with one of `p` and one of `d`.
const SET: &str = "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: llm}
spec:
  replicas: 2
  template:
    cliques:
    - {name: f, spec: {roleName: f, replicas: 2, minAvailable: 1, podSpec: &pod {containers: [{name: main, image: 'registry.k8s.io/pause:3.10', resources: {requests: {cpu: 10m}}}]}}}
    - {name: p, spec: {roleName: p, replicas: 1, podSpec: *pod}}
    - {name: d, spec: {roleName: d, replicas: 1, podSpec: *pod}}
    podCliqueScalingGroups:
    - {name: g, cliqueNames: [p, d], replicas: 2, minAvailable: 1}
";

/// The replicas of [`SET`].
const REPLICAS: i32 = 2;

/// What a user or an autoscaler scales.
#[derive(Clone, Copy)]
enum Scale {
    Set(i32),
    /// The scaling group of a replica of the set.
    Group(i32, i32),
    /// The standalone clique of a replica of the set.
    Clique(i32, i32),
}

impl Scale {
    async fn apply(self, ns: &Namespace) {
        match self {
            Self::Set(replicas) => ns.scale::<PodCliqueSet>("llm", replicas).await,
            Self::Group(of, replicas) => ns.scale::<PodCliqueScalingGroup>(&format!("llm-{of}-g"), replicas).await,
            Self::Clique(of, replicas) => ns.scale::<PodClique>(&format!("llm-{of}-f"), replicas).await,
        }
    }
}

/// An update of all pods.
#[derive(Clone, Copy)]
pub(in crate::it) struct Scenario {
    name: &'static str,
    before: Option<Scale>,
    /// When the first pod is new.
    during: Option<Scale>,
    pods: usize,
}

/// The scenarios, and how many pods the set has at the end.
pub(in crate::it) const ALL: [Scenario; 8] = [
    Scenario { name: "ru-9", before: None, during: None, pods: 12 },
    Scenario { name: "ru-11", before: None, during: Some(Scale::Set(3)), pods: 18 },
    Scenario { name: "ru-12", before: None, during: Some(Scale::Set(1)), pods: 6 },
    Scenario { name: "ru-16", before: None, during: Some(Scale::Group(0, 3)), pods: 14 },
    Scenario { name: "ru-18", before: None, during: Some(Scale::Group(1, 1)), pods: 10 },
    Scenario { name: "ru-19", before: Some(Scale::Group(0, 1)), during: None, pods: 10 },
    Scenario { name: "ru-20", before: None, during: Some(Scale::Clique(1, 4)), pods: 14 },
    Scenario { name: "ru-21", before: Some(Scale::Clique(0, 3)), during: Some(Scale::Clique(0, 1)), pods: 11 },
];

impl Scenario {
    /// The name of its namespace.
    pub(in crate::it) fn namespace(self) -> String {
        format!("e2e-{}", self.name)
    }

    /// Updates the set, and checks the watch events and the end.
    pub(in crate::it) async fn run(self, ns: &Namespace) {
        let history = record(ns).await;
        available(ns, SET).await;
        if let Some(before) = self.before {
            before.apply(ns).await;
            let is_scaled = |state: &NamespaceState| state.status_is_current() && all_are_ready(state);
            ns.wait_for(&format!("{}: the set is scaled", self.name), is_scaled).await;
        }
        change_image(ns, &[0, 1, 2], NEW_IMAGE).await;
        if let Some(during) = self.during {
            let has_begun = |state: &NamespaceState| state.active_pods().any(|pod| image(pod) == NEW_IMAGE);
            ns.wait_for(&format!("{}: a pod is new", self.name), has_begun).await;
            during.apply(ns).await;
        }
        let has_pods = |state: &NamespaceState| {
            has_ended(state) && all_are_ready(state) && state.active_pods().count() == self.pods
        };
        let state = ns.wait_for(&format!("{}: the update has ended", self.name), has_pods).await;
        assert!(state.active_pods().all(|pod| image(pod) == NEW_IMAGE), "{}", self.name);
        let changes = history.changes().await;
        assert!(changes.iter().any(|change| change.is_deleted), "{}: pods are replaced", self.name);
        assert_one_at_each_level(self.name, &changes, REPLICAS);
    }
}

/// Takes long: eight updates at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn updates_while_the_set_scales() {
    let run = async |scenario: Scenario| {
        in_namespace(&scenario.namespace(), async |ns| scenario.run(ns).await).await;
    };
    futures::future::join_all(ALL.map(run)).await;
}

/// A set with the strategy `OnDelete`, after a change of all images. No pod is replaced.
async fn outdated(ns: &Namespace) -> NamespaceState {
    let before = available(ns, &SET.replace("  template:", "  updateStrategy: {type: OnDelete}\n  template:")).await;
    change_image(ns, &[0, 1, 2], NEW_IMAGE).await;
    let hashes = |state: &NamespaceState| -> BTreeSet<_> {
        state.cliques.values().map(|clique| clique.labels().get(labels::TEMPLATE_HASH).cloned()).collect()
    };
    let is_observed = |state: &NamespaceState| has_ended(state) && hashes(state).is_disjoint(&hashes(&before));
    let state = ns.wait_for("the cliques have the new template", is_observed).await;
    assert_eq!(uids(&pods_of(&before, "")), uids(&pods_of(&state, "")), "no pod is replaced");
    state
}

/// The name and the image of each pod of the cliques whose names end with this.
fn images<'s>(state: &'s NamespaceState, clique: &str) -> Vec<(&'s str, bool)> {
    let mut pods = pods_of(state, clique);
    pods.sort_by_key(|pod| (label(pod, labels::POD_CLIQUE), label(pod, labels::POD_INDEX)));
    pods.into_iter().map(|pod| (label(pod, labels::POD_INDEX), image(pod) == NEW_IMAGE)).collect()
}

async fn delete(ns: &Namespace, state: &NamespaceState, clique: &str, index: &str) {
    let pods = pods_of(state, clique);
    let pod = pods.iter().find(|pod| label(pod, labels::POD_INDEX) == index).expect("the pod");
    ns.delete_object::<Pod>(&pod.name_any()).await;
}

async fn wait_for_images(ns: &Namespace, clique: &str, expected: &[(&str, bool)]) -> NamespaceState {
    let what = format!("{clique} has {expected:?}");
    ns.wait_for(&what, |state| images(state, clique) == expected && all_are_ready(state)).await
}

/// OD-2: a deleted pod of a standalone clique comes back with the new template. OD-3: so does one of a scaling group, and the others stay.
pub(in crate::it) async fn od_2(ns: &Namespace) {
    let history = WatchHistory::default().record::<Pod>(ns, |pod| *pod).await;
    let state = outdated(ns).await;
    delete(ns, &state, "llm-0-f", "1").await;
    wait_for_images(ns, "llm-0-f", &[("0", false), ("1", true)]).await;
    delete(ns, &state, "llm-1-g-0-d", "0").await;
    wait_for_images(ns, "llm-1-g-0-d", &[("0", true)]).await;
    let state = wait_for_images(ns, "llm-1-g-0-p", &[("0", false)]).await;
    assert_eq!(state.active_pods().filter(|pod| image(pod) == NEW_IMAGE).count(), 2);
    let changes = history.changes().await;
    let deleted = changes.iter().filter(|change| is_terminating(&change.object)).map(|change| change.object.uid());
    assert_eq!(deleted.collect::<BTreeSet<_>>().len(), 2, "only the user deletes pods");
}

/// OD-4: a new replica of the set has the new template. OD-5: so has one of a scaling group, and OD-6: a new pod of a clique. OD-7: the highest
/// indices are removed, be they old or new.
pub(in crate::it) async fn od_4(ns: &Namespace) {
    outdated(ns).await;
    Scale::Set(3).apply(ns).await;
    wait_for_images(ns, "llm-2-f", &[("0", true), ("1", true)]).await;
    Scale::Group(0, 3).apply(ns).await;
    wait_for_images(ns, "llm-0-g-2-d", &[("0", true)]).await;
    Scale::Clique(1, 3).apply(ns).await;
    wait_for_images(ns, "llm-1-f", &[("0", false), ("1", false), ("2", true)]).await;
    Scale::Clique(1, 1).apply(ns).await;
    wait_for_images(ns, "llm-1-f", &[("0", false)]).await;
    Scale::Group(0, 1).apply(ns).await;
    wait_for_images(ns, "llm-0-g-1-d", &[]).await;
    Scale::Set(1).apply(ns).await;
    let state = ns.wait_for("one replica is left", |state| state.active_pods().count() == 4).await;
    assert!(state.active_pods().all(|pod| image(pod) != NEW_IMAGE));
}

/// OD-8: a deleted pod gets the last of several templates. OD-9: another strategy replaces no pod, and then a new template replaces all.
pub(in crate::it) async fn od_8(ns: &Namespace) {
    let before = available(ns, &SET.replace("  template:", "  updateStrategy: {type: OnDelete}\n  template:")).await;
    change_image(ns, &[0, 1, 2], super::THIRD_IMAGE).await;
    change_image(ns, &[0, 1, 2], NEW_IMAGE).await;
    let state = ns.wait_for("both changes are observed", has_ended).await;
    delete(ns, &state, "llm-0-f", "0").await;
    wait_for_images(ns, "llm-0-f", &[("0", true), ("1", false)]).await;
    let strategy = serde_json::json!({ "spec": { "updateStrategy": { "type": "RollingRecreate" } } });
    ns.patch::<PodCliqueSet>("llm", strategy).await;
    let state = ns.wait_for("the strategy is observed", has_ended).await;
    let stay = uids(&pods_of(&before, "")).intersection(&uids(&pods_of(&state, ""))).count();
    assert_eq!(stay, 11, "one pod is replaced");
    change_image(ns, &[0, 1, 2], super::THIRD_IMAGE).await;
    super::wait_for_end(ns, &["-f", "-p", "-d"], super::THIRD_IMAGE).await;
}
