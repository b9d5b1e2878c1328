//! Requests as the API server sends them, and the responses.

use std::collections::BTreeSet;

use expect_test::{Expect, expect};
use grove_api_types::configuration::{Authorizer, Network, OperatorConfiguration};
use grove_runtime::caches::Cache;
use serde::Deserialize;
use serde_json::json;

use super::*;
use crate::cluster_facts::RuleCaches;

mod default_topology;
mod scheduled_pods;

/// The facts about a cluster with these objects.
pub(crate) fn cluster(config: OperatorConfiguration, objects: &[Value]) -> ClusterFacts {
    fn of<K: DeserializeOwned + Resource<DynamicType = ()>>(objects: &[Value]) -> Cache<K> {
        let of_kind = objects.iter().filter(|object| object["kind"] == *K::kind(&()));
        Cache::from_objects(of_kind.map(|object| K::deserialize(object).unwrap()))
    }
    let caches = RuleCaches {
        sets: of(objects),
        groups: of(objects),
        cliques: of(objects),
        topologies: of(objects),
        bindings: of(objects),
        queues: Some(of(objects)),
        gpu_nodes: Some(of(objects)),
    };
    let own_users = BTreeSet::from(["system:serviceaccount:grove-system:pcs-controller".to_owned()]);
    ClusterFacts::from_caches(config, own_users, caches)
}

fn set() -> Value {
    let containers = json!([{ "name": "main", "image": "pause", "newer": { "field": true } }]);
    let clique = json!({ "name": "front", "spec": { "roleName": "front", "replicas": 3, "minAvailable": 2,
        "podSpec": { "containers": containers } } });
    json!({ "kind": "PodCliqueSet", "metadata": { "name": "serve", "namespace": "team", "uid": "1" },
        "spec": { "replicas": 1, "template": { "cliques": [clique] } } })
}

fn request(value: &Value) -> AdmissionRequest {
    let review = json!({ "apiVersion": "admission.k8s.io/v1", "request": value });
    AdmissionRequest::parse(review.to_string().as_bytes()).unwrap()
}

fn check(webhook: Webhook, attributes: &Value, cluster: &ClusterFacts, expected: &Expect) {
    let review = admit(webhook, &request(attributes), cluster).to_json("7").unwrap();
    let review: Value = serde_json::from_slice(&review).unwrap();
    let mut response = review["response"].as_object().unwrap().clone();
    response.remove("uid");
    if let Some(patch) = response.get_mut("patch") {
        let bytes: k8s_openapi::ByteString = serde_json::from_value(patch.take()).unwrap();
        *patch = serde_json::from_slice(&bytes.0).unwrap();
    }
    expected.assert_eq(&serde_json::to_string_pretty(&response).unwrap());
}

fn default_cluster() -> ClusterFacts {
    cluster(OperatorConfiguration::default(), &[])
}

#[test]
fn defaults_are_the_smallest_patch() {
    let attributes =
        json!({ "uid": "7", "operation": "CREATE", "namespace": "team", "name": "serve", "object": set() });
    check(
        Webhook::DefaultSet,
        &attributes,
        &default_cluster(),
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
fn a_denial_lists_all_field_errors_as_message_and_causes() {
    let mut wrong = set();
    wrong["metadata"]["name"] = json!("serve.eu");
    wrong["spec"]["template"]["cliques"][0]["spec"]["minAvailable"] = json!(4);
    let attributes = json!({ "uid": "7", "operation": "CREATE", "object": wrong });
    check(
        Webhook::ValidateSet,
        &attributes,
        &default_cluster(),
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
fn an_object_that_is_not_a_set_gets_no_defaults() {
    let attributes = json!({ "uid": "7", "operation": "CREATE", "object": { "spec": { "template": 7 } } });
    assert_eq!(admit(Webhook::DefaultSet, &request(&attributes), &default_cluster()), AdmissionResponse::default());
}

#[test]
fn a_stored_set_that_cannot_be_parsed_can_be_repaired() {
    let mut broken = set();
    broken["spec"]["template"]["cliques"] = json!("none");
    let attributes = json!({ "uid": "7", "operation": "UPDATE", "object": set(), "oldObject": broken });
    check(
        Webhook::ValidateSet,
        &attributes,
        &default_cluster(),
        &expect![[r#"
        {
          "allowed": true
        }"#]],
    );
    let attributes = json!({ "uid": "7", "operation": "UPDATE", "object": broken, "oldObject": set() });
    check(
        Webhook::ValidateSet,
        &attributes,
        &default_cluster(),
        &expect![[r#"
        {
          "allowed": false,
          "status": {
            "code": 400,
            "message": "the object is not a valid PodCliqueSet: invalid type: string \"none\", expected a sequence",
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
fn a_scale_is_validated_for_the_cached_object() {
    let clique = json!({ "kind": "PodClique", "metadata": { "name": "serve-0-front", "namespace": "team" },
        "spec": { "replicas": 3, "minAvailable": 2, "podSpec": { "containers": [] } } });
    let group = json!({ "kind": "PodCliqueScalingGroup", "metadata": { "name": "serve-0-model", "namespace": "team" },
        "spec": { "replicas": 3, "minAvailable": 2, "cliqueNames": ["leader"] } });
    let cluster = cluster(OperatorConfiguration::default(), &[set(), clique, group]);
    let response = |attributes: Value| admit(Webhook::ValidateScale, &request(&attributes), &cluster);
    let is_allowed = |attributes: Value| response(attributes).denial.is_none();
    let is_warned = |attributes: Value| !response(attributes).warnings.is_empty();
    for (resource, name) in [("podcliques", "serve-0-front"), ("podcliquescalinggroups", "serve-0-model")] {
        assert!(!is_allowed(scaled(resource, name, (3, -1))), "{resource}");
        assert!(is_allowed(scaled(resource, name, (3, 1))) && is_warned(scaled(resource, name, (3, 1))), "{resource}");
        assert!(!is_warned(scaled(resource, name, (3, 2))) && !is_warned(scaled(resource, name, (3, 0))), "{resource}");
        assert!(!is_warned(scaled(resource, "unknown", (3, 1))), "{resource}");
    }
    assert!(is_allowed(scaled("podcliquesets", "serve", (1, 9))));
    assert!(!is_allowed(scaled("podcliquesets", "serve", (1, -1))));
}

#[test]
fn a_scale_is_validated_for_names_and_for_the_size_of_the_set() {
    let mut set = set();
    let group = "a-group-with-a-name-that-has-just-the-longest-length-yy";
    set["metadata"]["annotations"] = json!({ "grove.io/mnnvl-group": group });
    let labels = json!({ "app.kubernetes.io/part-of": "serve" });
    let clique = json!({ "kind": "PodClique", "metadata": { "name": "serve-0-front", "namespace": "team", "labels": labels },
        "spec": { "replicas": 3, "minAvailable": 2, "podSpec": { "containers": [] } } });
    let cluster = cluster(OperatorConfiguration::default(), &[set, clique]);
    let denial = |attributes: Value| admit(Webhook::ValidateScale, &request(&attributes), &cluster).denial;
    assert!(denial(scaled("podcliquesets", "serve", (1, 10))).is_none());
    assert!(denial(scaled("podcliquesets", "serve", (10, 11))).is_some(), "the name of the ComputeDomain is too long");
    assert!(denial(scaled("podcliques", "serve-0-front", (3, 7_900))).is_none());
    assert!(denial(scaled("podcliques", "serve-0-front", (3, 100_000))).is_some(), "the set has too many objects");
}

#[test]
fn a_scale_of_a_clique_counts_the_current_replicas_of_the_other_cliques_of_its_gang() {
    let clique = |name: &str, gang: &str, replicas: i32| {
        let labels = json!({ "app.kubernetes.io/part-of": "serve", "grove.io/podgang": gang });
        json!({ "kind": "PodClique", "metadata": { "name": name, "namespace": "team", "labels": labels },
            "spec": { "replicas": replicas, "minAvailable": 1, "podSpec": { "containers": [] } } })
    };
    let denial = |other: Value| {
        let cluster = cluster(OperatorConfiguration::default(), &[set(), clique("serve-0-front", "serve-0", 3), other]);
        let scaled = scaled("podcliques", "serve-0-front", (3, 4_000));
        admit(Webhook::ValidateScale, &request(&scaled), &cluster).denial
    };
    assert!(denial(clique("serve-0-back", "serve-0", 3_998)).is_none(), "8,000 pods and PodCliques");
    assert!(denial(clique("serve-0-back", "serve-0", 3_999)).is_some(), "8,001 pods and PodCliques");
    assert!(denial(clique("serve-1-back", "serve-1", 8_000)).is_none(), "another gang");
}

#[test]
fn the_name_of_a_topology_is_unique_across_both_kinds() {
    let levels = json!([{ "domain": "rack", "key": "example.com/rack" }]);
    let binding =
        json!({ "kind": "ClusterTopologyBinding", "metadata": { "name": "racks" }, "spec": { "levels": levels } });
    let cluster = cluster(OperatorConfiguration::default(), &[binding]);
    let topology = json!({ "kind": "ClusterTopology", "metadata": { "name": "racks" }, "spec": { "levels": levels } });
    let attributes = json!({ "uid": "7", "operation": "CREATE", "kind": { "kind": "ClusterTopology" }, "name": "racks",
        "object": topology });
    check(
        Webhook::ValidateTopology,
        &attributes,
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
                  "message": "metadata.name: Invalid value: \"racks\": a ClusterTopologyBinding has this name, and a set refers to a topology by its name only; choose another name",
                  "reason": "FieldValueInvalid"
                }
              ]
            },
            "message": "metadata.name: Invalid value: \"racks\": a ClusterTopologyBinding has this name, and a set refers to a topology by its name only; choose another name",
            "reason": "Forbidden"
          }
        }"#]],
    );
}

#[test]
fn only_grove_deletes_the_default_topology() {
    let denial = |kind: &str, name: &str, user: &str, config: OperatorConfiguration| {
        let attributes = json!({ "uid": "7", "operation": "DELETE", "kind": { "kind": kind }, "name": name,
            "oldObject": { "metadata": { "name": name } }, "userInfo": { "username": user } });
        admit(Webhook::ValidateTopology, &request(&attributes), &cluster(config, &[])).denial
    };
    let mut enabled = OperatorConfiguration::default();
    enabled.topology.enabled = true;
    let own = "system:serviceaccount:grove-system:pcs-controller";
    let name = enabled.topology.name.clone();
    assert!(denial("ClusterTopology", &name, "jane", enabled.clone()).is_some());
    assert!(denial("ClusterTopologyBinding", &name, "jane", enabled.clone()).is_some());
    assert!(denial("ClusterTopology", &name, own, enabled.clone()).is_none());
    assert!(denial("ClusterTopology", "other", "jane", enabled.clone()).is_none());
    let collection = json!({ "uid": "7", "operation": "DELETE", "kind": { "kind": "ClusterTopology" },
        "oldObject": { "metadata": { "name": name } }, "userInfo": { "username": "jane" } });
    let response = admit(Webhook::ValidateTopology, &request(&collection), &cluster(enabled, &[]));
    assert!(response.denial.is_some(), "a deletion of all topologies");
    assert!(denial("ClusterTopology", &name, "jane", OperatorConfiguration::default()).is_none());
}

#[test]
fn the_authorizer_follows_the_configuration_and_exempts_accounts() {
    let clique = json!({ "metadata": { "name": "serve-0-front", "labels": { "app.kubernetes.io/part-of": "serve" } } });
    let delete_by = |user: &str| {
        json!({ "uid": "7", "operation": "DELETE", "kind": { "kind": "PodClique" }, "namespace": "team",
            "name": "serve-0-front", "oldObject": clique, "userInfo": { "username": user } })
    };
    let authorizer = Authorizer { enabled: true, exempt_users: vec!["friend".to_owned()] };
    let config = OperatorConfiguration { authorizer, ..OperatorConfiguration::default() };
    let protected = cluster(config, &[set()]);
    let is_allowed = |user: &str, cluster: &ClusterFacts| {
        admit(Webhook::Authorize, &request(&delete_by(user)), cluster).denial.is_none()
    };
    assert!(!is_allowed("jane", &protected));
    assert!(is_allowed("friend", &protected));
    assert!(is_allowed("system:serviceaccount:grove-system:pcs-controller", &protected));
    assert!(is_allowed("jane", &cluster(OperatorConfiguration::default(), &[set()])));
}

#[test]
fn the_configuration_enables_features() {
    let mut gpus = set();
    gpus["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["resources"] =
        json!({ "limits": { "nvidia.com/gpu": 1 } });
    let attributes = json!({ "uid": "7", "operation": "CREATE", "object": gpus });
    let config = OperatorConfiguration {
        network: Network { auto_mnnvl_enabled: true, ..Network::default() },
        ..OperatorConfiguration::default()
    };
    let patch = admit(Webhook::DefaultSet, &request(&attributes), &cluster(config, &[])).patch;
    assert!(format!("{patch:?}").contains("auto-mnnvl"), "{patch:?}");
}

#[test]
fn the_cache_transform_drops_pod_specs_and_foreign_annotations() {
    let mut stored = set();
    stored["metadata"]["annotations"] = json!({ "kubectl.kubernetes.io/last-applied-configuration": "long" });
    let TransformedObject(set) = TransformedObject::<PodCliqueSet>::deserialize(&stored).unwrap();
    let set = serde_json::to_string(&set).unwrap();
    assert!(!set.contains("pause") && !set.contains("long"), "{set}");
}
