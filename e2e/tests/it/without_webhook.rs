//! What is refused although no webhook is asked: by the definitions, and by the admission policy where it is installed.
//! Both are tried with the rows of admission, created and changed, and neither refuses what the rules let pass.

use std::collections::BTreeSet;

use e2e::{Namespace, in_namespace, world::LIMIT};
use grove_api_types::v1alpha1::{ClusterTopology, ClusterTopologyBinding, PodCliqueSet};
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::policy::{DENIED, Policy};
use grove_test_support::rows::{Known, On, Row, rows};

/// Objects with this label are what the policy is bound to here, so that other tests do not meet it.
const JUDGED: (&str, &str) = ("e2e.grove.io/judged-by", "policy");

/// Rows that do not depend on what is stored elsewhere or configured.
fn is_anywhere(row: &Row) -> bool {
    row.only_here.is_none() && row.facts == Known::default()
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

/// The server's own words.
fn words(error: kube::Error) -> String {
    if let kube::Error::Api(status) = error { status.message } else { panic!("the server answers: {error}") }
}

/// What the server says of the row's object when it is created; nothing is stored.
async fn created(ns: &Namespace, row: &Row, object: Value) -> Option<String> {
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let object = dynamic(object, ns, &row.object);
    let answer = api(ns, &row.object).create(&params, &object).await;
    answer.err().map(words)
}

/// What the server says when the row's object before becomes the one after. `None` if the former cannot be stored.
async fn changed(ns: &Namespace, row: &Row, (old, new): (Value, Value), name: &str) -> Option<Result<(), String>> {
    let api = api(ns, &row.object);
    let mut old = old;
    old["metadata"]["name"] = json!(name);
    if row.object == "set" {
        // Nothing is made from it.
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
    let answer = api.patch(name, &params, &Patch::Json::<()>(patch)).await.map(drop).map_err(words);
    api.delete(name, &DeleteParams::background()).await.expect("the object is deleted");
    Some(answer)
}

/// The answers to a row, created and changed as it says.
async fn answers(ns: &Namespace, at: usize, row: &Row, judged: impl Fn(Value) -> Value) -> Vec<Option<String>> {
    let mut answers = vec![];
    if row.on != On::Update {
        answers.push(created(ns, row, judged(row.new_object())).await);
    }
    // What may not change is other rows' concern.
    if row.on != On::Create && row.also_on_update.is_empty() {
        let objects = (row.old_object(), judged(row.new_object()));
        let answer = changed(ns, row, objects, &format!("{}-{at}", ns.name)).await;
        answers.extend(answer.map(Result::err));
    }
    answers
}

/// What a definition answers to a row, where that is not what the row says.
fn misjudged(row: &Row, answer: Option<String>) -> Option<String> {
    // What a webhook refuses, or what is there because of another test, the definition has let pass.
    let passed = |words: &String| words.contains("denied the request") || words.ends_with("already exists");
    let refusal = answer.filter(|words| !passed(words));
    let words = refusal.clone().unwrap_or_default();
    let is_said =
        refusal.is_some() != row.definition.is_empty() && row.definition.iter().all(|part| words.contains(part));
    (!is_said).then(|| format!("{}: {words}\n  expected: {:?}", row.title(), row.definition))
}

#[tokio::test]
async fn crds_alone_answer_as_the_rows_expect() {
    in_namespace("e2e-defined", async |ns| {
        let mut wrong = vec![];
        for (at, row) in rows().iter().enumerate().filter(|(_, row)| row.only_here.is_none()) {
            let answers = answers(ns, at, row, |object| object).await;
            wrong.extend(answers.into_iter().filter_map(|answer| misjudged(row, answer)));
        }
        assert!(wrong.is_empty(), "{} of them:\n{}", wrong.len(), wrong.join("\n"));
    })
    .await;
}

fn judged(mut object: Value) -> Value {
    object["metadata"]["labels"][JUDGED.0] = json!(JUDGED.1);
    object
}

/// The rule by which the policy refuses, if it does.
fn by_policy(answer: Option<&str>) -> Option<&str> {
    let (_, said) = answer?.split_once(DENIED)?;
    Some(said.split_once(": ")?.0)
}

/// What the policy answers to a row, where that is not what the row says.
fn misruled(row: &Row, answer: Option<&str>, covered: &BTreeSet<&str>) -> Option<String> {
    let by = by_policy(answer);
    let is_policys = row.definition.is_empty() && covered.contains(row.rule.as_str());
    let is_right = match by {
        Some(rule) => !row.refused.is_empty() && covered.contains(rule),
        None => row.refused.is_empty() || !is_policys,
    };
    (!is_right).then(|| format!("{}: {answer:?}", row.title()))
}

#[tokio::test]
async fn the_admission_policy_denies_by_each_rule_that_it_covers() {
    in_namespace("e2e-policy", async |ns| {
        let policy = Policy::install(&ns.client, Some(JUDGED)).await;
        let covered = policy.covered();
        let rows: Vec<&Row> = rows().iter().filter(|row| is_anywhere(row) && row.object == "set").collect();
        let first = rows.iter().find(|row| row.rule == "clique-role" && !row.refused.is_empty()).expect("a row");
        // The server hears of a policy a moment after it was stored.
        let heard = async {
            while created(ns, first, judged(first.new_object())).await.is_none_or(|words| !words.contains("Policy")) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LIMIT, heard).await.expect("the server has heard of the policy");
        let (mut wrong, mut seen) = (vec![], BTreeSet::new());
        for (at, row) in rows.iter().enumerate() {
            for answer in answers(ns, at, row, judged).await {
                seen.extend(by_policy(answer.as_deref()).and_then(|said| covered.get(said)));
                wrong.extend(misruled(row, answer.as_deref(), &covered));
            }
        }
        assert!(wrong.is_empty(), "{} of them:\n{}", wrong.len(), wrong.join("\n"));
        assert_eq!(seen, covered, "each of them is seen to refuse");
        policy.remove().await;
    })
    .await;
}
