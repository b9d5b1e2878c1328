//! The CRDs of compute domains: their schemas have the fields of NVIDIA's driver, and the Rust types have the fields of the schemas.

use std::collections::BTreeSet;

use expect_test::expect;
use grove_api_types::compute_domain::clique::ComputeDomainClique;
use grove_api_types::compute_domain::entry::{Entry, Readiness};
use grove_api_types::compute_domain::status::{ComputeDomainCliqueStatus, ComputeDomainNode, ComputeDomainStatus};
use grove_api_types::compute_domain::{ComputeDomain, ComputeDomainState};
use serde_json::{Value, json};

const DOMAIN: &str = include_str!("../../../../deploy/components/compute-domains/computedomain.yaml");
const CLIQUE: &str = include_str!("../../../../deploy/components/compute-domains/computedomainclique.yaml");

fn crd(text: &str) -> Value {
    serde_saphyr::from_str(text).expect("a CRD")
}

fn schema(text: &str) -> Value {
    crd(text)["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// One line per field: path, type, whether it is required, and its rules.
fn fields(schema: &Value, path: &str) -> Vec<String> {
    let required: Vec<_> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut lines = Vec::new();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        if path.is_empty() && ["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
            continue;
        }
        let path = format!("{path}.{name}");
        let mut line = format!("{path}: {}", field["type"].as_str().unwrap_or_default());
        line.push_str(if required.contains(&name.as_str()) { " required" } else { "" });
        for rule in ["default", "minimum", "enum", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"] {
            let value = field.get(rule).map(|value| format!(" {rule}={value}"));
            line.push_str(&value.unwrap_or_default());
        }
        lines.push(line);
        lines.extend(fields(field, &path));
        lines.extend(fields(&field["items"], &format!("{path}[]")));
    }
    lines
}

/// NVIDIA's driver has two more rules: `status.status` is required, and its default is `NotReady`. Here it is absent before the first
/// daemon registers. `status.cliques` is only in the design of the driver.
#[test]
fn the_fields_of_the_crds_are_those_of_the_driver() {
    let mut lines = fields(&schema(DOMAIN), "");
    lines.sort();
    expect![[r#"
        .spec.channel.allocationMode: string default="Single" enum=["All","Single"]
        .spec.channel.resourceClaimTemplate.name: string required
        .spec.channel.resourceClaimTemplate: object required
        .spec.channel: object required
        .spec.numNodes: integer default=0 minimum=0
        .spec: object
        .status.cliques: array x-kubernetes-list-type="map" x-kubernetes-list-map-keys=["id"]
        .status.cliques[].id: string required
        .status.cliques[].status: string enum=["Ready","NotReady"]
        .status.nodes: array x-kubernetes-list-type="map" x-kubernetes-list-map-keys=["name"]
        .status.nodes[].cliqueID: string required
        .status.nodes[].index: integer
        .status.nodes[].ipAddress: string required
        .status.nodes[].name: string required
        .status.nodes[].status: string default="NotReady" enum=["Ready","NotReady"]
        .status.status: string enum=["Ready","NotReady"]
        .status: object
    "#]]
    .assert_eq(&(lines.join("\n") + "\n"));
    let mut lines = fields(&schema(CLIQUE), "");
    lines.sort();
    expect![[r#"
        .daemons: array x-kubernetes-list-type="map" x-kubernetes-list-map-keys=["nodeName"]
        .daemons[].cliqueID: string required
        .daemons[].index: integer
        .daemons[].ipAddress: string required
        .daemons[].nodeName: string required
        .daemons[].status: string default="NotReady" enum=["Ready","NotReady"]
    "#]]
    .assert_eq(&(lines.join("\n") + "\n"));
}

#[test]
fn the_names_columns_and_rules_of_the_crds_are_those_of_the_driver() {
    let [domain, clique] = [DOMAIN, CLIQUE].map(crd);
    let names = |crd: &Value| {
        let spec = &crd["spec"];
        let fields = [&crd["metadata"]["name"], &spec["scope"], &spec["names"]["kind"], &spec["names"]["singular"]];
        fields.map(|field| field.as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(names(&domain), ["computedomains.resource.nvidia.com", "Namespaced", "ComputeDomain", "computedomain"]);
    assert_eq!(
        names(&clique),
        ["computedomaincliques.resource.nvidia.com", "Namespaced", "ComputeDomainClique", "computedomainclique"]
    );
    let version = |crd: &Value| crd["spec"]["versions"][0].clone();
    for version in [version(&domain), version(&clique)] {
        assert_eq!(
            (&version["name"], &version["served"], &version["storage"]),
            (&json!("v1beta1"), &json!(true), &json!(true))
        );
    }
    assert_eq!(version(&domain)["subresources"], json!({ "status": {} }));
    assert_eq!(version(&clique).get("subresources"), None);
    assert_eq!(version(&domain)["additionalPrinterColumns"][0]["jsonPath"], ".status.status");
    let rule = &schema(DOMAIN)["properties"]["spec"]["x-kubernetes-validations"][0];
    assert_eq!(rule, &json!({ "rule": "self == oldSelf", "message": "A computeDomain.spec is immutable" }));
}

/// The paths of all fields of a value, without its metadata.
fn paths(value: &Value, path: &str, paths_of_value: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields.iter().filter(|(name, _)| !path.is_empty() || *name != "metadata") {
                let path = format!("{path}.{name}");
                paths_of_value.insert(path.clone());
                paths(field, &path, paths_of_value);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| paths(item, &format!("{path}[]"), paths_of_value)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn the_types_have_the_fields_of_the_schemas() {
    let entry = Entry { status: Readiness::Ready, ..Entry::default() };
    let status = ComputeDomainStatus {
        status: Some(Readiness::Ready),
        nodes: vec![ComputeDomainNode::from(entry.clone())],
        cliques: vec![ComputeDomainCliqueStatus::default()],
    };
    let domain = serde_json::to_value(ComputeDomain::default()).unwrap();
    let state = serde_json::to_value(ComputeDomainState { status, ..ComputeDomainState::default() }).unwrap();
    let clique =
        serde_json::to_value(ComputeDomainClique { daemons: vec![entry], ..ComputeDomainClique::default() }).unwrap();
    for (values, text) in [(vec![domain, state], DOMAIN), (vec![clique], CLIQUE)] {
        let mut ours = BTreeSet::new();
        for value in &values {
            paths(value, "", &mut ours);
        }
        let lines = fields(&schema(text), "");
        let mut defined: BTreeSet<_> =
            lines.iter().filter_map(|line| line.split_once(':')).map(|(path, _)| path.to_owned()).collect();
        // Grove leaves the choice of channels to the default.
        defined.remove(".spec.channel.allocationMode");
        assert_eq!(ours, defined);
    }
}
