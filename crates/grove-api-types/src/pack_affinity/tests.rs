//! Rows: the constraints of a gang, and how they are expressed with and without a key in the `PodGroup`.

use std::fmt::Write;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;
use crate::labels;

/// A gang with the replicas `g-0` and `g-1` of a scaling group, each with the cliques `p` and `d`, and with the standalone clique `s`.
/// A constraint is `required/preferred`.
fn gang(of_gang: &str, of_replicas: &str, of_p: &str, of_s: &str) -> PodGangSpec {
    let groups = [("s", of_s), ("g-0-p", of_p), ("g-0-d", ""), ("g-1-p", of_p), ("g-1-d", "")];
    let config = |name: &str| {
        let members = [format!("{name}-p"), format!("{name}-d")];
        json!({ "name": name, "podGroupNames": members, "topologyConstraint": constraint(of_replicas) })
    };
    let configs = if of_replicas.is_empty() { vec![] } else { vec![config("g-0"), config("g-1")] };
    spec(of_gang, &groups, &configs)
}

fn spec(of_gang: &str, groups: &[(&str, &str)], configs: &[Value]) -> PodGangSpec {
    let group = |(name, of_group): &(&str, &str)| json!({ "name": name, "podReferences": [], "minReplicas": 1, "topologyConstraint": constraint(of_group) });
    let groups: Vec<Value> = groups.iter().map(group).collect();
    let spec = json!({ "podgroups": groups, "topologyConstraint": constraint(of_gang),
        "topologyConstraintGroupConfigs": configs });
    serde_json::from_value(spec).expect("a spec")
}

fn constraint(text: &str) -> Value {
    let Some((required, preferred)) = text.split_once('/') else { return Value::Null };
    let key = |key: &str| Some(key.to_owned()).filter(|key| !key.is_empty());
    json!({ "packConstraint": { "required": key(required), "preferred": key(preferred) } })
}

fn depth(key: &str) -> Option<usize> {
    ["zone", "block", "rack", "host"].iter().position(|level| *level == key)
}

fn scope(scope: Scope) -> String {
    format!("{scope:?}").to_lowercase()
}

fn text(affinity: &PackAffinity) -> String {
    let required = affinity.required.iter().map(|one| format!("{} {}", scope(one.scope), one.keys.join("+")));
    let preferred = affinity.preferred.iter().map(|one| format!("({} {})", scope(one.scope), one.key));
    required.chain(preferred).collect::<Vec<_>>().join(" ")
}

/// The key, and the affinity of each clique with it and without it.
#[track_caller]
fn check(gang: &PodGangSpec, expected: &Expect) {
    let packing = GangPacking::of(gang);
    let key = packing.key(depth);
    let mut lines = format!("key: {}{}\n", key.unwrap_or("-"), if packing.relies_on_key() { " (needed)" } else { "" });
    for group in &gang.podgroups {
        let [with, without] = [true, false].map(|has_key| text(&packing.affinity(&group.name, has_key)));
        let other = if with == without { String::new() } else { format!("; without key: {without}") };
        writeln!(lines, "{}: {with}{other}", group.name).expect("a string");
    }
    for (key, name) in [(key, "with key"), (None, "without key")] {
        if let Some(text) = packing.description(key) {
            writeln!(lines, "{name}: {text}").expect("a string");
        }
    }
    expected.assert_eq(&lines);
}

#[test]
fn one_scope_is_expressed_by_affinity() {
    check(
        &gang("", "", "", ""),
        &expect![[r"
        key: -
        s: 
        g-0-p: 
        g-0-d: 
        g-1-p: 
        g-1-d: 
    "]],
    );
    check(
        &gang("rack/", "", "", ""),
        &expect![[r"
        key: rack
        s: gang rack
        g-0-p: gang rack
        g-0-d: gang rack
        g-1-p: gang rack
        g-1-d: gang rack
        without key: required pod affinity packs the gang by rack, so the scheduler may not find a placement in a full cluster
    "]],
    );
    check(
        &gang("", "rack/", "", ""),
        &expect![[r"
        key: -
        s: 
        g-0-p: replica rack
        g-0-d: replica rack
        g-1-p: replica rack
        g-1-d: replica rack
        with key: required pod affinity packs g-0 by rack, g-1 by rack, so the scheduler may not find a placement in a full cluster
        without key: required pod affinity packs g-0 by rack, g-1 by rack, so the scheduler may not find a placement in a full cluster
    "]],
    );
    check(
        &gang("", "", "host/", "host/"),
        &expect![[r"
        key: -
        s: clique host
        g-0-p: clique host
        g-0-d: 
        g-1-p: clique host
        g-1-d: 
        with key: required pod affinity packs g-0-p by host, g-1-p by host, s by host, so the scheduler may not find a placement in a full cluster
        without key: required pod affinity packs g-0-p by host, g-1-p by host, s by host, so the scheduler may not find a placement in a full cluster
    "]],
    );
}

#[test]
fn a_key_expresses_the_constraint_of_the_gang_if_there_are_narrower_ones() {
    check(
        &gang("block/", "rack/", "", ""),
        &expect![[r"
        key: block (needed)
        s: ; without key: gang block+rack
        g-0-p: replica rack; without key: gang block+rack
        g-0-d: replica rack; without key: gang block+rack
        g-1-p: replica rack; without key: gang block+rack
        g-1-d: replica rack; without key: gang block+rack
        with key: required pod affinity packs g-0 by rack, g-1 by rack, so the scheduler may not find a placement in a full cluster
        without key: required pod affinity packs the gang by block and rack, so the scheduler may not find a placement in a full cluster; pods are packed more narrowly than their constraints require, because the PodGroup has no topology key; enable the feature gate TopologyAwareWorkloadScheduling of the API server and restart the gang
    "]],
    );
    check(
        &gang("block/", "", "host/", ""),
        &expect![[r"
        key: block (needed)
        s: ; without key: gang block+host
        g-0-p: clique host; without key: gang block+host
        g-0-d: ; without key: gang block+host
        g-1-p: clique host; without key: gang block+host
        g-1-d: ; without key: gang block+host
        with key: required pod affinity packs g-0-p by host, g-1-p by host, so the scheduler may not find a placement in a full cluster
        without key: required pod affinity packs the gang by block and host, so the scheduler may not find a placement in a full cluster; pods are packed more narrowly than their constraints require, because the PodGroup has no topology key; enable the feature gate TopologyAwareWorkloadScheduling of the API server and restart the gang
    "]],
    );
}

#[test]
fn three_scopes_are_packed_more_narrowly() {
    check(
        &gang("block/", "rack/", "host/", "host/"),
        &expect![[r"
        key: rack (needed)
        s: clique host; without key: gang block+rack+host
        g-0-p: clique host; without key: gang block+rack+host
        g-0-d: replica rack; without key: gang block+rack+host
        g-1-p: clique host; without key: gang block+rack+host
        g-1-d: replica rack; without key: gang block+rack+host
        with key: required pod affinity packs g-0 by rack, g-0-p by host, g-1 by rack, g-1-p by host, s by host, so the scheduler may not find a placement in a full cluster; the whole gang is packed by rack, which is stricter than its constraints: the default scheduler cannot pack replicas of scaling groups and PodCliques in them at the same time
        without key: required pod affinity packs the gang by block and rack and host, so the scheduler may not find a placement in a full cluster; pods are packed more narrowly than their constraints require, because the PodGroup has no topology key; enable the feature gate TopologyAwareWorkloadScheduling of the API server and restart the gang
    "]],
    );
    check(
        &gang("", "rack/", "host/", ""),
        &expect![[r"
        key: rack (needed)
        s: 
        g-0-p: clique host; without key: replica rack+host
        g-0-d: replica rack; without key: replica rack+host
        g-1-p: clique host; without key: replica rack+host
        g-1-d: replica rack; without key: replica rack+host
        with key: required pod affinity packs g-0 by rack, g-0-p by host, g-1 by rack, g-1-p by host, so the scheduler may not find a placement in a full cluster; the whole gang is packed by rack, which is stricter than its constraints: the default scheduler cannot pack replicas of scaling groups and PodCliques in them at the same time
        without key: required pod affinity packs g-0 by rack and host, g-1 by rack and host, so the scheduler may not find a placement in a full cluster; pods are packed more narrowly than their constraints require, because the PodGroup has no topology key; enable the feature gate TopologyAwareWorkloadScheduling of the API server and restart the gang
    "]],
    );
}

#[test]
fn a_key_of_a_wider_scope_is_not_repeated() {
    check(
        &gang("rack/", "rack/", "host/", "rack/"),
        &expect![[r"
        key: rack (needed)
        s: ; without key: gang rack+host
        g-0-p: clique host; without key: gang rack+host
        g-0-d: ; without key: gang rack+host
        g-1-p: clique host; without key: gang rack+host
        g-1-d: ; without key: gang rack+host
        with key: required pod affinity packs g-0-p by host, g-1-p by host, so the scheduler may not find a placement in a full cluster
        without key: required pod affinity packs the gang by rack and host, so the scheduler may not find a placement in a full cluster; pods are packed more narrowly than their constraints require, because the PodGroup has no topology key; enable the feature gate TopologyAwareWorkloadScheduling of the API server and restart the gang
    "]],
    );
    check(
        &gang("", "rack/", "rack/", ""),
        &expect![[r"
        key: -
        s: 
        g-0-p: replica rack
        g-0-d: replica rack
        g-1-p: replica rack
        g-1-d: replica rack
        with key: required pod affinity packs g-0 by rack, g-1 by rack, so the scheduler may not find a placement in a full cluster
        without key: required pod affinity packs g-0 by rack, g-1 by rack, so the scheduler may not find a placement in a full cluster
    "]],
    );
}

#[test]
fn preferred_keys_are_expressed_for_each_scope() {
    check(
        &gang("/rack", "/host", "/host", ""),
        &expect![[r"
        key: -
        s: (gang rack)
        g-0-p: (gang rack) (replica host) (clique host)
        g-0-d: (gang rack) (replica host)
        g-1-p: (gang rack) (replica host) (clique host)
        g-1-d: (gang rack) (replica host)
    "]],
    );
    check(
        &gang("rack/host", "rack/host", "host/host", ""),
        &expect![[r"
        key: rack (needed)
        s: (gang host); without key: gang rack+host
        g-0-p: clique host; without key: gang rack+host
        g-0-d: (gang host) (replica host); without key: gang rack+host
        g-1-p: clique host; without key: gang rack+host
        g-1-d: (gang host) (replica host); without key: gang rack+host
        with key: required pod affinity packs g-0-p by host, g-1-p by host, so the scheduler may not find a placement in a full cluster
        without key: required pod affinity packs the gang by rack and host, so the scheduler may not find a placement in a full cluster; pods are packed more narrowly than their constraints require, because the PodGroup has no topology key; enable the feature gate TopologyAwareWorkloadScheduling of the API server and restart the gang
    "]],
    );
}

#[test]
fn a_scope_with_the_pods_of_a_wider_one_counts_as_the_wider_one() {
    let replica =
        || vec![json!({ "name": "g-0", "podGroupNames": ["p", "d"], "topologyConstraint": constraint("rack/") })];
    check(
        &spec("block/", &[("p", "host/"), ("d", "")], &replica()),
        &expect![[r"
        key: rack (needed)
        p: clique host; without key: gang block+rack+host
        d: ; without key: gang block+rack+host
        with key: required pod affinity packs p by host, so the scheduler may not find a placement in a full cluster
        without key: required pod affinity packs the gang by block and rack and host, so the scheduler may not find a placement in a full cluster; pods are packed more narrowly than their constraints require, because the PodGroup has no topology key; enable the feature gate TopologyAwareWorkloadScheduling of the API server and restart the gang
    "]],
    );
    check(
        &spec("block/", &[("p", "host/")], &[]),
        &expect![[r"
        key: host
        p: gang block+host
        without key: required pod affinity packs the gang by block and host, so the scheduler may not find a placement in a full cluster
    "]],
    );
    let single = vec![json!({ "name": "g-0", "podGroupNames": ["p"], "topologyConstraint": constraint("rack/") })];
    check(
        &spec("", &[("p", "host/"), ("s", "host/")], &single),
        &expect![[r"
        key: -
        p: replica rack+host
        s: clique host
        with key: required pod affinity packs g-0 by rack and host, s by host, so the scheduler may not find a placement in a full cluster
        without key: required pod affinity packs g-0 by rack and host, s by host, so the scheduler may not find a placement in a full cluster
    "]],
    );
}

#[test]
fn the_digest_covers_all_constraints() {
    assert_eq!(digest(&gang("", "", "", "")), None);
    let digests = ["rack/", "/rack", "host/"].map(|of_gang| digest(&gang(of_gang, "", "", "")));
    let others = [("rack/", ""), ("", "rack/")].map(|(of_replicas, of_p)| digest(&gang("", of_replicas, of_p, "")));
    let all: BTreeSet<_> = digests.into_iter().chain(others).flatten().collect();
    assert_eq!(all.len(), 5);
}

#[test]
fn the_affinity_of_a_clique_follows_from_its_gang() {
    let spec = gang("block/", "rack/", "", "");
    let affinity = |pod_group: Option<&str>, record: &Value| {
        let mut gang = PodGang::new("llm-0", spec.clone());
        let annotations = pod_group.map(|name| (labels::POD_GROUP.to_owned(), name.to_owned()));
        let record = (labels::POD_GROUP_SPEC.to_owned(), record.to_string());
        gang.metadata.annotations = Some(annotations.into_iter().chain([record]).collect());
        PackAffinity::of_gang(&gang).map(|affinities| affinities?.get("g-0-p").map(text))
    };
    let current = digest(&spec).expect("constraints");
    let (native, record) = (Some("llm-0-1"), |packing: Value| json!({ "minCount": 1, "packing": packing }));
    let (exact, narrower) = (Some("replica rack".to_owned()), Some("gang block+rack".to_owned()));
    assert_eq!(affinity(native, &record(json!({ "key": "block", "constraints": current }))), Ok(exact.clone()));
    assert_eq!(affinity(native, &record(json!({ "constraints": current }))), Ok(narrower));
    assert_eq!(
        affinity(native, &record(json!({ "constraints": "1other" }))),
        Ok(exact.clone()),
        "it waits for a restart"
    );
    assert_eq!(affinity(native, &record(Value::Null)), Ok(exact), "it waits for a restart");
    assert_eq!(affinity(None, &json!({})), Ok(None), "without native gangs");
    for unreadable in [json!({}), json!({ "v": 2, "minCount": 1 })] {
        affinity(native, &unreadable).expect_err("whether the PodGroup has a key is unknown");
    }
}

#[test]
fn an_affinity_round_trips() {
    let affinity = GangPacking::of(&gang("", "rack/host", "", "")).affinity("g-0-p", true);
    let mut clique = PodGang::new("any", PodGangSpec::default());
    clique.annotations_mut().insert(PACK_AFFINITY.to_owned(), affinity.annotation());
    expect![[
        r#"{"v":1,"required":{"scope":"replica","keys":["rack"]},"preferred":[{"scope":"replica","key":"host"}]}"#
    ]]
    .assert_eq(&affinity.annotation());
    assert_eq!(PackAffinity::of_annotation(&clique), Ok(Some(affinity.clone())));
    let of_older_writer = affinity.annotation().replace(r#""v":1,"#, "");
    clique.annotations_mut().insert(PACK_AFFINITY.to_owned(), of_older_writer);
    assert_eq!(PackAffinity::of_annotation(&clique), Ok(Some(affinity)));
    for unreadable in ["", "[", "[]", r#"{"required":{"scope":"rack","keys":[]}}"#, r#"{"v":2}"#] {
        clique.annotations_mut().insert(PACK_AFFINITY.to_owned(), unreadable.to_owned());
        PackAffinity::of_annotation(&clique).expect_err(unreadable);
    }
    clique.annotations_mut().clear();
    assert_eq!(PackAffinity::of_annotation(&clique), Ok(None));
}
