//! The topology constraints of gangs with `PodGroup`s of the workload API: the record of the incarnation, and the affinity of the cliques.

use std::collections::BTreeMap;
use std::fmt::Write;

use expect_test::{Expect, expect};
use grove_api_types::labels::{PACK_AFFINITY, POD_GROUP, POD_GROUP_SPEC, TOPOLOGY_NAME};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::PodClique;
use grove_controller::plan::PatchBody;
use kube::ResourceExt;
use serde_json::json;

use super::native_gangs::{all_bound, needs_bound_pods, observe_at};
use super::topology::{observe_with, topology};
use super::*;
use crate::native_gangs::Incarnations;
use crate::topology::Topologies;

const LEVELS: [(&str, &str); 3] = [("block", "b"), ("rack", "r"), ("host", "h")];

/// A set with the constraint `block` and with this constraint of its clique `a`.
fn set(of_clique: &str) -> Observed {
    new(&format!(
        "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {{name: m, namespace: prod, uid: u}}
spec:
  replicas: 1
  template:
    clusterTopologyName: t
    topologyConstraint: {{pack: {{required: block}}}}
    cliques:
    - {{name: a, topologyConstraint: {of_clique}, annotations: {{grove.io/pack-affinity: of-user}}, spec: {{roleName: a, replicas: 2, podSpec: {{containers: [{{name: c}}]}}}}}}
    - {{name: b, spec: {{roleName: b, replicas: 1, podSpec: {{containers: [{{name: c}}]}}}}}}
"
    ))
}

pub(super) fn host() -> Observed {
    set("{pack: {required: host}}")
}

/// The decisions of one process, and the topologies `t` and `other`.
pub(super) struct Process {
    incarnations: Incarnations,
    topologies: Topologies,
}

impl Process {
    pub(super) fn new() -> Self {
        let other = [("block", "x"), ("rack", "y"), ("host", "z")];
        let topologies = Topologies::of(vec![topology("t", &LEVELS), topology("other", &other)], vec![]);
        Self { incarnations: Incarnations::of_served_api(), topologies }
    }

    /// The snapshot at this time, in milliseconds. No clique reports a scheduled pod.
    pub(super) fn observe(&self, milliseconds: i64, observed: &Observed) -> Observed {
        let bound = self.incarnations.choices(&observed.set);
        let has_bound_pods = bound.values().any(|choice| choice.postponed.is_some());
        observe_at(milliseconds, &self.incarnations, &observe_with(&self.topologies, observed, has_bound_pods))
    }

    /// The snapshot after the live LIST of the bound pods.
    fn close(&self, milliseconds: i64, observed: &Observed, has_bound_pods: bool) -> Observed {
        let mut open = self.observe(milliseconds, observed);
        assert!(needs_bound_pods(&open));
        let bound = if has_bound_pods { all_bound() } else { BTreeMap::new() };
        let now = Timestamp::from_millisecond(milliseconds).expect("a time");
        open.gang_decisions.close_with_bound_pods(&bound, now);
        open.retain_topologies_of_bound_gangs();
        self.incarnations.record(&open.set, open.gang_decisions.choices());
        open
    }

    /// The set after its gang and its cliques were created.
    pub(super) fn settled(&self, set: &Observed) -> Observed {
        let with_gang = applied(&self.observe(1000, set));
        let with_cliques = applied(&self.observe(2000, &with_gang));
        self.observe(3000, &with_cliques)
    }
}

/// The snapshot after the plan was executed.
fn applied(observed: &Observed) -> Observed {
    let mut after = observed.clone();
    let plan = plan(observed);
    for step in plan.steps() {
        match step {
            Step::Create(create) => assert!(CHILD_KINDS.apply_create(create, &mut after.children, stored)),
            Step::Patch(patch) => {
                let PatchBody::Merge(merge) = &patch.change else { panic!("{patch:?}") };
                let name = patch.target.name.clone();
                match patch.target.resource.kind.as_str() {
                    "PodGang" => change(&mut after, &name, |gang: &mut PodGang| *gang = merged(gang, &merge.value())),
                    _ => change(&mut after, &name, |clique: &mut PodClique| *clique = merged(clique, &merge.value())),
                }
            }
            Step::Delete(_) | Step::Adopt(_) => panic!("{step}"),
        }
    }
    after
}

fn merged<K: serde::Serialize + serde::de::DeserializeOwned>(object: &K, change: &serde_json::Value) -> K {
    let mut value = serde_json::to_value(object).expect("JSON");
    json_patch::merge(&mut value, change);
    serde_json::from_value(value).expect("an object")
}

/// The annotations of the gang and of its cliques, without the digest of the constraints.
#[track_caller]
fn check(observed: &Observed, expected: &Expect) {
    let mut lines = String::new();
    for gang in observed.children.of_kind::<PodGang>() {
        let annotation = |key: &str| gang.annotations().get(key).map_or("-", String::as_str);
        let mut record: serde_json::Value = serde_json::from_str(annotation(POD_GROUP_SPEC)).expect("JSON");
        if let Some(digest) = record.pointer_mut("/packing/constraints") {
            *digest = json!("*");
        }
        writeln!(lines, "{} {record} by {}", annotation(POD_GROUP), annotation(TOPOLOGY_NAME)).expect("a string");
    }
    for clique in observed.children.of_kind::<PodClique>() {
        let annotation = |key: &str| clique.annotations().get(key).map_or("-", String::as_str);
        writeln!(lines, "{} {} {}", clique.name_any(), annotation(POD_GROUP), annotation(PACK_AFFINITY))
            .expect("a string");
    }
    expected.assert_eq(&lines);
}

fn constrain(observed: &mut Observed, of_clique: &serde_json::Value) {
    observed.set.spec.template.cliques[0].topology_constraint =
        serde_json::from_value(of_clique.clone()).expect("a constraint");
}

#[test]
fn the_record_has_the_key_and_the_cliques_have_the_affinity() {
    let process = Process::new();
    check(
        &process.settled(&set("null")),
        &expect![[r#"
            m-0-1000 {"minCount":3,"packing":{"constraints":"*","key":"b"},"v":1} by t
            m-0-a m-0-1000 {"v":1,"required":{"scope":"gang","keys":["b"]}}
            m-0-b m-0-1000 {"v":1,"required":{"scope":"gang","keys":["b"]}}
        "#]],
    );
    let settled = Process::new().settled(&host());
    check(
        &settled,
        &expect![[r#"
            m-0-1000 {"minCount":3,"packing":{"constraints":"*","key":"b"},"v":1} by t
            m-0-a m-0-1000 {"v":1,"required":{"scope":"clique","keys":["h"]}}
            m-0-b m-0-1000 -
        "#]],
    );
    assert!(plan(&settled).is_empty(), "nothing is left to do");
}

#[test]
fn a_gang_relies_on_its_key_only_with_narrower_constraints() {
    let key_to_confirm = |set: &Observed| {
        let observed = Process::new().observe(1000, set);
        observed.gang_decisions.key_to_confirm().map(|group| group.name.clone())
    };
    assert_eq!(key_to_confirm(&set("null")), None);
    assert_eq!(key_to_confirm(&host()).as_deref(), Some("m-0-1000"));
}

#[test]
fn without_keys_the_affinity_is_narrower_and_the_incarnation_stays() {
    let process = Process::new();
    let mut first = process.observe(1000, &host());
    first.gang_decisions.drop_keys();
    assert_eq!(first.gang_decisions.key_to_confirm(), None);
    process.incarnations.record(&first.set, first.gang_decisions.choices());
    let second = process.observe(2000, &applied(&first));
    let settled = process.observe(3000, &applied(&second));
    check(
        &settled,
        &expect![[r#"
            m-0-1000 {"minCount":3,"packing":{"constraints":"*"},"v":1} by t
            m-0-a m-0-1000 {"v":1,"required":{"scope":"gang","keys":["b","h"]}}
            m-0-b m-0-1000 {"v":1,"required":{"scope":"gang","keys":["b","h"]}}
        "#]],
    );
    assert!(plan(&settled).is_empty() && !needs_bound_pods(&settled));
}

#[test]
fn other_constraints_begin_the_next_incarnation_if_no_pod_is_bound() {
    let process = Process::new();
    let mut observed = process.settled(&host());
    constrain(&mut observed, &json!({ "pack": { "preferred": "rack" } }));
    let next = applied(&process.close(4000, &observed, false));
    check(
        &next,
        &expect![[r#"
            m-0-4000 {"minCount":3,"packing":{"constraints":"*","key":"b"},"v":1} by t
            m-0-a m-0-1000 {"v":1,"required":{"scope":"clique","keys":["h"]}}
            m-0-b m-0-1000 -
        "#]],
    );
    check(
        &applied(&process.observe(5000, &next)),
        &expect![[r#"
            m-0-4000 {"minCount":3,"packing":{"constraints":"*","key":"b"},"v":1} by t
            m-0-a m-0-4000 {"v":1,"required":{"scope":"gang","keys":["b"]},"preferred":[{"scope":"clique","key":"r"}]}
            m-0-b m-0-4000 {"v":1,"required":{"scope":"gang","keys":["b"]}}
        "#]],
    );
}

#[test]
fn the_other_form_of_equal_constraints_begins_no_incarnation_and_changes_no_affinity() {
    for (from, to) in
        [("{packDomain: block}", "{pack: {required: block}}"), ("{pack: {required: block}}", "{packDomain: block}")]
    {
        let form = |text: &str| serde_saphyr::from_str(text).expect("a constraint");
        let process = Process::new();
        let mut set = set("null");
        set.set.spec.template.topology_constraint = form(from);
        let mut settled = process.settled(&set);
        settled.set.spec.template.topology_constraint = form(to);
        let observed = process.observe(4000, &settled);
        assert!(!needs_bound_pods(&observed), "no next incarnation");
        assert_eq!(plan(&observed).to_string(), "nothing to do\n", "{from} to {to}");
    }
}

#[test]
fn the_cliques_of_a_gang_with_bound_pods_get_the_affinity_of_other_constraints() {
    let process = Process::new();
    let mut observed = process.settled(&host());
    constrain(&mut observed, &json!({ "pack": { "required": "rack" } }));
    let bound = applied(&process.close(4000, &observed, true));
    let after = process.observe(5000, &bound);
    assert!(!needs_bound_pods(&after), "no second LIST");
    check(
        &applied(&after),
        &expect![[r#"
            m-0-1000 {"minCount":3,"packing":{"constraints":"*","key":"b"},"v":1} by t
            m-0-a m-0-1000 {"v":1,"required":{"scope":"clique","keys":["r"]}}
            m-0-b m-0-1000 -
        "#]],
    );
}

#[test]
fn a_gang_with_a_bound_pod_that_the_caches_lack_retains_its_topology() {
    let process = Process::new();
    let mut observed = process.settled(&host());
    observed.set.spec.template.cluster_topology_name = Some("other".to_owned());
    let bound = applied(&process.close(4000, &observed, true));
    check(
        &bound,
        &expect![[r#"
            m-0-1000 {"minCount":3,"packing":{"constraints":"*","key":"b"},"v":1} by t
            m-0-a m-0-1000 {"v":1,"required":{"scope":"clique","keys":["h"]}}
            m-0-b m-0-1000 -
        "#]],
    );
    check(
        &applied(&process.observe(5000, &bound)),
        &expect![[r#"
            m-0-1000 {"minCount":3,"packing":{"constraints":"*","key":"b"},"v":1} by t
            m-0-a m-0-1000 {"v":1,"required":{"scope":"clique","keys":["h"]}}
            m-0-b m-0-1000 -
        "#]],
    );
    let unbound = Process::new();
    let mut observed = unbound.settled(&host());
    observed.set.spec.template.cluster_topology_name = Some("other".to_owned());
    check(
        &applied(&unbound.close(4000, &observed, false)),
        &expect![[r#"
            m-0-4000 {"minCount":3,"packing":{"constraints":"*","key":"x"},"v":1} by other
            m-0-a m-0-1000 {"v":1,"required":{"scope":"clique","keys":["h"]}}
            m-0-b m-0-1000 -
        "#]],
    );
}

#[test]
fn an_edited_affinity_is_restored_and_that_of_a_missing_gang_stays() {
    let process = Process::new();
    let mut observed = process.settled(&host());
    change(&mut observed, "m-0-b", |clique: &mut PodClique| {
        clique.annotations_mut().insert(PACK_AFFINITY.to_owned(), "edited".to_owned());
    });
    let edited = process.observe(4000, &observed);
    expect![[r#"
        cliques: patch PodClique m-0-b {"metadata":{"annotations":{"grove.io/pack-affinity":null}}}
    "#]]
    .assert_eq(&plan(&edited).to_string());
    let mut observed = process.settled(&host());
    observed.children.by_name_mut::<PodGang>().remove("m-0").expect("a gang");
    let patches = |observed: &Observed| plan(observed).steps().filter(|step| matches!(step, Step::Patch(_))).count();
    assert_eq!(patches(&process.observe(4000, &observed)), 0);
    let mut observed = process.settled(&host());
    change(&mut observed, "m-0", |gang: &mut PodGang| gang.metadata.annotations = None);
    let without_record = process.observe(4000, &observed);
    assert_eq!(patches(&without_record), 1, "only the gang");
}
