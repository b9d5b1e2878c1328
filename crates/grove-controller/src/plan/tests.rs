//! The text of plans, with which other tests compare.

use expect_test::expect;
use k8s_openapi::api::core::v1::ConfigMap;

use super::*;

fn config_map(name: &str) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.into());
    object.metadata.namespace = Some("ns".into());
    object.metadata.uid = Some(format!("uid-{name}"));
    object.metadata.resource_version = Some("7".into());
    object
}

#[test]
fn a_plan_is_displayed_as_one_line_per_step() {
    let test: json_patch::Patch =
        serde_json::from_value(json!([{ "op": "test", "path": "/metadata/uid", "value": "u" }])).unwrap();
    let plan = Plan::new()
        .stage(Stage::new("maps", [Step::create(&config_map("a")), Step::delete(&config_map("b"))]))
        .stage(Stage::new("empty", []))
        .stage(Stage::new(
            "edits",
            [
                Step::merge_patch(&config_map("c"), json!({ "data": { "k": "v" } })),
                Step::merge_patch_with_optimistic_lock(
                    &config_map("d"),
                    json!({ "metadata": { "labels": { "k": null } } }),
                ),
                Step::json_patch(&config_map("e"), test),
            ],
        ))
        .waiting([Waiting::new("Turn", "replica 1 is updating")])
        .requeue_after(Duration::from_secs(90))
        .requeue_after(Duration::from_secs(30))
        .continue_after(Some(Duration::from_secs(1)));
    expect![[r#"
        maps: create ConfigMap a
        maps: delete ConfigMap b
        edits: patch ConfigMap c {"data":{"k":"v"}}
        edits: patch ConfigMap d {"metadata":{"labels":{"k":null},"resourceVersion":"7"}}
        edits: patch ConfigMap e [{"op":"test","path":"/metadata/uid","value":"u"}]
        wait: Turn replica 1 is updating
        requeue: after 30s
        continue: after 1s
    "#]]
    .assert_eq(&plan.to_string());
}

#[test]
fn an_empty_plan_is_displayed_as_nothing_to_do() {
    assert!(Plan::new().stage(Stage::new("empty", [])).is_empty());
    assert_eq!(Plan::new().to_string(), "nothing to do\n");
    assert!(!Plan::new().stage(Stage::new("maps", [Step::delete(&config_map("b"))])).is_empty());
}

#[test]
fn a_created_object_carries_its_type_and_a_deleted_one_its_uid() {
    let Step::Create(create) = Step::create(&config_map("a")) else { panic!("not a create") };
    assert_eq!(create.object.value()["apiVersion"], "v1");
    assert_eq!(create.object.value()["kind"], "ConfigMap");
    assert_eq!(Step::delete(&config_map("a")).target().uid.as_deref(), Some("uid-a"));
}

#[test]
fn an_object_of_a_slim_type_is_created_with_its_type() {
    let pod = crate::slim_pod::SlimPod::default();
    let Step::Create(create) = Step::create(&pod) else { panic!("not a create") };
    let object = create.object.value();
    assert_eq!((&object["apiVersion"], &object["kind"]), (&json!("v1"), &json!("Pod")));
    assert!(object["spec"].is_object(), "{object}");
}
