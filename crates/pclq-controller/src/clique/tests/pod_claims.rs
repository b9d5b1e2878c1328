//! The references to claims in pods.

#![allow(clippy::needless_raw_string_hashes, reason = "expect_test writes them")]

use expect_test::expect;
use grove_controller::plan::{Create, Step};
use serde_json::Value;

use super::{plan, snapshot};

const CLAIMS: &str = "claims: {references: [{name: llm-all-a}, {name: llm-0-b}, {name: llm-0-g-all-c}], own: [{t: d}, {t: e, per: true}],
          existing: [{name: all-d}, {name: 0-e}, {name: 1-e}]}";

/// The manifests of the pods that the plan creates.
fn pods(row: &str) -> Vec<Value> {
    let plan = plan(&snapshot(row));
    let manifest = |step: &Step| match step {
        Step::Create(Create { target, object }) if target.resource.kind == "Pod" => Some(object.value()),
        Step::Create(_) | Step::Patch(_) | Step::Delete(_) | Step::Adopt(_) => None,
    };
    plan.steps().filter_map(manifest).collect()
}

#[test]
fn a_pod_refers_to_all_its_claims_in_the_documented_order() {
    let row = format!(
        "{{replicas: 2, gang: [], annotations: {{grove.io/resource-claims: '{{}}', note: stays}}, podSpec: {{containers: [{{name: main}}, {{name: side, resources: {{limits: {{cpu: 1}}}}}}],
           initContainers: [{{name: init}}], ephemeralContainers: [{{name: debug}}]}}, {CLAIMS}}}"
    );
    let pods = pods(&row);
    expect![[r#"[{"name":"llm-all-a","resourceClaimName":"llm-all-a"},{"name":"llm-0-b","resourceClaimName":"llm-0-b"},{"name":"llm-0-g-all-c","resourceClaimName":"llm-0-g-all-c"},{"name":"llm-0-decode-all-d","resourceClaimName":"llm-0-decode-all-d"},{"name":"llm-0-decode-0-e","resourceClaimName":"llm-0-decode-0-e"}]"#]].assert_eq(&pods[0]["spec"]["resourceClaims"].to_string());
    expect![[r#"[{"name":"llm-all-a","resourceClaimName":"llm-all-a"},{"name":"llm-0-b","resourceClaimName":"llm-0-b"},{"name":"llm-0-g-all-c","resourceClaimName":"llm-0-g-all-c"},{"name":"llm-0-decode-all-d","resourceClaimName":"llm-0-decode-all-d"},{"name":"llm-0-decode-1-e","resourceClaimName":"llm-0-decode-1-e"}]"#]].assert_eq(&pods[1]["spec"]["resourceClaims"].to_string());
    let claims = &pods[1]["spec"]["containers"][0]["resources"]["claims"];
    expect![[r#"[{"name":"llm-all-a"},{"name":"llm-0-b"},{"name":"llm-0-g-all-c"},{"name":"llm-0-decode-all-d"},{"name":"llm-0-decode-1-e"}]"#]].assert_eq(&claims.to_string());
    let side = &pods[1]["spec"]["containers"][1]["resources"];
    assert_eq!((&side["claims"], side["limits"]["cpu"].as_i64()), (claims, Some(1)));
    assert_eq!(&pods[1]["spec"]["initContainers"][0]["resources"]["claims"], claims);
    assert!(pods[1]["spec"]["ephemeralContainers"][0].get("resources").is_none());
    expect![[r#"{"note":"stays"}"#]].assert_eq(&pods[1]["metadata"]["annotations"].to_string());
}

#[test]
fn the_claims_of_the_user_and_of_mnnvl_stay() {
    let row = format!(
        "{{replicas: 1, gang: [], podSpec: {{resourceClaims: [{{name: mnnvl-claim, resourceClaimTemplateName: llm-0}}, {{name: mine, resourceClaimName: own}}],
           containers: [{{name: main, resources: {{claims: [{{name: mnnvl-claim}}, {{name: mine, request: r}}]}}}}]}}, {CLAIMS}}}"
    );
    let pods = pods(&row);
    let names = |list: &Value| list.as_array().unwrap().iter().map(|entry| entry["name"].clone()).collect::<Vec<_>>();
    let expected =
        ["mnnvl-claim", "mine", "llm-all-a", "llm-0-b", "llm-0-g-all-c", "llm-0-decode-all-d", "llm-0-decode-0-e"];
    assert_eq!(names(&pods[0]["spec"]["resourceClaims"]), expected);
    let claims = &pods[0]["spec"]["containers"][0]["resources"]["claims"];
    assert_eq!((names(claims), claims[1]["request"].as_str()), (expected.map(Value::from).to_vec(), Some("r")));
}

#[test]
fn gated_pods_have_the_same_claims() {
    let row = format!("{{replicas: 2, base: {{llm-0-a: 1}}, gang: [], {CLAIMS}}}");
    let gated = pods(&row);
    let ungated = pods(&row.replace("llm-0-a: 1", "llm-0-a: 2"));
    for (gated, ungated) in gated.iter().zip(&ungated) {
        assert_eq!(gated["spec"]["schedulingGates"][0]["name"], "grove.io/podgang-pending-creation");
        assert!(ungated["spec"].get("schedulingGates").is_none());
        assert_eq!(gated["spec"]["resourceClaims"], ungated["spec"]["resourceClaims"]);
    }
    assert_ne!(gated[0]["spec"]["resourceClaims"], gated[1]["spec"]["resourceClaims"]);
}

/// The name of an entry in a pod has at most 63 characters, the name of a claim has more.
#[test]
fn a_long_name_of_a_claim_is_shortened_only_in_the_pod() {
    let template = "t".repeat(60);
    let row = format!(
        "{{replicas: 1, gang: [], claims: {{own: [{{t: {template}, per: true}}], existing: [{{name: 0-{template}}}]}}}}"
    );
    let pods = pods(&row);
    let entry = &pods[0]["spec"]["resourceClaims"][0];
    assert_eq!(entry["resourceClaimName"], format!("llm-0-decode-0-{template}"));
    let name = entry["name"].as_str().unwrap();
    assert!(name.len() <= 63, "{name}");
    assert_eq!(pods[0]["spec"]["containers"][0]["resources"]["claims"][0]["name"], name);
}
