//! Random edits of one object affect no other object of its kind.

use grove_test_support::check_watched_kind;
use serde_json::json;

use crate::pod_groups::{Kai, PodGroup, PodGroupApi, Volcano, WorkloadApi};
use crate::slim_clique::SlimClique;

fn check_pod_groups<A: PodGroupApi>() {
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

#[test]
fn an_edited_object_affects_no_other_object_of_its_kind() {
    check_watched_kind!(SlimClique, json!({ "spec": { "replicas": 2 }, "status": { "scheduledReplicas": 2 } }));
    check_pod_groups::<Kai>();
    check_pod_groups::<Volcano>();
    check_pod_groups::<WorkloadApi>();
}
