//! The CRDs on a real API server: kubectl applies and explains them, the API server rejects unknown fields and invalid
//! values, and server-side apply merges lists as it does for Kubernetes' own kinds.

use e2e::kubectl::kubectl;
use e2e::poll::poll_until;
use e2e::{Namespace, in_namespace};
use grove_api_types::v1alpha1::PodCliqueSet;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

mod builtin_types;
mod rejected;

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).expect("YAML")
}

/// A set with 0 replicas, for which Grove creates no objects.
fn set(name: &str, containers: &str) -> Value {
    let container = |template: &str| yaml(&template.replace("CONTAINERS", containers));
    let cliques = container("[{name: a, spec: {roleName: a, replicas: 1, podSpec: {containers: CONTAINERS}}}]");
    json!({
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": { "name": name },
        "spec": { "replicas": 0, "template": { "cliques": cliques } },
    })
}

#[tokio::test]
async fn kubectl_applies_the_crds() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../crds");
    let applied = kubectl(&["apply", "--dry-run=server", "-k", folder], "").await.expect("kubectl applies the CRDs");
    let kinds = ["podcliquesets.grove.io", "podcliques.grove.io", "podcliquescalinggroups.grove.io"];
    for kind in kinds.iter().chain(&["podgangs.scheduler.grove.io"]) {
        assert!(applied.contains(kind), "{applied}");
    }
}

#[tokio::test]
async fn kubectl_explains_every_kind() {
    let fields = [
        ("pcs", "A set of cliques that Grove creates, schedules and scales as a unit."),
        ("pclq.spec.minAvailable", "The number of pods that are scheduled together"),
        ("pcsg.spec.cliqueNames", "The names of the cliques of each replica"),
        ("pg.spec.podgroups", "One group of identical pods per clique of the gang."),
        ("pcs.spec.template.cliques.spec.podSpec", "containers\t<[]Object> -required-"),
        ("pcs.spec.template.cliques.spec.podSpec.containers.env.valueFrom", "secretKeyRef"),
        ("pcs.spec.template.podCliqueScalingGroups.scaleConfig.metrics", "containerResource"),
        (
            "pcs.spec.template.topologyConstraint.packDomain",
            "`rack` means that the pods of a replica are in one rack, and different replicas may be in different racks.",
        ),
        ("pcs.spec.template.cliques.resourceClaimTemplateNames", "one `ResourceClaim` per `PodClique`"),
    ];
    // kubectl breaks the lines.
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for (field, text) in fields {
        // The API server publishes the schema of a CRD a moment after it serves the kind.
        poll_until(async || {
            let output = kubectl(&["explain", field], "").await.ok()?;
            words(&output).contains(&words(text)).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn kubectl_lists_whether_sets_run() {
    in_namespace("e2e-columns", async |ns| {
        let set = set("s", "[{name: main, image: registry.k8s.io/pause:3.10}]");
        ns.create_yaml::<PodCliqueSet>(&set.to_string()).await;
        ns.wait_for("the set is available", |state| state.is_available("s")).await;
        let rows = async |arguments: &[&str]| {
            let output = kubectl(&[&["get", "--namespace", &ns.name], arguments].concat(), "").await.expect("a table");
            output.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect::<Vec<Vec<_>>>()
        };
        let table = rows(&["pcs"]).await;
        assert_eq!(table[0], ["NAME", "AVAILABLE", "REASON", "REPLICAS", "UPDATED", "AGE"]);
        assert_eq!(table[1][..3], ["s", "True", "MinimumReplicasAvailable"]);
        let of_update = ["PCLQS-UPDATED", "PCLQS-TOTAL", "PCSGS-UPDATED", "PCSGS-TOTAL", "AGE"];
        assert_eq!(rows(&["pcs", "--output=wide"]).await[0][5..], [&["AVAILABLE-REPLICAS"], &of_update[..]].concat());
        // Empty lines separate the kinds, whose order varies.
        let of_category = rows(&["grove"]).await.concat();
        assert!(of_category.contains(&"podcliqueset.grove.io/s".to_owned()), "{of_category:?}");
    })
    .await;
}

#[tokio::test]
async fn containers_and_variables_of_two_field_managers_are_merged() {
    in_namespace("e2e-apply", async |ns| {
        apply(ns, "team", "[{name: main, image: i, env: [{name: A, value: '1'}], ports: [{containerPort: 80}]}]").await;
        let with_sidecar = "[{name: main, env: [{name: B, value: '2'}], ports: [{containerPort: 81}]}, {name: side}]";
        let merged = apply(ns, "mesh", with_sidecar).await;
        let expected = yaml(
            "
- name: main
  image: i
  env: [{name: A, value: '1'}, {name: B, value: '2'}]
  ports: [{containerPort: 80, protocol: TCP}, {containerPort: 81, protocol: TCP}]
- name: side
",
        );
        assert_eq!(merged, expected);
        let without = apply(ns, "mesh", "[{name: main}]").await;
        let expected =
            "[{name: main, image: i, env: [{name: A, value: '1'}], ports: [{containerPort: 80, protocol: TCP}]}]";
        assert_eq!(without, yaml(expected));
    })
    .await;
}

/// Applies the containers of the only clique as field manager `manager`, and returns the stored ones.
async fn apply(ns: &Namespace, manager: &str, containers: &str) -> Value {
    let patch = Patch::Apply(set("s", containers));
    let applied =
        ns.api::<PodCliqueSet>().patch("s", &PatchParams::apply(manager), &patch).await.expect("the patch is applied");
    serde_json::to_value(&applied.spec.template.cliques[0].spec.pod_spec).expect("JSON")["containers"].clone()
}

#[tokio::test]
async fn null_fields_are_dropped_and_the_set_is_reconciled() {
    in_namespace("e2e-nulls", async |ns| {
        let mut set = set("s", "[{name: main, env: null, resources: {limits: null}}]");
        let template = &mut set["spec"]["template"];
        template["cliques"][0]["labels"] = Value::Null;
        template["cliques"][0]["spec"]["startsAfter"] = Value::Null;
        template["cliques"][0]["spec"]["minAvailable"] = Value::Null;
        template["resourceSharing"] = Value::Null;
        template["priorityClassName"] = Value::Null;
        template["podCliqueScalingGroups"] = json!([{ "name": "g", "cliqueNames": ["a"], "minAvailable": null }]);
        let object = kube::api::DynamicObject::new("s", &kube::api::ApiResource::erase::<PodCliqueSet>(&()));
        let object = kube::api::DynamicObject { data: set, ..object };
        let sets = kube::Api::<kube::api::DynamicObject>::namespaced_with(
            ns.client.clone(),
            &ns.name,
            &kube::api::ApiResource::erase::<PodCliqueSet>(&()),
        );
        sets.create(&PostParams::default(), &object).await.expect("the set with nulls is accepted");
        let state = ns
            .wait_for("the watch delivers the set, and pcs-controller has reconciled it", |state| {
                state.is_available("s")
            })
            .await;
        let group = &state.sets["s"].spec.template.pod_clique_scaling_groups[0];
        assert_eq!((group.replicas, group.min_available), (Some(1), Some(1)));
    })
    .await;
}

#[tokio::test]
async fn a_minimal_set_is_stored_with_its_defaults() {
    in_namespace("e2e-defaults", async |ns| {
        let sparse = "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: s}
spec:
  updateStrategy: {}
  template:
    headlessServiceConfig: {}
    cliques: [{name: a, spec: {podSpec: {containers: [{name: main}]}}}]
    podCliqueScalingGroups: [{name: g, cliqueNames: [a]}]
";
        let stored: PodCliqueSet = ns.create_yaml(sparse).await;
        let stored = serde_json::to_value(&stored.spec).expect("JSON");
        let expected = "
replicas: 0
updateStrategy: {type: RollingRecreate}
template:
  cliqueStartupType: CliqueStartupTypeAnyOrder
  headlessServiceConfig: {publishNotReadyAddresses: true}
  terminationDelay: 4h0m0s
  cliques:
  - name: a
    spec:
      roleName: ''
      replicas: 1
      minAvailable: 1
      podSpec: {restartPolicy: Always, terminationGracePeriodSeconds: 30, containers: [{name: main}]}
  podCliqueScalingGroups: [{name: g, cliqueNames: [a], replicas: 1, minAvailable: 1}]
";
        assert_eq!(stored, yaml(expected));
    })
    .await;
}
