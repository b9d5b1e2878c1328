//! Random edits of one object affect no other object of its kind.

use grove_test_support::check_watched_kind;
use serde_json::json;

use crate::pod_groups::{Kai, PodGroup, PodGroupApi, Volcano};
use crate::slim_clique::SlimClique;

fn check_pod_groups<A: PodGroupApi>() {
    let conditions = json!([{ "type": "t", "status": "True", "message": "m", "reasons": [{ "message": "r" }] }]);
    let fields = json!({
        "spec": { "minMember": 2, "queue": "q", "subGroups": [{ "name": "a", "minMember": 2 }] },
        "status": { "schedulingConditions": conditions, "conditions": conditions },
    });
    check_watched_kind!(PodGroup<A>, fields);
}

#[test]
fn an_edited_object_affects_no_other_object_of_its_kind() {
    check_watched_kind!(SlimClique, json!({ "spec": { "replicas": 2 }, "status": { "scheduledReplicas": 2 } }));
    check_pod_groups::<Kai>();
    check_pod_groups::<Volcano>();
}
