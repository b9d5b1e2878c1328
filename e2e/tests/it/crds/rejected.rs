//! Objects that the API server rejects by the CRDs alone, and the messages.

use e2e::kubectl::kubectl;
use e2e::propagation::{TOPOLOGY_NOT_CACHED, kubectl_until_success};
use e2e::{TestCluster, in_namespace};
use serde_json::{Value, json};

use super::{set, yaml};

/// kubectl creates the set changed by `change`; the message of the rejection contains `text`.
async fn assert_rejected(namespace: &str, change: impl FnOnce(&mut Value), text: &str) {
    let mut set = set("s", "[{name: main}]");
    change(&mut set);
    let rejection = kubectl(&["create", "-n", namespace, "-f", "-"], &set.to_string()).await.expect_err("a rejection");
    assert!(rejection.contains(text), "{rejection}");
}

fn template(set: &mut Value) -> &mut Value {
    &mut set["spec"]["template"]
}

#[tokio::test]
async fn unknown_fields_are_rejected_with_their_path() {
    in_namespace("e2e-typos", async |ns| {
        let ns = ns.name.as_str();
        let pod_spec =
            |set: &mut Value| template(set)["cliques"][0]["spec"]["podSpec"]["containers"][0]["imagee"] = json!("i");
        assert_rejected(ns, |set| set["spec"]["replicaz"] = json!(1), r#"unknown field "spec.replicaz""#).await;
        let text = r#"unknown field "spec.template.cliques[0].spec.podSpec.containers[0].imagee""#;
        assert_rejected(ns, pod_spec, text).await;
        let group = yaml("[{name: g, cliqueNames: [a], labels: {a: b}}]");
        let text = r#"unknown field "spec.template.podCliqueScalingGroups[0].labels""#;
        assert_rejected(ns, |set| template(set)["podCliqueScalingGroups"] = group, text).await;
    })
    .await;
}

#[tokio::test]
async fn invalid_values_are_rejected_with_their_path() {
    in_namespace("e2e-nonsense", async |ns| {
        let ns = ns.name.as_str();
        let text = ".spec.replicas: Invalid value: -1: should be a non-negative integer";
        assert_rejected(ns, |set| set["spec"]["replicas"] = json!(-1), text).await;
        let text = "spec.replicas: Invalid value: 2000000000: spec.replicas in body should be less than or equal to 100000";
        assert_rejected(ns, |set| set["spec"]["replicas"] = json!(2_000_000_000), text).await;
        let no_template = |set: &mut Value| set["spec"] = json!({ "replicas": 1 });
        assert_rejected(ns, no_template, "spec.template: Required value").await;
        let text = r#"spec.template.cliqueStartupType: Unsupported value: "Sorted": supported values: "CliqueStartupType"#;
        assert_rejected(ns, |set| template(set)["cliqueStartupType"] = json!("Sorted"), text).await;
        for delay in ["soon", "-4h"] {
            let why = "is not a duration; valid examples: 4h, 15m, 1m30s";
            let text = format!(r#"spec.template.terminationDelay: Invalid value: "{delay}": {why}"#);
            assert_rejected(ns, |set| template(set)["terminationDelay"] = json!(delay), &text).await;
        }
        let text = r#"spec.updateStrategy.type: Unsupported value: "Coherent": supported values: "RollingRecreate", "OnDelete""#;
        assert_rejected(ns, |set| set["spec"]["updateStrategy"] = json!({ "type": "Coherent" }), text).await;
        let text = r#"spec.template.resourceSharing[0].scope: Unsupported value: "Everybody": supported values: "#;
        let sharing = yaml("[{name: gpus, scope: Everybody}]");
        assert_rejected(ns, |set| template(set)["resourceSharing"] = sharing, text).await;
    })
    .await;
}

#[tokio::test]
async fn duplicate_names_in_a_list_are_rejected() {
    in_namespace("e2e-twice", async |ns| {
        let ns = ns.name.as_str();
        let twice = yaml("[{name: main}, {name: main}]");
        let text = "spec.template.cliques[0].spec.podSpec.containers[1]: Duplicate value";
        assert_rejected(ns, |set| template(set)["cliques"][0]["spec"]["podSpec"]["containers"] = twice, text).await;
        let clique = yaml("{name: a, spec: {podSpec: {containers: [{name: main}]}}}");
        let text = "spec.template.cliques[1]: Duplicate value";
        assert_rejected(ns, |set| template(set)["cliques"] = json!([clique, clique]), text).await;
        let groups = yaml("[{name: g, cliqueNames: [a]}, {name: g, cliqueNames: [a]}]");
        let text = "spec.template.podCliqueScalingGroups[1]: Duplicate value";
        assert_rejected(ns, |set| template(set)["podCliqueScalingGroups"] = groups, text).await;
    })
    .await;
}

#[tokio::test]
async fn ambiguous_topology_constraints_are_rejected() {
    in_namespace("e2e-constraints", async |ns| {
        let rows = [
            ("{topologyName: t}", ".pack: Required value: topologyConstraint must specify pack or packDomain"),
            ("{pack: {}}", ".pack: Required value: pack must specify at least one of required or preferred"),
            ("{packDomain: Rack}", r#".packDomain: Invalid value: "Rack""#),
            (
                "{packDomain: rack, pack: {required: host}}",
                ".pack.required: Invalid value: packDomain and pack.required mean the same and must not differ",
            ),
        ];
        for (constraint, text) in rows {
            let constraint = yaml(constraint);
            let on_set = |set: &mut Value| template(set)["topologyConstraint"] = constraint.clone();
            assert_rejected(&ns.name, on_set, &format!("spec.template.topologyConstraint{text}")).await;
            let on_clique = |set: &mut Value| template(set)["cliques"][0]["topologyConstraint"] = constraint.clone();
            assert_rejected(&ns.name, on_clique, &format!("spec.template.cliques[0].topologyConstraint{text}")).await;
        }
    })
    .await;
}

#[tokio::test]
async fn both_forms_of_a_topology_constraint_are_accepted() {
    in_namespace("e2e-both-ways", async |ns| {
        let constraints = [
            "{packDomain: rack}",
            "{topologyName: t, pack: {required: rack, preferred: host}}",
            "{packDomain: rack, pack: {required: rack}}",
            "{packDomain: rack, pack: {preferred: host}}",
        ];
        for name in ["t", "grove-topology"] {
            let levels = "[{domain: rack, key: rack}, {domain: host, key: host}]";
            let topology = format!("{{apiVersion: grove.io/v1alpha1, kind: ClusterTopology, metadata: {{name: {name}}}, spec: {{levels: {levels}}}}}");
            kubectl(&["create", "-f", "-"], &topology).await.expect("the topology is created");
        }
        for constraint in constraints {
            let mut set = set("s", "[{name: main}]");
            template(&mut set)["topologyConstraint"] = yaml(constraint);
            template(&mut set)["cliques"][0]["topologyConstraint"] = yaml(constraint);
            let create = ["create", "--dry-run=server", "-n", &ns.name, "-f", "-"];
            kubectl_until_success(&TestCluster::shared(), &create, &set.to_string(), TOPOLOGY_NOT_CACHED).await;
        }
    })
    .await;
}
