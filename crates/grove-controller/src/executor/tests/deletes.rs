//! The preconditions and the propagation of deletes, and the addition and the removal of finalizers.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::*;

/// An owner with these finalizers.
fn owner(finalizers: &[&str]) -> ConfigMap {
    let mut owner = object("owner");
    owner.metadata.finalizers = Some(finalizers.iter().map(|finalizer| (*finalizer).to_owned()).collect());
    owner
}

/// The body of the request for one step.
async fn body(step: Step) -> Value {
    let (executor, log) = executor(|_| MockResponse::ok(config_map("a", 1, "owner")));
    executor.execute(&object("s"), &Plan::new().stage(Stage::new("s", [step]))).await;
    log.requests()[0].body.clone()
}

#[tokio::test]
async fn a_delete_carries_the_uid_and_propagates_in_the_background() {
    let body = body(Step::delete(&object("a"))).await;
    assert_eq!(body["preconditions"], json!({ "uid": "uid-a" }));
    assert_eq!(body["propagationPolicy"], "Background");
}

#[tokio::test]
async fn the_delete_of_a_dependent_carries_the_resource_version_and_the_propagation_of_its_owner() {
    for (finalizers, propagation) in
        [(vec![], "Background"), (vec!["example.com/hold", "foregroundDeletion"], "Foreground")]
    {
        let body = body(Step::delete_dependent(&owner(&finalizers), &object("a"))).await;
        assert_eq!(body["preconditions"], json!({ "uid": "uid-a", "resourceVersion": "1" }), "{finalizers:?}");
        assert_eq!(body["propagationPolicy"], propagation, "{finalizers:?}");
    }
    let body = body(Step::delete_with_optimistic_lock(&object("a"))).await;
    assert_eq!(body["preconditions"], json!({ "uid": "uid-a", "resourceVersion": "1" }));
    assert_eq!(body["propagationPolicy"], "Background");
}

#[tokio::test]
async fn a_dependent_that_was_released_in_the_meantime_stays_and_the_delete_is_no_failure() {
    let step = Step::delete_dependent(&owner(&[]), &object("a"));
    let (done, requests) = try_step(step, |_| MockResponse::error(409, "Conflict")).await;
    assert!(done.succeeded() && requests == 1, "{done:?}");
}

#[tokio::test]
async fn the_removal_of_a_finalizer_tests_the_uid_and_the_position() {
    let step = Step::remove_finalizer(&owner(&["example.com/hold", "example.com/old"]), "example.com/old");
    let body = body(step.unwrap()).await;
    let expected = json!([
        { "op": "test", "path": "/metadata/uid", "value": "uid-owner" },
        { "op": "test", "path": "/metadata/finalizers/1", "value": "example.com/old" },
        { "op": "remove", "path": "/metadata/finalizers/1" },
    ]);
    assert_eq!(body, expected);
    assert_eq!(Step::remove_finalizer(&owner(&["example.com/hold"]), "example.com/old"), None);
    assert_eq!(Step::remove_finalizer(&object("a"), "example.com/old"), None);
}

#[tokio::test]
async fn the_addition_of_a_finalizer_keeps_the_others_and_tests_the_version() {
    let list = json!({ "op": "add", "path": "/metadata/finalizers", "value": ["example.com/new"] });
    let item = json!({ "op": "add", "path": "/metadata/finalizers/-", "value": "example.com/new" });
    for (finalizers, addition) in
        [(vec![], list), (vec!["example.com/hold"], item.clone()), (vec!["example.com/hold", "example.com/old"], item)]
    {
        let body = body(Step::add_finalizer(&owner(&finalizers), "example.com/new").unwrap()).await;
        let uid = json!({ "op": "test", "path": "/metadata/uid", "value": "uid-owner" });
        let version = json!({ "op": "test", "path": "/metadata/resourceVersion", "value": "1" });
        assert_eq!(body, json!([uid, version, addition]), "{finalizers:?}");
    }
    assert_eq!(Step::add_finalizer(&owner(&["example.com/new", "example.com/hold"]), "example.com/new"), None);
    let mut terminating = owner(&["example.com/hold"]);
    terminating.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    assert_eq!(Step::add_finalizer(&terminating, "example.com/new"), None, "the API server denies it");
}

#[tokio::test]
async fn a_finalizer_that_moved_in_the_meantime_is_not_removed_and_the_patch_is_no_failure() {
    let step = Step::remove_finalizer(&owner(&["example.com/old"]), "example.com/old").unwrap();
    let (done, requests) = try_step(step, |_| MockResponse::error(422, "Invalid")).await;
    assert!(done.succeeded() && requests == 1, "{done:?}");
}
