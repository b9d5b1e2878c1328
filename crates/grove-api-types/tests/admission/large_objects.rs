//! Objects of the largest size that an API server accepts, each with an expensive input for one rule. The CPU time of the validation
//! must not grow faster than the object.

use std::hint::black_box;
use std::time::Duration;

use grove_api_types::admission::{default_pod_clique_set, validate_create, validate_update};
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_test_support::rows::{RowFacts, object};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use super::facts::set_facts;

/// About the largest object that etcd stores.
pub(crate) const LARGEST: usize = 1_500_000;
/// The sizes in normal test runs: the second one is four times the first one.
const SIZES: [usize; 2] = [LARGEST / 40, LARGEST / 10];
/// The CPU time for the larger one, relative to the smaller one, is about 4 for linear and 16 for quadratic work.
const MAX_GROWTH: f64 = 10.0;
/// Shorter times than this one are noise.
const SHORTEST: Duration = Duration::from_millis(2);

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

/// The CPU time of this thread. It does not depend on other processes.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("a positive time")
}

/// The CPU time of the defaulting, and of the validation of the create and the update.
pub(crate) fn review_time((new, old): &(String, String)) -> Duration {
    let facts = set_facts(&RowFacts::default());
    let started = cpu_time();
    let read = |bytes: &str| serde_json::from_str::<Value>(bytes).expect("JSON");
    let (new, old) = (read(new), read(old));
    drop(black_box(default_pod_clique_set(&new, Some(&old), &facts)));
    let typed = |object: Value| serde_json::from_value::<PodCliqueSet>(object).expect("a set");
    let (new, old) = (typed(new), typed(old));
    black_box(validate_update(&new, &old, &facts).message());
    black_box(validate_create(&new, &facts).message());
    cpu_time().saturating_sub(started)
}

/// The CPU time of `work` for the larger size, relative to the smaller one.
fn growth(work: impl Fn(usize) -> Duration) -> f64 {
    let [small, large] = SIZES.map(|size| work(size).max(SHORTEST).as_secs_f64());
    large / small
}

#[test]
fn the_time_of_the_validation_grows_no_faster_than_the_object() {
    for (name, generate) in ALL {
        let growth = growth(|size| {
            let request = request(generate(size));
            assert!(request.0.len() > size * 2 / 3, "{name}: {} bytes", request.0.len());
            review_time(&request)
        });
        assert!(growth < MAX_GROWTH, "{name}: {growth} times the time");
    }
}

#[test]
fn quadratic_work_grows_too_fast() {
    let quadratic = |size: usize| {
        let started = cpu_time();
        let pairs = (0..size / 16).flat_map(|first| (0..size / 16).map(move |second| first ^ second));
        black_box(pairs.fold(0, usize::wrapping_add));
        cpu_time().saturating_sub(started)
    };
    assert!(growth(quadratic) > MAX_GROWTH);
}
