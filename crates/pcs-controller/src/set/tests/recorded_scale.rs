//! The scale of cliques and groups that are deleted.

use grove_api_types::labels::SCALE;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup};
use grove_controller::executor::ExecutionResult;
use grove_controller::plan::{Patch, PatchBody, Step};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::{change, child, executed, expanded, new, plan, status_of};
use crate::set::observed::Observed;
use crate::tests::GROUPED;

const RECORD: &str =
    r#"{"v":1,"cliques":{"m-0-f":{"replicas":4,"template":2}},"groups":{"m-0-g":{"replicas":2,"template":3}}}"#;

/// The set after a client has scaled its standalone clique and its group.
fn scaled() -> Observed {
    let mut observed = executed(new(GROUPED));
    change::<PodClique>(&mut observed, "m-0-f", |clique| clique.spec.replicas = 4);
    change::<PodCliqueScalingGroup>(&mut observed, "m-0-g", |group| group.spec.replicas = 2);
    assert_eq!(record(&mut observed).as_deref(), Some(RECORD));
    observed
}

/// Executes the patch of the base gang, and returns its record.
fn record(observed: &mut Observed) -> Option<String> {
    let plan = plan(observed);
    let patch = plan.steps().find_map(|step| match step {
        Step::Patch(Patch { target, change: PatchBody::Merge(change) }) if target.name == "m-0" => Some(change.value()),
        Step::Create(_) | Step::Patch(_) | Step::Delete(_) | Step::Adopt(_) => None,
    });
    if let Some(patch) = patch {
        let record = patch["metadata"]["annotations"][SCALE].as_str().map(str::to_owned);
        change::<PodGang>(observed, "m-0", |gang| match record {
            Some(record) => drop(gang.annotations_mut().insert(SCALE.to_owned(), record)),
            None => drop(gang.annotations_mut().remove(SCALE)),
        });
    }
    child::<PodGang>(observed, "m-0").annotations().get(SCALE).cloned()
}

/// The replicas with which the deleted clique and group return.
fn replicas_after_deletion(mut observed: Observed) -> (i32, i32) {
    observed.children.by_name_mut::<PodGang>().retain(|name, _| name == "m-0");
    observed.children.by_name_mut::<PodClique>().clear();
    observed.children.by_name_mut::<PodCliqueScalingGroup>().clear();
    let observed = executed(observed);
    let (clique, group) = (child::<PodClique>(&observed, "m-0-f"), child::<PodCliqueScalingGroup>(&observed, "m-0-g"));
    assert_eq!(
        observed.children.of_kind::<PodGang>().count(),
        usize::try_from(group.spec.replicas).expect("a small number"),
        "one base gang of the first replica"
    );
    (clique.spec.replicas, group.spec.replicas)
}

#[test]
fn a_deleted_clique_and_a_deleted_group_return_with_their_last_scale() {
    assert_eq!(replicas_after_deletion(scaled()), (4, 2));
    assert_eq!(replicas_after_deletion(executed(new(GROUPED))), (2, 3), "the scale of the template is not recorded");
}

#[test]
fn they_return_with_the_replicas_of_a_changed_template() {
    let scale_after_change = |mut observed: Observed| {
        observed.set.spec.template.cliques[0].spec.replicas = 3;
        observed.set.spec.template.pod_clique_scaling_groups[0].replicas = Some(5);
        let before = record(&mut observed);
        assert_eq!(record(&mut observed), before, "the entries stay");
        observed.children.by_name_mut::<PodClique>().clear();
        observed.children.by_name_mut::<PodCliqueScalingGroup>().clear();
        let replicas = expanded(&observed).replicas;
        (replicas[0].cliques[0].replicas, replicas[0].groups[0].replica_count)
    };
    assert_eq!(scale_after_change(scaled()), (3, 5), "the clients chose for the former template");
    assert_eq!(
        scale_after_change(executed(new(GROUPED))),
        (2, 3),
        "objects without the scale of the template count as scaled"
    );
}

#[test]
fn the_record_follows_the_scale() {
    let mut observed = scaled();
    change::<PodClique>(&mut observed, "m-0-f", |clique| clique.spec.replicas = 2);
    let record_of_group = r#"{"v":1,"groups":{"m-0-g":{"replicas":2,"template":3}}}"#;
    assert_eq!(record(&mut observed).as_deref(), Some(record_of_group));
    change::<PodCliqueScalingGroup>(&mut observed, "m-0-g", |group| group.spec.replicas = 4);
    let record_of_group = r#"{"v":1,"groups":{"m-0-g":{"replicas":4,"template":3}}}"#;
    assert_eq!(record(&mut observed).as_deref(), Some(record_of_group));
    change::<PodCliqueScalingGroup>(&mut observed, "m-0-g", |group| group.spec.replicas = 3);
    assert_eq!(record(&mut observed), None);
}

#[test]
fn each_replica_of_the_set_has_a_record() {
    let mut observed = executed(new(&GROUPED.replace("replicas: 1\n  template", "replicas: 2\n  template")));
    for (gang, clique, replicas) in [("m-0", "m-0-f", 4), ("m-1", "m-1-f", 7)] {
        let record = format!(r#"{{"v":1,"cliques":{{"{clique}":{{"replicas":{replicas},"template":2}}}}}}"#);
        change::<PodGang>(&mut observed, gang, |gang| drop(gang.annotations_mut().insert(SCALE.to_owned(), record)));
    }
    observed.children.by_name_mut::<PodClique>().clear();
    let replicas = expanded(&observed).replicas.iter().map(|replica| replica.cliques[0].replicas).collect::<Vec<_>>();
    assert_eq!(replicas, [4, 7]);
}

#[test]
fn a_recorded_scale_above_the_limit_of_objects_is_not_expanded() {
    for (kind, name, template) in [("cliques", "m-0-f", 2), ("groups", "m-0-g", 3)] {
        let mut observed = scaled();
        let record = format!(r#"{{"v":1,"{kind}":{{"{name}":{{"replicas":100000,"template":{template}}}}}}}"#);
        change::<PodGang>(&mut observed, "m-0", |gang| drop(gang.annotations_mut().insert(SCALE.to_owned(), record)));
        assert!(observed.exceeded_limit().is_none(), "the {kind} exist with another scale");
        observed.children.by_name_mut::<PodClique>().clear();
        observed.children.by_name_mut::<PodCliqueScalingGroup>().clear();
        assert!(observed.exceeded_limit().is_some(), "{kind}");
    }
}

#[test]
fn a_damaged_record_is_ignored() {
    let entry = |replicas: i32, template: i32| format!(r#"{{"replicas": {replicas}, "template": {template}}}"#);
    let of_clique = |replicas| format!(r#"{{"v": 1, "cliques": {{"m-0-f": {}}}}}"#, entry(replicas, 2));
    let of_group = |replicas| format!(r#"{{"v": 1, "groups": {{"m-0-g": {}}}}}"#, entry(replicas, 3));
    for damaged in ["{".to_owned(), of_clique(2_000_000_000), of_clique(-1), of_group(2_000_000_000), of_group(-1)] {
        let mut observed = scaled();
        change::<PodGang>(&mut observed, "m-0", |gang| {
            drop(gang.annotations_mut().insert(SCALE.to_owned(), damaged.clone()));
        });
        assert_eq!(record(&mut { observed.clone() }).as_deref(), Some(RECORD), "{damaged} is replaced");
        let mut unscaled = executed(new(GROUPED));
        change::<PodGang>(&mut unscaled, "m-0", |gang| {
            drop(gang.annotations_mut().insert(SCALE.to_owned(), damaged.clone()));
        });
        assert_eq!(record(&mut unscaled), None, "{damaged} is removed");
        observed.children.by_name_mut::<PodClique>().clear();
        observed.children.by_name_mut::<PodCliqueScalingGroup>().clear();
        assert!(observed.exceeded_limit().is_none());
        let replica = &expanded(&observed).replicas[0];
        assert_eq!((replica.cliques[0].replicas, replica.groups[0].replica_count), (2, 3), "{damaged}");
    }
}

const LATER: &str = r#"{"v":2,"other":{}}"#;

fn with_later_record(mut observed: Observed) -> Observed {
    change::<PodGang>(&mut observed, "m-0", |gang| {
        drop(gang.annotations_mut().insert(SCALE.to_owned(), LATER.to_owned()));
    });
    observed
}

#[test]
fn a_record_of_a_later_version_stays() {
    for observed in [scaled(), executed(new(GROUPED))] {
        let mut observed = with_later_record(observed);
        assert_eq!(record(&mut observed).as_deref(), Some(LATER));
    }
}

/// The record decides how many cliques and gangs the set has, so nothing is created or deleted without it.
#[test]
fn a_set_with_a_record_of_a_later_version_waits_while_a_clique_or_a_group_is_missing() {
    let without_clique =
        |observed: &mut Observed| drop(observed.children.by_name_mut::<PodClique>().remove("m-0-f").expect("a clique"));
    let without_group = |observed: &mut Observed| {
        drop(observed.children.by_name_mut::<PodCliqueScalingGroup>().remove("m-0-g").expect("a group"));
    };
    let missing: [&dyn Fn(&mut Observed); 2] = [&without_clique, &without_group];
    for remove in missing {
        let mut observed = with_later_record(scaled());
        remove(&mut observed);
        let plan = plan(&observed);
        assert_eq!(
            plan.to_string(),
            "wait: UnreadableAnnotation the set stays as it is, because PodGang m-0 records the replicas of a deleted PodClique or \
             PodCliqueScalingGroup: annotation grove.io/scale has version 2, and this pcs-controller reads only version 1; upgrade \
             pcs-controller, or remove the annotation, so that the running pcs-controller writes it again\n"
        );
        let status = status_of(&observed, &ExecutionResult::default(), Timestamp::UNIX_EPOCH);
        let available = status.conditions.iter().find(|condition| condition.type_ == "Available").expect("Available");
        assert_eq!(available.reason, "UnreadableAnnotation");
    }
    let mut of_other_replica = executed(new(&GROUPED.replace("replicas: 1\n  template", "replicas: 2\n  template")));
    of_other_replica.children.by_name_mut::<PodClique>().remove("m-1-f").expect("a clique");
    assert!(plan(&with_later_record(of_other_replica)).to_string().contains("create PodClique m-1-f"));
}
