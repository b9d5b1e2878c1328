//! What the tests know about each scheduler.

use std::collections::BTreeMap;

use grove_api_types::scheduler::Scheduler;
use grove_api_types::scheduler_v1alpha1::{GangPodGroup, PodGang};
use serde_json::{Value, json};

/// What differs between the schedulers.
pub(super) struct Backend {
    pub(super) scheduler: &'static str,
    pub(super) crds: &'static str,
    /// Whether the CRD is applied while topology-controller is down.
    pub(super) is_crd_applied_while_down: bool,
    /// Objects that the sets need.
    pub(super) objects: &'static str,
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    /// The metadata of a clique that names the queue.
    pub(super) queue: &'static str,
    /// The cliques that name the queue. KAI needs only one; with Volcano, the others would have the default queue.
    pub(super) cliques_with_queue: &'static [&'static str],
    /// The annotations of the gangs. The queue is among them, because only cliques name it.
    pub(super) gang_annotations: &'static [(&'static str, &'static str)],
    /// Whether a `PodGroup` has the annotations of its gang.
    pub(super) copies_annotations: bool,
    /// The reason of the condition `GangScheduling`.
    pub(super) reason: &'static str,
    /// The desired spec of the `PodGroup` of a gang.
    pub(super) spec: fn(&PodGang) -> Value,
    /// Fields that only the scheduler writes.
    pub(super) own_fields: fn() -> Value,
    /// An edit of a desired field.
    pub(super) edit: fn() -> Value,
    /// The metadata of the pod of a clique: labels and annotations.
    pub(super) pod_metadata: fn(gang: &str, clique: &str) -> [BTreeMap<String, String>; 2],
}

/// What the tests know about a scheduler; `None` if it has no API of its own. The tests of native gangs are those of the default scheduler.
pub(super) const fn backend(scheduler: Scheduler) -> Option<&'static Backend> {
    match scheduler {
        Scheduler::Kai => Some(&KAI),
        Scheduler::Volcano => Some(&VOLCANO),
        Scheduler::Kube | Scheduler::Lpx => None,
    }
}

pub(super) const KAI: Backend = Backend {
    scheduler: "kai-scheduler",
    crds: include_str!("../../../../crds/kai-scheduler.yaml"),
    is_crd_applied_while_down: false,
    objects: "",
    group: "scheduling.run.ai",
    version: "v2alpha2",
    queue: "labels: {kai.scheduler/queue: team}",
    cliques_with_queue: &["f"],
    gang_annotations: &[("kai.scheduler/queue", "team"), ("kai.scheduler/skip-podgrouper", "true")],
    copies_annotations: true,
    reason: "KaiScheduler",
    spec: |gang| {
        let groups = gang.spec.podgroups.iter();
        let groups = groups.map(|group| json!({ "name": group.name, "minMember": group.min_replicas }));
        json!({ "minMember": min_member(gang), "queue": "team", "priorityClassName": "high",
            "subGroups": groups.collect::<Vec<_>>(), "topologyConstraint": {} })
    },
    own_fields: || json!({ "markUnschedulable": true, "schedulingBackoff": 1, "queue": "moved" }),
    edit: || json!({ "subGroups": [], "minMember": 9 }),
    pod_metadata: |gang, clique| {
        let annotations = [("kai.scheduler/skip-podgrouper", "true"), ("pod-group-name", gang)];
        [map(&[("kai.scheduler/subgroup-name", clique)]), map(&annotations)]
    },
};

pub(super) const VOLCANO: Backend = Backend {
    scheduler: "volcano",
    crds: include_str!("../../../../crds/volcano.yaml"),
    is_crd_applied_while_down: true,
    objects: QUEUES,
    group: "scheduling.volcano.sh",
    version: "v1beta1",
    queue: "annotations: {scheduling.grove.io/volcano-queue: team}",
    cliques_with_queue: &["f", "p", "d"],
    gang_annotations: &[("scheduling.grove.io/volcano-queue", "team")],
    copies_annotations: false,
    reason: "Volcano",
    spec: |gang| {
        let group = |group: &GangPodGroup| {
            json!({ "name": group.name, "labelSelector": { "matchLabels": { "grove.io/podclique": group.name } },
                "matchLabelKeys": ["grove.io/podclique"], "subGroupSize": group.min_replicas, "minSubGroups": 1 })
        };
        json!({ "minMember": min_member(gang), "queue": "team", "priorityClassName": "high",
            "subGroupPolicy": gang.spec.podgroups.iter().map(group).collect::<Vec<_>>() })
    },
    own_fields: || json!({ "minResources": { "cpu": "1" } }),
    edit: || json!({ "queue": "other", "minMember": 9 }),
    pod_metadata: |gang, _| {
        let annotations = [("scheduling.k8s.io/group-name", gang), ("scheduling.volcano.sh/group-name", gang)];
        [BTreeMap::new(), map(&annotations)]
    },
};

/// The kind of the queues of Volcano, and an open queue. webhook-server reads them.
const QUEUES: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: queues.scheduling.volcano.sh}
spec:
  group: scheduling.volcano.sh
  scope: Cluster
  names: {kind: Queue, listKind: QueueList, plural: queues, singular: queue}
  versions:
  - name: v1beta1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: team}
status: {state: Open}
";

fn min_member(gang: &PodGang) -> i32 {
    gang.spec.podgroups.iter().map(|group| group.min_replicas).sum()
}

pub(super) fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}
