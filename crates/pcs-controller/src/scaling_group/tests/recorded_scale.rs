//! The scale of deleted cliques of a group.

use grove_api_types::labels::SCALE;
use grove_api_types::v1alpha1::PodClique;
use grove_controller::plan::{Create, Patch, PatchBody, Step};
use kube::ResourceExt;

use super::{change, executed, new, plan, resized};
use crate::scaling_group::observed::Observed;

const RECORD: &str = r#"{"v":1,"cliques":{"m-0-g-1-d":{"replicas":5,"template":3}}}"#;
const LATER: &str = r#"{"v":2,"cliques":{"m-0-g-1-d":{"replicas":5,"template":3}}}"#;

/// The group after a client has scaled a clique of its second replica.
fn scaled() -> Observed {
    let mut observed = executed(new(2));
    scale(&mut observed, 5);
    assert_eq!(record(&mut observed).as_deref(), Some(RECORD));
    observed
}

fn scale(observed: &mut Observed, replicas: i32) {
    change(observed, "m-0-g-1-d", |clique| clique.spec.replicas = replicas);
}

/// Executes the patch of the group, and returns its record.
fn record(observed: &mut Observed) -> Option<String> {
    let plan = plan(observed);
    let patches = plan.steps().filter_map(|step| match step {
        Step::Patch(Patch { target, change: PatchBody::Merge(change) }) if target.name == "m-0-g" => {
            Some(change.value())
        }
        Step::Create(_) | Step::Patch(_) | Step::Delete(_) | Step::Adopt(_) => None,
    });
    if let Some(patch) = patches.last() {
        with_record(observed, patch["metadata"]["annotations"][SCALE].as_str());
    }
    observed.group.annotations().get(SCALE).cloned()
}

fn with_record(observed: &mut Observed, record: Option<&str>) {
    let annotations = observed.group.annotations_mut();
    match record {
        Some(record) => drop(annotations.insert(SCALE.to_owned(), record.to_owned())),
        None => drop(annotations.remove(SCALE)),
    }
    *observed = resized(observed.clone());
}

/// The replicas with which the cliques return, by name.
fn replicas_after_deletion(observed: Observed) -> Vec<(String, i64)> {
    let plan = plan(&without_cliques(observed));
    let created = plan.steps().filter_map(|step| match step {
        Step::Create(Create { target, object }) => {
            Some((target.name.clone(), object.value()["spec"]["replicas"].as_i64()?))
        }
        Step::Patch(_) | Step::Delete(_) | Step::Adopt(_) => None,
    });
    created.collect()
}

fn without_cliques(mut observed: Observed) -> Observed {
    observed.children.by_name_mut::<PodClique>().clear();
    resized(observed)
}

fn of_second_replica(replicas: i64) -> Vec<(String, i64)> {
    let all = [("m-0-g-0-p", 1), ("m-0-g-0-d", 3), ("m-0-g-1-p", 1), ("m-0-g-1-d", replicas)];
    all.map(|(name, replicas)| (name.to_owned(), replicas)).to_vec()
}

#[test]
fn a_deleted_clique_returns_with_its_last_scale() {
    assert_eq!(replicas_after_deletion(scaled()), of_second_replica(5));
    assert_eq!(replicas_after_deletion(executed(new(2))), of_second_replica(3), "the scale of the template");
}

#[test]
fn it_returns_with_the_replicas_of_a_changed_template() {
    let mut observed = scaled();
    observed.set.as_mut().expect("a set").spec.template.cliques[2].spec.replicas = 4;
    assert_eq!(
        record(&mut observed).as_deref().map(|record| record.contains(r#""m-0-g-1-d":{"replicas":5,"template":3}"#)),
        Some(true)
    );
    let returned = replicas_after_deletion(observed);
    assert!(returned.contains(&("m-0-g-1-d".to_owned(), 4)), "{returned:?}");
}

#[test]
fn the_record_follows_the_scale_and_the_replicas_of_the_group() {
    let mut observed = scaled();
    observed.children.by_name_mut::<PodClique>().remove("m-0-g-1-d");
    observed = resized(observed);
    assert_eq!(record(&mut observed).as_deref(), Some(RECORD), "the record of a missing clique stays");
    let mut observed = scaled();
    scale(&mut observed, 3);
    assert_eq!(record(&mut observed), None);
    let mut observed = scaled();
    observed.group.spec.replicas = 1;
    observed = resized(observed);
    assert_eq!(record(&mut observed), None, "the replica of the group is removed");
}

#[test]
fn a_current_record_causes_no_write() {
    let mut observed = scaled();
    assert!(plan(&observed).is_empty());
    with_record(&mut observed, Some(r#"{"cliques": {"m-0-g-1-d": {"replicas": 5, "template": 3}}}"#));
    assert!(plan(&observed).is_empty(), "another text with the same meaning");
}

#[test]
fn a_record_has_a_bounded_number_of_cliques() {
    let mut observed = executed(new(301));
    for replica in 0..301 {
        for clique in ["p", "d"] {
            change(&mut observed, &format!("m-0-g-{replica}-{clique}"), |clique| clique.spec.replicas = 9);
        }
    }
    let record = record(&mut observed).expect("a record");
    assert_eq!(record.matches(r#""replicas":9"#).count(), 500);
    assert!(plan(&observed).is_empty());
}

#[test]
fn a_damaged_record_is_replaced_or_removed() {
    let entry =
        |replicas: i32| format!(r#"{{"v":1,"cliques":{{"m-0-g-1-d":{{"replicas":{replicas},"template":3}}}}}}"#);
    let of_group = r#"{"v":1,"groups":{"m-0-g":{"replicas":9,"template":3}}}"#.to_owned();
    for damaged in ["{".to_owned(), entry(2_000_000_000), entry(-1), of_group] {
        let mut observed = scaled();
        with_record(&mut observed, Some(&damaged));
        assert_eq!(record(&mut observed).as_deref(), Some(RECORD), "{damaged}");
        let mut unscaled = executed(new(2));
        with_record(&mut unscaled, Some(&damaged));
        assert_eq!(record(&mut unscaled), None, "{damaged}");
        with_record(&mut unscaled, Some(&damaged));
        assert_eq!(replicas_after_deletion(unscaled), of_second_replica(3), "{damaged}");
    }
}

#[test]
fn with_a_record_of_a_later_version_no_clique_is_created_and_the_record_stays() {
    let mut observed = scaled();
    with_record(&mut observed, Some(LATER));
    scale(&mut observed, 7);
    assert_eq!(record(&mut observed).as_deref(), Some(LATER));
    observed.children.by_name_mut::<PodClique>().remove("m-0-g-1-d");
    assert_eq!(
        plan(&observed).to_string(),
        "wait: UnreadableAnnotation no PodClique is created, because PodCliqueScalingGroup m-0-g records the replicas of deleted ones: \
         annotation grove.io/scale has version 2, and this pcs-controller reads only version 1; upgrade pcs-controller, or remove the \
         annotation, so that the running pcs-controller writes it again\n"
    );
}
