//! Objects of the largest size that an API server accepts, each with an expensive input for one rule. The validation of each must
//! be fast.

use std::hint::black_box;
use std::time::{Duration, Instant};

use grove_api_types::admission::{default_pod_clique_set, validate_create, validate_update};
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_test_support::rows::{RowFacts, object};
use serde_json::{Value, json};

use super::facts::set_facts;

/// About the largest object that etcd stores.
pub(crate) const LARGEST: usize = 1_500_000;
/// The size in normal test runs. An algorithm of quadratic complexity exceeds the deadline with this size too.
const SHORT: usize = LARGEST / 10;
/// Long enough for a slow machine and a build without optimization.
const DEADLINE: Duration = Duration::from_secs(20);

fn clique(name: impl Into<String>, more: Value) -> Value {
    let mut clique = json!({ "name": name.into(), "spec": { "podSpec": {} } });
    merge(&mut clique, more);
    clique
}

fn merge(at: &mut Value, more: Value) {
    match (at, more) {
        (Value::Object(at), Value::Object(more)) => {
            for (key, value) in more {
                merge(at.entry(key).or_insert(Value::Null), value);
            }
        }
        (at, more) => *at = more,
    }
}

/// Items with this total size.
fn fill(bytes: usize, item: impl Fn(usize) -> Value) -> Value {
    let (mut items, mut size) = (vec![], 0);
    while size < bytes {
        let item = item(items.len());
        size += item.to_string().len() + 1;
        items.push(item);
    }
    items.into()
}

fn set(template: Value) -> Value {
    let mut set = object("set");
    set["spec"]["template"] = template;
    set
}

fn claims(size: usize) -> Value {
    let own = json!([{ "name": "serve-all-gpus" }, { "name": "serve-all-a-b-c-d-e-f-g-h" }]);
    let with_claims = json!({ "spec": { "podSpec": { "resourceClaims": own } } });
    let cliques = fill(size / 3, |at| clique(format!("c{at}"), with_claims.clone()));
    let names = fill(size / 3, |at| format!("c{at}x").into());
    let shares = fill(size / 3, |_| json!({ "name": "gpus", "scope": "AllReplicas" }));
    let mut shares: Vec<Value> = shares.as_array().cloned().unwrap_or_default();
    shares.insert(0, json!({ "name": "gpus", "scope": "AllReplicas", "filter": { "childCliqueNames": names } }));
    set(json!({ "cliques": cliques, "resourceSharing": shares }))
}

fn filters(size: usize) -> Value {
    let cliques = fill(size / 2, |at| clique(format!("c{at}"), json!({})));
    let shares = fill(size / 2, |at| {
        let filter = json!({ "childCliqueNames": ["c1"], "childScalingGroupNames": ["g"] });
        json!({ "name": format!("t{at}"), "scope": "PerReplica", "filter": filter })
    });
    let all: Vec<Value> = cliques.as_array().into_iter().flatten().map(|clique| clique["name"].clone()).collect();
    let groups = json!([{ "name": "g", "cliqueNames": all }]);
    set(json!({ "cliques": cliques, "resourceSharing": shares, "podCliqueScalingGroups": groups }))
}

fn members(size: usize) -> Value {
    let constraint = json!({ "topologyConstraint": { "packDomain": "zone" } });
    let cliques = fill(size / 2, |at| clique(format!("c{at}"), constraint.clone()));
    let count = cliques.as_array().map_or(0, Vec::len);
    let groups = fill(size / 2, |at| {
        let names = [0, 1, 2].map(|by| format!("c{}", (at + by) % count));
        json!({ "name": format!("g{at}"), "cliqueNames": names, "topologyConstraint": { "packDomain": "host" } })
    });
    set(json!({ "cliques": cliques, "podCliqueScalingGroups": groups }))
}

fn one_group(size: usize) -> Value {
    let cliques = json!([clique("a", json!({}))]);
    set(
        json!({ "cliques": cliques, "podCliqueScalingGroups": [{ "name": "g", "cliqueNames": fill(size, |_| "a".into()) }] }),
    )
}

fn long_names(size: usize) -> Value {
    let env = fill(size / 2, |_| json!({ "name": "1" }));
    let pod = json!({ "containers": [{ "name": "x".repeat(1000), "env": env }] });
    set(json!({ "cliques": [clique("y".repeat(size / 2), json!({ "spec": { "podSpec": pod } }))] }))
}

fn long_group(size: usize) -> Value {
    let cliques = fill(size / 3, |at| clique(format!("c{at}"), json!({})));
    let all: Vec<Value> = cliques.as_array().into_iter().flatten().map(|clique| clique["name"].clone()).collect();
    set(json!({ "cliques": cliques, "podCliqueScalingGroups": [{ "name": "g".repeat(size / 2), "cliqueNames": all }] }))
}

fn hyphens(size: usize) -> Value {
    let cliques = json!([clique("-1".repeat(size / 4), json!({})), clique("c", json!({}))]);
    set(
        json!({ "cliques": cliques, "podCliqueScalingGroups": [{ "name": "-1".repeat(size / 4), "cliqueNames": ["c"] }] }),
    )
}

fn startup(size: usize) -> Value {
    let cliques = fill(size, |at| {
        let parents: Vec<_> = (1..20).map(|by| format!("c{}", at + by)).collect();
        clique(format!("c{at}"), json!({ "spec": { "startsAfter": parents } }))
    });
    set(json!({ "cliques": cliques, "cliqueStartupType": "CliqueStartupTypeExplicit" }))
}

fn cliques(size: usize) -> Value {
    let mut set = set(json!({ "cliques": fill(size, |at| clique(format!("c{at}"), json!({}))) }));
    set["spec"]["template"]["cliqueStartupType"] = json!("CliqueStartupTypeInOrder");
    set
}

fn labels(size: usize) -> Value {
    let labels: Value =
        (0..size / 20).map(|at| (format!("grove.io/{at} b"), json!("/"))).collect::<serde_json::Map<_, _>>().into();
    set(json!({ "cliques": [clique("a", json!({ "labels": labels, "annotations": labels }))] }))
}

fn templates(size: usize) -> Value {
    let template = |at: usize| json!({ "name": format!("t{at}"), "templateSpec": { "spec": {} } });
    let configs = fill(size / 3, |at| json!({ "names": [format!("t{at}"), "t"], "cliqueNames": ["a", "b"] }));
    let group = json!({ "name": "g", "cliqueNames": ["a"], "resourceClaimTemplateConfigs": configs });
    let names = fill(size / 3, |at| format!("t{at}").into());
    let cliques = json!([clique("a", json!({ "resourceClaimTemplateNames": names }))]);
    set(
        json!({ "cliques": cliques, "podCliqueScalingGroups": [group], "resourceClaimTemplates": fill(size / 3, template) }),
    )
}

/// Names of numbers, so that each generated name could belong to many cliques.
fn numbers(size: usize) -> Value {
    let name = |zeros: usize, at: usize| format!("{}{at}", "0-".repeat(zeros));
    let shares = json!([{ "name": "0-t", "scope": "PerReplica" }]);
    let names: Vec<Value> = (0..size / 200).map(|at| name(15 - at % 16, at).into()).collect();
    let cliques: Vec<Value> = names
        .iter()
        .map(|name| json!({ "name": name, "spec": { "podSpec": {} }, "resourceSharing": shares }))
        .collect();
    let groups: Vec<Value> = names
        .iter()
        .enumerate()
        .map(|(at, clique)| json!({ "name": name(at % 16, at), "cliqueNames": [clique], "resourceSharing": shares }))
        .collect();
    set(json!({ "cliques": cliques, "podCliqueScalingGroups": groups }))
}

type Generate = fn(usize) -> Value;

/// The generators of objects, by name. The parameter is the size.
pub(crate) const ALL: [(&str, Generate); 12] = [
    ("claims of pods and shared claims", claims),
    ("shares with filters", filters),
    ("constraints of groups and cliques", members),
    ("one clique many times in a group", one_group),
    ("variables of a clique with a long name", long_names),
    ("cliques of a group with a long name", long_group),
    ("names of hyphens", hyphens),
    ("cliques that wait for one another", startup),
    ("many cliques", cliques),
    ("many labels", labels),
    ("many templates of claims", templates),
    ("names of numbers", numbers),
];

/// The JSON of the object, and of the old object, which has its lists in reverse order.
pub(crate) fn request(mut object: Value) -> (String, String) {
    let new = object.to_string();
    for list in ["cliques", "podCliqueScalingGroups", "resourceSharing"] {
        if let Some(items) = object["spec"]["template"].get_mut(list).and_then(Value::as_array_mut) {
            items.reverse();
        }
    }
    (new, object.to_string())
}

/// The duration of the defaulting, and of the validation of the create and the update.
pub(crate) fn review_duration((new, old): &(String, String)) -> Duration {
    let facts = set_facts(&RowFacts::default());
    let started = Instant::now();
    let read = |bytes: &str| serde_json::from_str::<Value>(bytes).expect("JSON");
    let (new, old) = (read(new), read(old));
    drop(black_box(default_pod_clique_set(&new, Some(&old), &facts)));
    let typed = |object: Value| serde_json::from_value::<PodCliqueSet>(object).expect("a set");
    let (new, old) = (typed(new), typed(old));
    black_box(validate_update(&new, &old, &facts).message());
    black_box(validate_create(&new, &facts).message());
    started.elapsed()
}

#[test]
fn the_validation_of_large_objects_is_fast() {
    for (name, generate) in ALL {
        let request = request(generate(SHORT));
        assert!(request.0.len() > SHORT * 2 / 3, "{name}: {} bytes", request.0.len());
        let duration = review_duration(&request);
        assert!(duration < DEADLINE, "{name}: {duration:?}");
    }
}
