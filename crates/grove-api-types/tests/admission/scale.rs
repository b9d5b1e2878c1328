//! The validation of writes to the scale subresource.

use grove_api_types::admission::{ScaleTarget, ValidationResult, validate_scale};
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_test_support::rows::{RowFacts, ScaleRow, object, scales};
use serde_json::{Value, json};

use super::facts::set_facts;

fn validate(row: &ScaleRow) -> ValidationResult {
    let facts = set_facts(&RowFacts::default());
    let set: PodCliqueSet = serde_json::from_value(row.set_object()).expect("a set");
    let metadata = json!({ "name": row.name.as_deref().unwrap_or("serve-0-model"), "namespace": "team" });
    let object = |spec: Value| json!({ "metadata": metadata, "spec": spec });
    match row.target.as_str() {
        "set" => validate_scale(ScaleTarget::Set(&set), row.to, &facts),
        "group" => {
            let cliques = [row.clique.as_deref().unwrap_or("worker")];
            let spec = json!({ "replicas": row.from, "minAvailable": row.min_available, "cliqueNames": cliques });
            let group: PodCliqueScalingGroup = serde_json::from_value(object(spec)).expect("a group");
            validate_scale(ScaleTarget::Group(&group, Some(&set)), row.to, &facts)
        }
        "clique" => {
            let spec = json!({ "replicas": row.from, "minAvailable": row.min_available, "podSpec": {} });
            let clique: PodClique = serde_json::from_value(object(spec)).expect("a clique");
            validate_scale(ScaleTarget::Clique(&clique, Some(&set), 0), row.to, &facts)
        }
        other => panic!("unknown target: {other}"),
    }
}

#[test]
fn each_row_has_the_expected_result() {
    let mut wrong = vec![];
    for row in scales() {
        let ValidationResult { violations, warnings, .. } = validate(&row);
        let errors: Vec<_> = violations.iter().map(ToString::to_string).collect();
        if (&errors, &warnings) != (&row.errors, &row.warnings) {
            let (errors, warnings) = (json!(errors), json!(warnings));
            wrong.push(format!("scale: {} {}\n  errors: {errors}\n  warnings: {warnings}\n", row.target, row.case));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.concat());
}

#[test]
fn a_group_is_not_scaled_above_the_object_limit_of_its_set() {
    let set: PodCliqueSet = serde_json::from_value(object("set")).expect("a set");
    let metadata = json!({ "name": "serve-1-model", "namespace": "team" });
    let group = |from: i32| -> PodCliqueScalingGroup {
        let spec = json!({ "replicas": from, "minAvailable": 1, "cliqueNames": ["leader", "worker"] });
        serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).expect("a group")
    };
    let validate =
        |from, to| validate_scale(ScaleTarget::Group(&group(from), Some(&set)), to, &set_facts(&RowFacts::default()));
    assert_eq!(
        validate(2, 20_000).message().as_deref(),
        Some(
            "spec.replicas: Invalid value: 20000: the set would expand to 160030 objects, pods included, and a set may \
             have at most 100000; lower the replicas of the set, of its scaling groups or of its cliques, or split the set"
        )
    );
    assert!(validate(2, 12_000).is_accepted());
    assert!(validate(30_000, 20_000).is_accepted(), "a group above the limit can be scaled down");
}

#[test]
fn a_group_is_not_scaled_above_the_limit_of_startup_dependencies() {
    let name = |index: i32| format!("c-{index}");
    let clique = |index: i32| {
        let starts_after: Vec<_> = (0..index).map(name).collect();
        let spec = json!({ "replicas": 1, "minAvailable": 1, "startsAfter": starts_after, "podSpec": {} });
        json!({ "name": name(index), "spec": spec })
    };
    let names: Vec<_> = (0..100).map(name).collect();
    let group = json!({ "name": "model", "cliqueNames": names, "replicas": 1, "minAvailable": 1 });
    let mut set = object("set");
    let template = &mut set["spec"]["template"];
    template["cliqueStartupType"] = json!("CliqueStartupTypeExplicit");
    template["cliques"] = json!((0..100).map(clique).collect::<Vec<_>>());
    template["podCliqueScalingGroups"] = json!([group]);
    let set: PodCliqueSet = serde_json::from_value(set).expect("a set");
    let metadata = json!({ "name": "serve-0-model", "namespace": "team" });
    let spec = json!({ "replicas": 1, "minAvailable": 1, "cliqueNames": names });
    let group = serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).expect("a group");
    let message =
        |to| validate_scale(ScaleTarget::Group(&group, Some(&set)), to, &set_facts(&RowFacts::default())).message();
    // Each replica of the group has 4950 dependencies. The group of the other replica of the set has one replica.
    assert_eq!(message(100), None);
    assert_eq!(
        message(101).as_deref(),
        Some(
            "spec.replicas: Invalid value: 101: the PodCliques of the set would have 504900 startup dependencies, and those of a set \
             may have at most 500000; lower the replicas of the set, or the replicas or minAvailable of its scaling groups, or split \
             the set"
        )
    );
}

#[test]
fn a_clique_is_matched_with_its_template_by_its_whole_name() {
    let mut set = object("set");
    let other = json!({ "name": "0-worker", "spec": { "replicas": 3_000, "minAvailable": 1, "podSpec": {} } });
    set["spec"]["template"]["cliques"].as_array_mut().expect("cliques").push(other);
    let set: PodCliqueSet = serde_json::from_value(set).expect("a set");
    let is_accepted = |name: &str, to| {
        let spec = json!({ "replicas": 4, "minAvailable": 1, "podSpec": {} });
        let clique: PodClique =
            serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec })).expect("a clique");
        validate_scale(ScaleTarget::Clique(&clique, Some(&set), 0), to, &set_facts(&RowFacts::default())).is_accepted()
    };
    assert!(is_accepted("serve-0-0-worker", 7_000), "the template has 3,000 replicas");
    assert!(!is_accepted("serve-0-model-0-worker", 7_000), "the gang has 3,000 other pods");
    assert!(is_accepted("other-0-worker", 7_000), "the clique belongs to another set");
}

#[test]
fn a_scale_of_a_clique_counts_the_existing_cliques_of_its_gang() {
    let set: PodCliqueSet = serde_json::from_value(object("set")).expect("a set");
    let spec = json!({ "replicas": 2, "minAvailable": 1, "podSpec": {} });
    let clique: PodClique =
        serde_json::from_value(json!({ "metadata": { "name": "serve-0-front" }, "spec": spec })).expect("a clique");
    let message = |set: Option<&PodCliqueSet>, others, to| {
        validate_scale(ScaleTarget::Clique(&clique, set, others), to, &set_facts(&RowFacts::default())).message()
    };
    assert_eq!(message(Some(&set), 5_000, 2_999), None, "the clique has 2,999 pods and one pod group");
    let expected = "a gang of the set would have 8001 pods and PodCliques";
    for set in [Some(&set), None] {
        assert!(message(set, 5_000, 3_000).is_some_and(|text| text.contains(expected)), "{set:?}");
    }
    assert!(message(Some(&set), 9, 7_991).is_some_and(|text| text.contains(expected)), "by the template");
    assert_eq!(message(Some(&set), 9_000, 1), None, "a clique of a gang above the limit can be scaled down");
}

#[test]
fn a_clique_of_a_gang_above_the_limit_is_scaled_back_to_its_template() {
    let mut set = object("set");
    let group = &mut set["spec"]["template"]["podCliqueScalingGroups"][0];
    (group["replicas"], group["minAvailable"]) = (json!(1_143), json!(1_143));
    let set: PodCliqueSet = serde_json::from_value(set).expect("a set");
    let spec = json!({ "replicas": 0, "minAvailable": 1, "podSpec": {} });
    let clique: PodClique =
        serde_json::from_value(json!({ "metadata": { "name": "serve-0-front" }, "spec": spec })).expect("a clique");
    let is_accepted = |set: Option<&PodCliqueSet>, others, to| {
        validate_scale(ScaleTarget::Clique(&clique, set, others), to, &set_facts(&RowFacts::default())).is_accepted()
    };
    // The other cliques of the template: 2 for the standalone one, and 7 for each replica of the group.
    let others = 2 + 7 * 1_143;
    assert!(is_accepted(Some(&set), others, 2), "8,006 pods and PodCliques, as in the template");
    assert!(!is_accepted(Some(&set), others, 3), "one pod more than in the template");
    assert!(!is_accepted(Some(&set), others + 1, 2), "another clique has more pods than in the template");
    assert!(is_accepted(None, 7_997, 2) && !is_accepted(None, 7_998, 2), "without the set, the limit is 8,000");
}

/// A CRD without rules accepts negative replicas.
#[test]
fn negative_replicas_can_become_0_with_any_name() {
    let metadata = json!({ "name": "x".repeat(63), "namespace": "team" });
    let spec = json!({ "replicas": -1, "minAvailable": 1, "cliqueNames": ["worker"], "podSpec": {} });
    let stored = json!({ "metadata": metadata, "spec": spec });
    let group: PodCliqueScalingGroup = serde_json::from_value(stored.clone()).expect("a group");
    let clique: PodClique = serde_json::from_value(stored).expect("a clique");
    for stored in [ScaleTarget::Group(&group, None), ScaleTarget::Clique(&clique, None, 0)] {
        let validate = |to| validate_scale(stored, to, &set_facts(&RowFacts::default()));
        assert_eq!(validate(0).message(), None, "{stored:?}");
        assert!(validate(1).message().is_some_and(|text| text.contains("the last pod would have")), "{stored:?}");
    }
}
