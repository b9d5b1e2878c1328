//! The `PodGroup`s of the workload API that the cliques of a scaling group name.

use expect_test::expect;
use grove_api_types::labels::{POD_GROUP, POD_GROUP_SPEC};
use grove_controller::plan::Create;
use serde_json::{Value, json};

use super::super::Context;
use super::super::observe::observe;
use super::*;
use crate::informers::PcsCaches;
use crate::informers::tests::manager_with;
use crate::native_gangs::gang_pending;

/// The creates and patches with the `PodGroup` of each clique, and the reasons of creates that wait.
fn text(observed: &Observed) -> String {
    let plan = plan(observed);
    let line = |step: &Step| match step {
        Step::Create(Create { target, object }) => {
            let value = object.value();
            format!("create {}: {}\n", target.name, value["metadata"]["annotations"][POD_GROUP].as_str().unwrap_or("-"))
        }
        Step::Patch(_) | Step::Delete(_) | Step::Adopt(_) => format!("{step}\n"),
    };
    let waiting = plan.waiting.iter().map(|waiting| format!("wait: {} {}\n", waiting.reason, waiting.message));
    plan.steps().map(line).chain(waiting).collect()
}

#[test]
fn cliques_of_an_undecided_gang_wait_and_others_name_the_pod_group_of_their_gang() {
    let mut observed = new(3);
    observed.undecided_gangs.insert("m-0-g-1".to_owned(), gang_pending("m-0-g-1"));
    for clique in ["m-0-g-0-p", "m-0-g-0-d"] {
        observed.pod_group_names.insert(clique.to_owned(), "m-0-1000".to_owned());
    }
    expect![[r"
        create m-0-g-0-p: m-0-1000
        create m-0-g-0-d: m-0-1000
        create m-0-g-1-p: -
        create m-0-g-1-d: -
        wait: PodGangPending the next incarnation of PodGang m-0-g-1 begins with the next update of the PodGang
    "]]
    .assert_eq(&text(&observed));
}

#[test]
fn existing_cliques_follow_their_gang_to_the_next_incarnation() {
    let mut observed = executed(new(2));
    for clique in ["m-0-g-0-p", "m-0-g-0-d"] {
        observed.pod_group_names.insert(clique.to_owned(), "m-0-1000".to_owned());
    }
    expect![[r#"
        patch PodClique m-0-g-0-p {"metadata":{"annotations":{"grove.io/pod-group":"m-0-1000"}}}
        patch PodClique m-0-g-0-d {"metadata":{"annotations":{"grove.io/pod-group":"m-0-1000"}}}
    "#]]
    .assert_eq(&text(&observed));
}

/// Without its record, the affinity of the cliques of a gang is unknown.
#[tokio::test]
async fn no_clique_of_a_gang_with_an_unreadable_record_is_created() {
    for (record, reason) in [
        (r#"{"v":1,"minCount":1}"#, "PodGangPending"),
        (r#"{"v":2,"minCount":1}"#, "UnreadableAnnotation"),
        ("[", "UnreadableAnnotation"),
    ] {
        let set: Value = serde_saphyr::from_str(GROUPED).expect("YAML");
        let owner = json!([{ "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": "m", "uid": "u-set", "controller": true }]);
        let annotations = json!({ POD_GROUP: "m-0-5", POD_GROUP_SPEC: record });
        let gang = json!({ "metadata": { "name": "m-0", "namespace": "prod", "uid": "g", "annotations": annotations, "ownerReferences": owner },
            "spec": { "podgroups": [] } });
        let manager = manager_with([("podcliquesets", set), ("podgangs", gang)]);
        let caches = PcsCaches::start(&manager).expect("the caches");
        let ctx = Context::new(&manager, caches.clone());
        assert!(manager.wait_for_cache_sync().await);
        let mut group: PodCliqueScalingGroup = yaml(GROUP);
        group.metadata.owner_references = serde_json::from_value(owner).expect("owner references");
        let observed = observe(&ctx, &group);
        assert_eq!(observed.undecided_gangs.get("m-0").map(|waiting| waiting.reason), Some(reason), "{record}");
    }
}
