//! Random edits of one object of each kind that this service watches affect no other object.

use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{
    ClusterTopology, ClusterTopologyBinding, PodClique, PodCliqueScalingGroup, PodCliqueSet,
};
use grove_test_support::check_watched_kind;
use serde_json::{Value, json};

use crate::native_gangs::SlimPodGroup;
use crate::set::desired::{SlimAutoscaler, SlimService};
use crate::startup::{SlimRole, SlimRoleBinding, SlimServiceAccount, SlimTokenSecret};
use crate::update::SlimRevision;

fn conditions() -> Value {
    json!([{ "type": "Available", "status": "True", "reason": "R", "message": "m", "observedGeneration": 3,
        "lastTransitionTime": "2026-01-02T03:04:05Z" }])
}

fn clique_spec() -> Value {
    json!({ "roleName": "r", "replicas": 2, "minAvailable": 1, "startsAfter": ["a"],
        "podSpec": { "containers": [{ "name": "c", "image": "i" }] },
        "autoScalingConfig": { "minReplicas": 1, "maxReplicas": 4, "metrics": [] } })
}

#[test]
fn an_edited_set_affects_no_other_set() {
    let template = json!({
        "cliques": [{ "name": "a", "labels": { "k": "v" }, "spec": clique_spec() }],
        "podCliqueScalingGroups": [{ "name": "g", "cliqueNames": ["a"], "replicas": 2, "minAvailable": 1 }],
        "cliqueStartupType": "CliqueStartupTypeInOrder", "terminationDelay": "4h",
        "headlessServiceConfig": { "publishNotReadyAddresses": true },
        "resourceSharing": [{ "name": "r", "scope": "AllReplicas" }],
    });
    let gangs = json!([{ "name": "a", "phase": "Running", "conditions": conditions() }]);
    let errors = json!([{ "code": "E", "description": "d", "observedAt": "2026-01-02T03:04:05Z" }]);
    let fields = json!({
        "spec": { "replicas": 2, "updateStrategy": { "type": "OnDelete" }, "template": template },
        "status": { "replicas": 2, "observedGeneration": 3, "conditions": conditions(), "podGangStatuses": gangs,
            "lastErrors": errors },
    });
    check_watched_kind!(PodCliqueSet, fields);
}

#[test]
fn an_edited_revision_affects_no_other_revision() {
    check_watched_kind!(SlimRevision, json!({ "revision": 3, "data": { "spec": { "template": {} } } }));
}

#[test]
fn an_edited_clique_affects_no_other_clique() {
    let status = json!({ "replicas": 2, "readyReplicas": 1, "conditions": conditions() });
    check_watched_kind!(PodClique, json!({ "spec": clique_spec(), "status": status }));
}

#[test]
fn an_edited_group_affects_no_other_group() {
    let progress = json!({ "updateStartedAt": "2026-01-02T03:04:05Z", "podCliqueSetGenerationHash": "h" });
    let fields = json!({
        "spec": { "replicas": 2, "minAvailable": 1, "cliqueNames": ["a"] },
        "status": { "replicas": 2, "availableReplicas": 1, "conditions": conditions(), "updateProgress": progress },
    });
    check_watched_kind!(PodCliqueScalingGroup, fields);
}

#[test]
fn an_edited_gang_affects_no_other_gang() {
    let group = json!({ "name": "a", "minReplicas": 1, "podReferences": [{ "namespace": "ns", "name": "p" }] });
    let fields = json!({
        "spec": { "podgroups": [group], "priorityClassName": "p" },
        "status": { "phase": "Running", "conditions": conditions(), "placementScore": 0.5 },
    });
    check_watched_kind!(PodGang, fields);
}

#[test]
fn an_edited_service_affects_no_other_service() {
    let port = json!({ "port": 80, "targetPort": "http" });
    let fields = json!({
        "spec": { "clusterIP": "None", "ports": [port], "selector": { "k": "v" } },
        "status": { "conditions": conditions() },
    });
    check_watched_kind!(SlimService, fields);
}

#[test]
fn an_edited_autoscaler_affects_no_other_autoscaler() {
    let target = json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "name": "a" });
    let metric = json!({ "type": "Resource", "resource": { "name": "cpu" } });
    let fields = json!({
        "spec": { "scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 4, "metrics": [metric] },
        "status": { "currentReplicas": 1, "conditions": [], "lastScaleTime": "2026-01-02T03:04:05Z" },
    });
    check_watched_kind!(SlimAutoscaler, fields);
}

#[test]
fn an_edited_pod_group_affects_no_other_one() {
    check_watched_kind!(SlimPodGroup, json!({ "spec": { "schedulingPolicy": { "gang": { "minCount": 2 } } } }));
}

#[test]
fn an_edited_topology_affects_no_other_one() {
    let levels = json!([{ "domain": "zone", "key": "z" }, { "domain": "rack", "key": "r" }]);
    check_watched_kind!(ClusterTopology, json!({ "spec": { "levels": levels } }));
    let bindings = json!([{ "schedulerName": "s", "topologyReference": "t" }]);
    let spec = json!({ "levels": levels, "schedulerTopologyBindings": bindings });
    check_watched_kind!(ClusterTopologyBinding, json!({ "spec": spec }));
}

#[test]
fn an_edited_object_of_an_identity_affects_no_other_one() {
    check_watched_kind!(
        SlimServiceAccount,
        json!({ "automountServiceAccountToken": true, "secrets": [{ "name": "s" }] })
    );
    let rule = json!({ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["p"] });
    check_watched_kind!(SlimRole, json!({ "rules": [rule] }));
    let subject = json!({ "kind": "ServiceAccount", "name": "a", "namespace": "n" });
    let reference = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r" });
    check_watched_kind!(SlimRoleBinding, json!({ "roleRef": reference, "subjects": [subject] }));
    let data = json!({ "token": "dA==" });
    check_watched_kind!(SlimTokenSecret, json!({ "type": "kubernetes.io/service-account-token", "data": data }));
}
