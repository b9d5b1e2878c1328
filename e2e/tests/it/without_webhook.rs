//! Rejections without webhooks: by the CRDs, and by the admission policy where it is installed. The tests create and update
//! the objects of the admission rows; neither the CRDs nor the policy may reject an object that the rules accept.

use std::collections::BTreeSet;

use e2e::{Namespace, in_namespace, namespace_state::TIMEOUT};
use futures::{StreamExt, stream};
use grove_api_types::v1alpha1::{ClusterTopology, ClusterTopologyBinding, PodCliqueSet};
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::policy::{DENIED, Policy};
use grove_test_support::rows::{Operations, Row, RowFacts, rows};

/// Rows that are tested at a time.
const CONCURRENCY: usize = 8;
/// The test binds the policy to objects with this label, so that it does not affect other tests.
const POLICY_LABEL: (&str, &str) = ("e2e.grove.io/validated-by", "policy");

/// Whether a row depends neither on other stored objects nor on the configuration.
fn is_self_contained(row: &Row) -> bool {
    row.unit_test_only.is_none() && row.facts == RowFacts::default()
}

fn api(ns: &Namespace, kind: &str) -> Api<DynamicObject> {
    let client = ns.client.clone();
    match kind {
        "set" => Api::namespaced_with(client, &ns.name, &ApiResource::erase::<PodCliqueSet>(&())),
        "topology" => Api::all_with(client, &ApiResource::erase::<ClusterTopology>(&())),
        _ => Api::all_with(client, &ApiResource::erase::<ClusterTopologyBinding>(&())),
    }
}

fn dynamic(mut object: Value, ns: &Namespace, kind: &str) -> DynamicObject {
    let metadata = object["metadata"].as_object_mut().expect("metadata");
    metadata.remove("namespace");
    if kind == "set" {
        metadata.insert("namespace".to_owned(), json!(ns.name));
    }
    serde_json::from_value(object).expect("an object")
}

/// The message of the API server.
fn api_message(error: kube::Error) -> String {
    if let kube::Error::Api(status) = error { status.message } else { panic!("no response of the API server: {error}") }
}

/// The message of a rejected dry-run create of the row's object; `None` if the API server accepts it.
async fn create_error(ns: &Namespace, row: &Row, object: Value) -> Option<String> {
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let object = dynamic(object, ns, &row.object);
    let created = api(ns, &row.object).create(&params, &object).await;
    created.err().map(api_message)
}

/// The result of a dry-run update of the row's old object to its new one. `None` if the old object cannot be stored.
async fn update_result(
    ns: &Namespace,
    row: &Row,
    (old, new): (Value, Value),
    name: &str,
) -> Option<Result<(), String>> {
    let api = api(ns, &row.object);
    let mut old = old;
    old["metadata"]["name"] = json!(name);
    if row.object == "set" {
        // Grove creates no objects for it.
        old["spec"]["replicas"] = json!(0);
    }
    api.create(&PostParams::default(), &dynamic(old, ns, &row.object)).await.ok()?;
    let or_empty = |field: &str| new["metadata"].get(field).cloned().unwrap_or_else(|| json!({}));
    let operations = json!([
        { "op": "replace", "path": "/spec", "value": new["spec"] },
        { "op": "add", "path": "/metadata/labels", "value": or_empty("labels") },
        { "op": "add", "path": "/metadata/annotations", "value": or_empty("annotations") },
    ]);
    let patch: json_patch::Patch = serde_json::from_value(operations).expect("a patch");
    let params = PatchParams { dry_run: true, ..PatchParams::default() };
    let result = api.patch(name, &params, &Patch::Json::<()>(patch)).await.map(drop).map_err(api_message);
    api.delete(name, &DeleteParams::background()).await.expect("the object is deleted");
    Some(result)
}

/// The results of a row: of its create and its update, as far as it covers them. `prepare` changes the new object.
async fn results(ns: &Namespace, at: usize, row: &Row, prepare: impl Fn(Value) -> Value) -> Vec<Option<String>> {
    let mut results = vec![];
    if row.operations != Operations::Update {
        results.push(create_error(ns, row, prepare(row.new_object())).await);
    }
    // Other rows cover immutable fields.
    if row.operations != Operations::Create && row.errors_on_update.is_empty() {
        let objects = (row.old_object(), prepare(row.new_object()));
        let result = update_result(ns, row, objects, &format!("{}-{at}", ns.name)).await;
        results.extend(result.map(Result::err));
    }
    results
}

/// The results of all rows. The rows are independent, so several run at the same time.
async fn results_of_all<'r>(
    ns: &Namespace,
    rows: &[&'r Row],
    prepare: impl Fn(Value) -> Value + Copy,
) -> Vec<(&'r Row, Vec<Option<String>>)> {
    let running = stream::iter(rows.iter().copied().enumerate());
    let running = running.map(async |(at, row)| (row, results(ns, at, row, prepare).await));
    running.buffered(CONCURRENCY).collect().await
}

/// The difference between the result of a row and the CRD error that the row names.
fn crd_mismatch(row: &Row, result: Option<String>) -> Option<String> {
    // A denial by a webhook, or a conflict with an object of another test, shows that the CRD accepted the object.
    let is_accepted = |text: &String| text.contains("denied the request") || text.ends_with("already exists");
    let rejection = result.filter(|text| !is_accepted(text));
    let text = rejection.clone().unwrap_or_default();
    let is_expected =
        rejection.is_some() != row.crd_errors.is_empty() && row.crd_errors.iter().all(|part| text.contains(part));
    (!is_expected).then(|| format!("{}: {text}\n  expected: {:?}", row.title(), row.crd_errors))
}

#[tokio::test]
async fn crds_alone_answer_as_the_rows_expect() {
    in_namespace("e2e-crd-rows", async |ns| {
        let rows: Vec<&Row> = rows().iter().filter(|row| row.unit_test_only.is_none()).collect();
        let all = results_of_all(ns, &rows, |object| object).await;
        let results = all.into_iter().flat_map(|(row, results)| results.into_iter().map(move |result| (row, result)));
        let mismatches: Vec<_> = results.filter_map(|(row, result)| crd_mismatch(row, result)).collect();
        assert!(mismatches.is_empty(), "{} mismatches:\n{}", mismatches.len(), mismatches.join("\n"));
    })
    .await;
}

fn labelled(mut object: Value) -> Value {
    object["metadata"]["labels"][POLICY_LABEL.0] = json!(POLICY_LABEL.1);
    object
}

/// The rule by which the policy denied a request, if it did.
fn denying_rule(result: Option<&str>) -> Option<&str> {
    let (_, denial) = result?.split_once(DENIED)?;
    Some(denial.split_once(": ")?.0)
}

/// The difference between the result of a row under the policy and the rule of the row.
fn policy_mismatch(row: &Row, result: Option<&str>, covered: &BTreeSet<&str>) -> Option<String> {
    let denied_by = denying_rule(result);
    let is_covered = row.crd_errors.is_empty() && covered.contains(row.rule.as_str());
    let is_right = match denied_by {
        Some(rule) => !row.errors.is_empty() && covered.contains(rule),
        None => row.errors.is_empty() || !is_covered,
    };
    (!is_right).then(|| format!("{}: {result:?}", row.title()))
}

#[tokio::test]
async fn the_admission_policy_denies_by_each_rule_that_it_covers() {
    in_namespace("e2e-policy", async |ns| {
        let policy = Policy::install(&ns.client, Some(POLICY_LABEL)).await;
        let covered = policy.covered();
        let rows: Vec<&Row> = rows().iter().filter(|row| is_self_contained(row) && row.object == "set").collect();
        let first = rows.iter().find(|row| row.rule == "clique-role" && !row.errors.is_empty()).expect("a row");
        // The API server enforces a policy a moment after it is stored.
        let enforced = async {
            while create_error(ns, first, labelled(first.new_object()))
                .await
                .is_none_or(|text| !text.contains("Policy"))
            {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(TIMEOUT, enforced).await.expect("the API server enforces the policy");
        let (mut mismatches, mut seen) = (vec![], BTreeSet::new());
        for (row, results) in results_of_all(ns, &rows, labelled).await {
            for result in results {
                seen.extend(denying_rule(result.as_deref()).and_then(|rule| covered.get(rule)));
                mismatches.extend(policy_mismatch(row, result.as_deref(), &covered));
            }
        }
        assert!(mismatches.is_empty(), "{} mismatches:\n{}", mismatches.len(), mismatches.join("\n"));
        assert_eq!(seen, covered, "each covered rule denied a request");
        policy.remove().await;
    })
    .await;
}
