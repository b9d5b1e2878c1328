//! pcs-controller, topology-controller and a third client write conditions of one `PodGang`, while their causes change: no condition is lost,
//! each one becomes current, and the controllers stop writing.

use std::collections::BTreeSet;

use e2e::audit::AuditLog;
use e2e::namespace_state::{TIMEOUT, is_ready};
use e2e::{Namespace, NamespaceState, TestCluster, fixtures, test_cluster};
use futures::StreamExt;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_dev_harness::live_objects;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::native_gangs::{HIGH, LOW, create_priority_classes};

const GANG: &str = "llm-0";
/// A clique of one pod, which decides whether the gang is ready.
const CLIQUE: &str = "llm-0-frontend";
const PODS: usize = 5;
/// The condition that the third client writes.
const FOREIGN: &str = "e2e.example/Round";
/// Selects how the simulated kubelets treat a pod.
const BEHAVIOUR: &str = "test.grove.io/behaviour";

/// The changes of the rounds, again and again.
const CHANGES: [Change; 3] = [Change::Unready, Change::OnlyPriority, Change::DeletePod];

/// Each round changes the priority of the gang, and so its generation, which every condition reports.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// The pod is not ready any more.
    Unready,
    /// The gang is not ready and stays so. Both controllers then delay the new generation by the same time, and write it almost
    /// simultaneously.
    OnlyPriority,
    /// The pod is deleted, and replaced by another one, which is ready.
    DeletePod,
}

/// Takes long: in many of the twenty rounds a change waits a second for the next status write.
#[tokio::test(flavor = "multi_thread")]
async fn no_condition_of_two_writers_is_lost() {
    series("status-writers", 20).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes long; run by `cargo xtask soak writers`"]
async fn no_condition_is_lost_in_many_rounds() {
    series("soak-status-writers", test_cluster::required_number("GROVE_SOAK_ROUNDS")).await;
}

async fn series(cluster: &str, rounds: usize) {
    let cluster = TestCluster::with_own_services(cluster, &["--native-gangs"]).await;
    let client = cluster.client().await;
    create_priority_classes(&client).await;
    let ns = Namespace::create(&client, "e2e-status-writers").await;
    // Another priority changes the template of the pods, which only the test replaces.
    let set = fixtures::three_cliques("llm", 1).replace("\nspec:\n", "\nspec:\n  updateStrategy: {type: OnDelete}\n");
    ns.create_yaml::<PodCliqueSet>(&set).await;
    let created = ns.wait_for("the gang is ready", |state| is_complete(state, GANG, true)).await;
    let changes = async {
        let mut state = created;
        for round in 0..rounds {
            state = run_round(&ns, &state, round).await;
        }
        wait_until_writes_end(&cluster).await;
    };
    tokio::select! {
        () = changes => {}
        () = ThirdWriter::of(&ns).run() => panic!("the watch of the PodGang has ended"),
    }
    let writes = gang_writes(&cluster.audit_log()).len();
    println!("{rounds} rounds: the controllers sent {writes} writes to the PodGang");
    cluster.down().await;
}

/// Makes one change, and waits until all conditions report it.
async fn run_round(ns: &Namespace, before: &NamespaceState, round: usize) -> NamespaceState {
    let change = CHANGES[round % CHANGES.len()];
    let priority = [HIGH, LOW][round % 2];
    let pod = clique_pod(before).expect("the pod of the clique");
    let name = pod.name_any();
    tokio::join!(set_priority(ns, priority), apply(ns, change, &name));
    let (is_gang_ready, deleted) = match change {
        Change::Unready | Change::OnlyPriority => (false, None),
        Change::DeletePod => (true, pod.uid()),
    };
    let what = format!("all conditions are current in round {round}, {change:?}");
    ns.wait_for(&what, |state| {
        let Some(gang) = state.gangs.get(GANG) else { return false };
        gang.spec.priority_class_name.as_deref() == Some(priority)
            && has_condition(gang, FOREIGN, true)
            && is_complete(state, GANG, is_gang_ready)
            && clique_pod(state).is_some_and(|pod| deleted.is_none() || pod.uid() != deleted)
    })
    .await
}

async fn set_priority(ns: &Namespace, priority: &str) {
    let patch = json!({ "spec": { "template": { "priorityClassName": priority } } });
    ns.patch::<PodCliqueSet>("llm", patch).await;
}

async fn apply(ns: &Namespace, change: Change, pod: &str) {
    match change {
        Change::Unready => set_behaviour(ns, pod, &json!("unready")).await,
        Change::OnlyPriority => {}
        Change::DeletePod => ns.delete_object::<Pod>(pod).await,
    }
}

async fn set_behaviour(ns: &Namespace, pod: &str, behaviour: &Value) {
    ns.patch::<Pod>(pod, json!({ "metadata": { "annotations": { BEHAVIOUR: behaviour } } })).await;
}

fn clique_pod(state: &NamespaceState) -> Option<&Pod> {
    state.active_pods().find(|pod| pod.labels().get("grove.io/podclique").is_some_and(|clique| clique == CLIQUE))
}

/// Whether the gang refers to all its pods, and the conditions of the controllers have these values.
fn is_complete(state: &NamespaceState, gang: &str, is_gang_ready: bool) -> bool {
    let Some(gang) = state.gangs.get(gang) else { return false };
    let references = gang.spec.podgroups.iter().flat_map(|group| &group.pod_references);
    let references: BTreeSet<String> = references.map(|reference| reference.name.clone()).collect();
    let pods: BTreeSet<String> = state.active_pods().map(ResourceExt::name_any).collect();
    let not_ready = state.active_pods().filter(|pod| !is_ready(pod)).count();
    let conditions = [("Initialized", true), ("Ready", is_gang_ready), ("Scheduled", true), ("GangScheduling", true)];
    pods.len() == PODS
        && references == pods
        && not_ready == usize::from(!is_gang_ready)
        && conditions.into_iter().all(|(type_, holds)| has_condition(gang, type_, holds))
}

/// Whether the gang has this condition.
fn has_condition(gang: &PodGang, type_: &str, holds: bool) -> bool {
    let status = if holds { "True" } else { "False" };
    let mut conditions = gang.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|condition| condition.type_ == type_ && condition.status == status)
}

/// A client that writes a condition of its own after each write of another client. Its merge patches replace the list of conditions by the
/// one that it has read, with the resource version of that list. The position of its condition differs from write to write.
struct ThirdWriter<'a> {
    ns: &'a Namespace,
    gangs: Api<PodGang>,
    /// The types of the conditions in the last event.
    types: BTreeSet<String>,
    /// The number in its condition in the last event.
    reported: usize,
    /// The number of attempted writes.
    attempts: usize,
    /// The resource version of its last write.
    own_version: Option<String>,
}

impl<'a> ThirdWriter<'a> {
    fn of(ns: &'a Namespace) -> Self {
        let types = BTreeSet::new();
        Self { ns, gangs: ns.api(), types, reported: 0, attempts: 0, own_version: None }
    }

    async fn run(mut self) {
        let mut changes = live_objects::changes::<PodGang>(&self.ns.client, &self.ns.name).boxed();
        while let Some(changes) = changes.next().await {
            for change in changes {
                let gang = change.object.expect("nothing deletes the PodGang");
                self.check(&gang);
                if gang.resource_version() != self.own_version {
                    self.write(&gang).await;
                }
            }
        }
    }

    /// Checks that the event has each condition of the last one, and no earlier condition of this client.
    fn check(&mut self, gang: &PodGang) {
        let conditions: Vec<&Condition> = gang.status.iter().flat_map(|status| &status.conditions).collect();
        let types: BTreeSet<String> = conditions.iter().map(|condition| condition.type_.clone()).collect();
        let lost: Vec<_> = self.types.difference(&types).collect();
        assert!(lost.is_empty(), "lost conditions: {lost:?}; the others: {conditions:#?}");
        let own = conditions.iter().find(|condition| condition.type_ == FOREIGN);
        let number: usize = own.map_or(0, |own| own.message.parse().expect("the number of a write"));
        assert!(number >= self.reported, "write {number} after write {}: {conditions:#?}", self.reported);
        (self.types, self.reported) = (types, number);
    }

    async fn write(&mut self, gang: &PodGang) {
        self.attempts += 1;
        let own = json!({ "type": FOREIGN, "status": "True", "reason": "Written", "message": self.attempts.to_string(),
            "observedGeneration": gang.metadata.generation, "lastTransitionTime": "2026-01-01T00:00:00Z" });
        let own: Condition = serde_json::from_value(own).expect("a condition");
        let mut conditions = gang.status.as_ref().expect("the status of the PodGang").conditions.clone();
        conditions.retain(|condition| condition.type_ != FOREIGN);
        conditions.insert(self.attempts % (conditions.len() + 1), own);
        let patch = json!({ "metadata": { "resourceVersion": gang.resource_version() },
            "status": { "conditions": conditions } });
        match self.gangs.patch_status(GANG, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(written) => self.own_version = written.resource_version(),
            // The event of the other write follows.
            Err(kube::Error::Api(status)) if status.is_conflict() => {}
            Err(error) => panic!("the condition is not written: {error}"),
        }
    }
}

/// Waits until the controllers send no write to the gang while another set becomes available. Outstanding status writes come before it.
async fn wait_until_writes_end(cluster: &TestCluster) {
    let client = cluster.client().await;
    let mut last = Vec::new();
    let waiting = async {
        for window in 0.. {
            let log = cluster.audit_log().from_now();
            let ns = Namespace::create(&client, &format!("e2e-status-writers-{window}")).await;
            ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("other", 1)).await;
            let is_done = |state: &NamespaceState| state.is_available("other") && is_complete(state, "other-0", true);
            ns.wait_for("the other set is available", is_done).await;
            last = gang_writes(&log);
            if last.is_empty() {
                return;
            }
        }
    };
    let waited = tokio::time::timeout(TIMEOUT, waiting).await;
    waited.unwrap_or_else(|_| panic!("the controllers do not stop writing; the last writes: {last:#?}"));
}

/// The writes of the controllers to the gang.
fn gang_writes(log: &AuditLog) -> Vec<String> {
    let of_gang = format!(" podgangs {GANG} ");
    log.writes().into_iter().filter(|write| write.contains(&of_gang)).collect()
}
