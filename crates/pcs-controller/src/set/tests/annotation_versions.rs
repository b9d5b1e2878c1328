//! Values in annotations of gangs and cliques that an older or a newer pcs-controller wrote.

#![allow(clippy::needless_raw_string_hashes, reason = "expect_test writes them")]

use expect_test::expect;
use grove_api_types::labels::{PACK_AFFINITY, POD_GROUP, POD_GROUP_SPEC, RESOURCE_CLAIMS};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::PodClique;
use kube::ResourceExt;

use super::claims::complete;
use super::native_gangs::{delete_clique, observe_at, settled};
use super::packing::{Process, host};
use super::*;
use crate::native_gangs::Incarnations;

/// Replaces a value in an annotation of all gangs and cliques that have it. Returns how many have it.
fn replace(observed: &mut Observed, key: &str, change_value: impl Fn(&str) -> String) -> usize {
    let gangs: Vec<_> = observed.children.of_kind::<PodGang>().map(|gang| gang.name_any()).collect();
    let cliques: Vec<_> = observed.children.of_kind::<PodClique>().map(|clique| clique.name_any()).collect();
    let mut replaced = 0;
    let mut replace = |annotations: &mut BTreeMap<String, String>| {
        if let Some(value) = annotations.get_mut(key) {
            *value = change_value(value);
            replaced += 1;
        }
    };
    for name in gangs {
        change(observed, &name, |gang: &mut PodGang| replace(gang.annotations_mut()));
    }
    for name in cliques {
        change(observed, &name, |clique: &mut PodClique| replace(clique.annotations_mut()));
    }
    replaced
}

fn without_version(value: &str) -> String {
    let older = value.replace(r#""v":1,"#, "");
    assert!(older.len() < value.len(), "{value}");
    older
}

/// An upgrade must neither rewrite all objects nor replace pending pods.
#[test]
fn values_of_an_older_version_are_not_rewritten() {
    let process = Process::new();
    let mut observed = process.settled(&host());
    assert_eq!(replace(&mut observed, POD_GROUP_SPEC, without_version), 1);
    assert_eq!(replace(&mut observed, PACK_AFFINITY, without_version), 1);
    assert_eq!(plan(&process.observe(4000, &observed)).to_string(), "nothing to do\n");
    let mut observed = complete();
    assert_eq!(replace(&mut observed, RESOURCE_CLAIMS, without_version), 2);
    assert_eq!(plan(&observed).to_string(), "nothing to do\n");
}

/// The new value has the version.
#[test]
fn a_value_of_an_older_version_is_replaced_if_it_differs() {
    let process = Process::new();
    let mut observed = process.settled(&host());
    replace(&mut observed, PACK_AFFINITY, |value| without_version(value).replace("\"h\"", "\"other\""));
    expect![[r#"
        cliques: patch PodClique m-0-a {"metadata":{"annotations":{"grove.io/pack-affinity":"{\"v\":1,\"required\":{\"scope\":\"clique\",\"keys\":[\"h\"]}}"}}}
    "#]].assert_eq(&plan(&process.observe(4000, &observed)).to_string());
}

/// The record describes a `PodGroup` that cannot be changed, so a pcs-controller that cannot read it neither replaces it nor creates pods of the
/// gang. The cliques retain the affinity that follows from the record.
#[test]
fn a_record_of_a_later_version_stays_and_no_clique_is_created() {
    let process = Process::new();
    let mut observed = process.settled(&host());
    let later = |value: &str| value.replace(r#""v":1"#, r#""v":2"#);
    assert_eq!(replace(&mut observed, POD_GROUP_SPEC, later), 1);
    assert_eq!(replace(&mut observed, PACK_AFFINITY, later), 1);
    assert_eq!(plan(&process.observe(4000, &observed)).to_string(), "nothing to do\n");
    observed.children.by_name_mut::<PodClique>().remove("m-0-a").expect("a clique");
    let observed = process.observe(5000, &observed);
    expect![[r#"
        wait: UnreadableAnnotation no PodClique of PodGang m-0 is created: annotation grove.io/pod-group-spec has version 2, and this pcs-controller reads only version 1; upgrade pcs-controller, or remove the annotation, so that the running pcs-controller writes it again
    "#]].assert_eq(&plan(&observed).to_string());
    let result = ExecutionResult::default();
    let status = status_of(&observed, &result, Timestamp::UNIX_EPOCH);
    let available = status.conditions.iter().find(|condition| condition.type_ == "Available").expect("Available");
    assert_eq!((available.status.as_str(), available.reason.as_str()), ("False", "UnreadableAnnotation"));
    assert!(available.message.contains("annotation grove.io/pod-group-spec has version 2"), "{}", available.message);
}

/// All cliques of the gang were deleted. No next incarnation begins, because the current one is unknown.
#[test]
fn a_gang_with_a_record_of_a_later_version_does_not_restart() {
    let incarnations = Incarnations::of_served_api();
    let mut observed = settled(&incarnations);
    replace(&mut observed, POD_GROUP_SPEC, |value| value.replace(r#""v":1"#, r#""v":2"#));
    delete_clique(&mut observed, "m-0-a");
    delete_clique(&mut observed, "m-0-b");
    let observed = observe_at(4000, &incarnations, &observed);
    expect![[r#"
        wait: UnreadableAnnotation no PodClique of PodGang m-0 is created: annotation grove.io/pod-group-spec has version 2, and this pcs-controller reads only version 1; upgrade pcs-controller, or remove the annotation, so that the running pcs-controller writes it again
    "#]].assert_eq(&plan(&observed).to_string());
}

/// A user has edited the annotations. The cliques are created by the next plan, with the affinity that follows from the restored record.
#[test]
fn annotations_that_cannot_be_decoded_are_restored_before_a_clique_is_created() {
    let incarnations = Incarnations::of_served_api();
    for (key, value) in [(POD_GROUP_SPEC, "["), (POD_GROUP_SPEC, "{}"), (POD_GROUP, "forged")] {
        let mut observed = settled(&incarnations);
        replace(&mut observed, key, |_| value.to_owned());
        delete_clique(&mut observed, "m-0-a");
        let plan = plan(&observe_at(4000, &incarnations, &observed)).to_string();
        assert!(plan.contains("gangs: patch PodGang m-0 ") && !plan.contains("create PodClique"), "{plan}");
        assert!(
            plan.contains(&format!(
                "wait: UnreadableAnnotation no PodClique of PodGang m-0 is created: annotation {key}"
            )),
            "{plan}"
        );
    }
}
