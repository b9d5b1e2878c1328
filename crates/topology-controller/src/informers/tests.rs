//! Random edits of one object affect no other object of its kind.

use grove_test_support::check_watched_kind;
use serde_json::json;

use grove_api_types::scheduler::Scheduler;
use grove_api_types::v1alpha1::{ClusterTopology, ClusterTopologyBinding};

use crate::pod_groups::{ApiType, Kai, PodGroup, Volcano, WorkloadApi};
use crate::scheduler_topologies::{self, SchedulerTopology, SchedulerTopologyApi};
use crate::slim_clique::SlimClique;
use crate::slim_node::SlimNode;
use crate::slim_set::SlimSet;

fn check_pod_groups<A: ApiType>() {
    let condition = json!({ "status": "True", "reason": "Scheduled", "message": "m", "reasons": [{ "message": "r" }] });
    let mut conditions = json!([condition, condition]);
    (conditions[0]["type"], conditions[1]["type"]) = (json!("t"), json!("PodGroupScheduled"));
    let fields = json!({
        "spec": { "minMember": 2, "queue": "q", "subGroups": [{ "name": "a", "minMember": 2 }],
            "schedulingPolicy": { "gang": { "minCount": 2 } }, "disruptionMode": "PodGroup", "priorityClassName": "p" },
        "status": { "schedulingConditions": conditions, "conditions": conditions },
    });
    check_watched_kind!(PodGroup<A>, fields);
}

fn check_scheduler_topologies<A: SchedulerTopologyApi>() {
    check_watched_kind!(SchedulerTopology<A>, json!({ "spec": { "levels": [{ "nodeLabel": "r" }] } }));
}

#[test]
fn an_edited_object_affects_no_other_object_of_its_kind() {
    check_watched_kind!(SlimClique, json!({ "spec": { "replicas": 2 }, "status": { "scheduledReplicas": 2 } }));
    let levels = json!([{ "domain": "rack", "key": "r" }]);
    let nodes = json!([{ "key": "r", "nodes": 1 }]);
    let status =
        json!({ "referringSets": 1, "referringSetNames": ["a/b"], "scheduledSets": 1, "nodesWithoutKey": nodes });
    check_watched_kind!(ClusterTopology, json!({ "spec": { "levels": levels }, "status": status }));
    check_watched_kind!(ClusterTopologyBinding, json!({ "spec": { "levels": levels } }));
    let template = json!({ "topologyConstraint": { "packDomain": "rack", "topologyName": "racks" }, "cliques": [] });
    check_watched_kind!(SlimSet, json!({ "spec": { "replicas": 1, "template": template } }));
    check_watched_kind!(SlimNode, json!({ "spec": { "unschedulable": true } }));
}

#[test]
fn an_edited_object_of_a_scheduler_affects_no_other_object_of_its_kind() {
    for (_, scheduler) in Scheduler::ALL {
        match scheduler {
            Scheduler::Kube => check_pod_groups::<WorkloadApi>(),
            Scheduler::Kai => {
                check_pod_groups::<Kai>();
                check_scheduler_topologies::<scheduler_topologies::Kai>();
            }
            Scheduler::Volcano => check_pod_groups::<Volcano>(),
            Scheduler::Lpx => {}
        }
    }
}
