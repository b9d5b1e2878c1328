//! Questions as the API server asks them, and the answers.

use std::collections::BTreeSet;

use expect_test::{Expect, expect};
use grove_api_types::configuration::{Authorizer, Network, OperatorConfiguration};
use grove_runtime::caches::Cache;
use serde::Deserialize;
use serde_json::json;

use super::*;
use crate::cluster::Caches;

/// A cluster with these objects.
pub(crate) fn cluster(config: OperatorConfiguration, objects: &[Value]) -> Cluster {
    fn of<K: DeserializeOwned + Resource<DynamicType = ()>>(objects: &[Value]) -> Cache<K> {
        let of_kind = objects.iter().filter(|object| object["kind"] == *K::kind(&()));
        Cache::from_objects(of_kind.map(|object| K::deserialize(object).unwrap()))
    }
    let caches = Caches {
        sets: of(objects),
        groups: of(objects),
        cliques: of(objects),
        topologies: of(objects),
        bindings: of(objects),
        queues: Some(of(objects)),
    };
    let ours = BTreeSet::from(["system:serviceaccount:grove-system:pcs-controller".to_owned()]);
    Cluster::over(config, ours, caches)
}

fn set() -> Value {
    let containers = json!([{ "name": "main", "image": "pause", "newer": { "kept": true } }]);
    let clique = json!({ "name": "front", "spec": { "roleName": "front", "replicas": 3, "minAvailable": 2,
        "podSpec": { "containers": containers } } });
    json!({ "kind": "PodCliqueSet", "metadata": { "name": "serve", "namespace": "team", "uid": "1" },
        "spec": { "replicas": 1, "template": { "cliques": [clique] } } })
}

fn request(value: &Value) -> Request {
    let review = json!({ "apiVersion": "admission.k8s.io/v1", "request": value });
    Request::read(review.to_string().as_bytes()).unwrap()
}

fn check(question: Question, asked: &Value, cluster: &Cluster, expected: &Expect) {
    let answer = answer(question, &request(asked), cluster).to_json("7").unwrap();
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    let mut response = answer["response"].as_object().unwrap().clone();
    response.remove("uid");
    if let Some(patch) = response.get_mut("patch") {
        let bytes: k8s_openapi::ByteString = serde_json::from_value(patch.take()).unwrap();
        *patch = serde_json::from_slice(&bytes.0).unwrap();
    }
    expected.assert_eq(&serde_json::to_string_pretty(&response).unwrap());
}

fn plain() -> Cluster {
    cluster(OperatorConfiguration::default(), &[])
}

#[test]
fn defaults_are_the_smallest_patch() {
    let asked = json!({ "uid": "7", "operation": "CREATE", "namespace": "team", "name": "serve", "object": set() });
    check(
        Question::DefaultSet,
        &asked,
        &plain(),
        &expect![[r#"
        {
          "allowed": true,
          "patch": [
            {
              "op": "add",
              "path": "/spec/template/terminationDelay",
              "value": "4h0m0s"
            },
            {
              "op": "add",
              "path": "/spec/template/headlessServiceConfig",
              "value": {
                "publishNotReadyAddresses": true
              }
            },
            {
              "op": "add",
              "path": "/spec/template/cliques/0/spec/podSpec/restartPolicy",
              "value": "Always"
            },
            {
              "op": "add",
              "path": "/spec/template/cliques/0/spec/podSpec/terminationGracePeriodSeconds",
              "value": 30
            }
          ],
          "patchType": "JSONPatch"
        }"#]],
    );
}

#[test]
fn all_that_is_wrong_is_told_at_once_for_people_and_programs() {
    let mut wrong = set();
    wrong["metadata"]["name"] = json!("serve.eu");
    wrong["spec"]["template"]["cliques"][0]["spec"]["minAvailable"] = json!(4);
    let asked = json!({ "uid": "7", "operation": "CREATE", "object": wrong });
    check(
        Question::ValidateSet,
        &asked,
        &plain(),
        &expect![[r#"
        {
          "allowed": false,
          "status": {
            "code": 403,
            "details": {
              "causes": [
                {
                  "field": "metadata.name",
                  "message": "metadata.name: Invalid value: \"serve.eu\": must not contain dots: it becomes part of hostnames and the name of a Service",
                  "reason": "FieldValueInvalid"
                },
                {
                  "field": "spec.template.cliques[0].spec.minAvailable",
                  "message": "spec.template.cliques[0].spec.minAvailable: Invalid value: 4: minAvailable must not be greater than replicas",
                  "reason": "FieldValueInvalid"
                }
              ]
            },
            "message": "[metadata.name: Invalid value: \"serve.eu\": must not contain dots: it becomes part of hostnames and the name of a Service, spec.template.cliques[0].spec.minAvailable: Invalid value: 4: minAvailable must not be greater than replicas]",
            "reason": "Forbidden"
          }
        }"#]],
    );
}

#[test]
fn what_is_no_set_is_left_to_the_definition() {
    let asked = json!({ "uid": "7", "operation": "CREATE", "object": { "spec": { "template": 7 } } });
    assert_eq!(answer(Question::DefaultSet, &request(&asked), &plain()), Answer::default());
}

#[test]
fn what_was_stored_unreadable_can_be_repaired() {
    let mut broken = set();
    broken["spec"]["template"]["cliques"] = json!("none");
    let asked = json!({ "uid": "7", "operation": "UPDATE", "object": set(), "oldObject": broken });
    check(
        Question::ValidateSet,
        &asked,
        &plain(),
        &expect![[r#"
        {
          "allowed": true
        }"#]],
    );
    let asked = json!({ "uid": "7", "operation": "UPDATE", "object": broken, "oldObject": set() });
    check(
        Question::ValidateSet,
        &asked,
        &plain(),
        &expect![[r#"
        {
          "allowed": false,
          "status": {
            "code": 400,
            "message": "the object is no PodCliqueSet: invalid type: string \"none\", expected a sequence",
            "reason": "BadRequest"
          }
        }"#]],
    );
}

fn scaled(resource: &str, name: &str, (from, to): (i32, i32)) -> Value {
    let scale = |replicas: i32| match replicas {
        0 => json!({ "spec": {} }),
        replicas => json!({ "spec": { "replicas": replicas } }),
    };
    json!({ "uid": "7", "operation": "UPDATE", "kind": { "kind": "Scale" }, "resource": { "resource": resource },
        "namespace": "team", "name": name, "object": scale(to), "oldObject": scale(from) })
}

#[test]
fn a_scale_is_judged_by_what_is_scaled() {
    let clique = json!({ "kind": "PodClique", "metadata": { "name": "serve-0-front", "namespace": "team" },
        "spec": { "replicas": 3, "minAvailable": 2, "podSpec": { "containers": [] } } });
    let group = json!({ "kind": "PodCliqueScalingGroup", "metadata": { "name": "serve-0-model", "namespace": "team" },
        "spec": { "replicas": 3, "minAvailable": 2, "cliqueNames": ["leader"] } });
    let cluster = cluster(OperatorConfiguration::default(), &[set(), clique, group]);
    let is_allowed = |asked: Value| answer(Question::ValidateScale, &request(&asked), &cluster).refusal.is_none();
    for (resource, name) in [("podcliques", "serve-0-front"), ("podcliquescalinggroups", "serve-0-model")] {
        assert!(!is_allowed(scaled(resource, name, (3, 1))), "{resource}");
        assert!(is_allowed(scaled(resource, name, (3, 2))), "{resource}");
        assert!(is_allowed(scaled(resource, name, (3, 0))), "{resource}");
        assert!(is_allowed(scaled(resource, "unknown", (3, 1))), "{resource}");
    }
    assert!(is_allowed(scaled("podcliquesets", "serve", (1, 9))));
    assert!(!is_allowed(scaled("podcliquesets", "serve", (1, -1))));
}

#[test]
fn what_a_number_is_judged_by_is_known() {
    let mut set = set();
    let fabric = "a-fabric-with-a-name-that-is-as-long-as-there-is-room-y";
    set["metadata"]["annotations"] = json!({ "grove.io/mnnvl-group": fabric });
    let labels = json!({ "app.kubernetes.io/part-of": "serve" });
    let clique = json!({ "kind": "PodClique", "metadata": { "name": "serve-0-front", "namespace": "team", "labels": labels },
        "spec": { "replicas": 3, "minAvailable": 2, "podSpec": { "containers": [] } } });
    let cluster = cluster(OperatorConfiguration::default(), &[set, clique]);
    let refusal = |asked: Value| answer(Question::ValidateScale, &request(&asked), &cluster).refusal;
    assert!(refusal(scaled("podcliquesets", "serve", (1, 10))).is_none());
    assert!(
        refusal(scaled("podcliquesets", "serve", (10, 11))).is_some(),
        "a fabric of the whole set has a longer name"
    );
    assert!(refusal(scaled("podcliques", "serve-0-front", (3, 99_990))).is_none());
    assert!(refusal(scaled("podcliques", "serve-0-front", (3, 100_000))).is_some(), "the set gets too large");
}

#[test]
fn topologies_of_both_kinds_are_judged_at_one_place() {
    let levels = json!([{ "domain": "rack", "key": "example.com/rack" }]);
    let binding =
        json!({ "kind": "ClusterTopologyBinding", "metadata": { "name": "racks" }, "spec": { "levels": levels } });
    let cluster = cluster(OperatorConfiguration::default(), &[binding]);
    let topology = json!({ "kind": "ClusterTopology", "metadata": { "name": "racks" }, "spec": { "levels": levels } });
    let asked = json!({ "uid": "7", "operation": "CREATE", "kind": { "kind": "ClusterTopology" }, "name": "racks",
        "object": topology });
    check(
        Question::ValidateTopology,
        &asked,
        &cluster,
        &expect![[r#"
        {
          "allowed": false,
          "status": {
            "code": 403,
            "details": {
              "causes": [
                {
                  "field": "metadata.name",
                  "message": "metadata.name: Invalid value: \"racks\": there is a ClusterTopologyBinding of this name, and sets could not tell the two apart; choose another",
                  "reason": "FieldValueInvalid"
                }
              ]
            },
            "message": "metadata.name: Invalid value: \"racks\": there is a ClusterTopologyBinding of this name, and sets could not tell the two apart; choose another",
            "reason": "Forbidden"
          }
        }"#]],
    );
}

#[test]
fn protection_follows_the_configuration_and_the_accounts() {
    let clique = json!({ "metadata": { "name": "serve-0-front", "labels": { "app.kubernetes.io/part-of": "serve" } } });
    let asked = |user: &str| {
        json!({ "uid": "7", "operation": "DELETE", "kind": { "kind": "PodClique" }, "namespace": "team",
            "name": "serve-0-front", "oldObject": clique, "userInfo": { "username": user } })
    };
    let on = Authorizer { enabled: true, exempt_users: vec!["friend".to_owned()] };
    let on = OperatorConfiguration { authorizer: on, ..OperatorConfiguration::default() };
    let protected = cluster(on, &[set()]);
    let is_allowed =
        |user: &str, cluster: &Cluster| answer(Question::Authorize, &request(&asked(user)), cluster).refusal.is_none();
    assert!(!is_allowed("jane", &protected));
    assert!(is_allowed("friend", &protected));
    assert!(is_allowed("system:serviceaccount:grove-system:pcs-controller", &protected));
    assert!(is_allowed("jane", &cluster(OperatorConfiguration::default(), &[set()])));
}

#[test]
fn features_are_those_of_the_configuration() {
    let mut gpus = set();
    gpus["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["resources"] =
        json!({ "limits": { "nvidia.com/gpu": 1 } });
    let asked = json!({ "uid": "7", "operation": "CREATE", "object": gpus });
    let on =
        OperatorConfiguration { network: Network { auto_mnnvl_enabled: true }, ..OperatorConfiguration::default() };
    let patched = answer(Question::DefaultSet, &request(&asked), &cluster(on, &[])).changes;
    assert!(format!("{patched:?}").contains("auto-mnnvl"), "{patched:?}");
}

#[test]
fn what_the_caches_keep_is_little() {
    let mut stored = set();
    stored["metadata"]["annotations"] = json!({ "kubectl.kubernetes.io/last-applied-configuration": "long" });
    let Known(kept) = Known::<PodCliqueSet>::deserialize(&stored).unwrap();
    let kept = serde_json::to_string(&kept).unwrap();
    assert!(!kept.contains("pause") && !kept.contains("long"), "{kept}");
}
