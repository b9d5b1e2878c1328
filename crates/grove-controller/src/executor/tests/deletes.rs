//! The preconditions and the propagation of deletes, and the removal of finalizers.

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
async fn a_finalizer_that_moved_in_the_meantime_is_not_removed_and_the_patch_is_no_failure() {
    let step = Step::remove_finalizer(&owner(&["example.com/old"]), "example.com/old").unwrap();
    let (done, requests) = try_step(step, |_| MockResponse::error(422, "Invalid")).await;
    assert!(done.succeeded() && requests == 1, "{done:?}");
}
