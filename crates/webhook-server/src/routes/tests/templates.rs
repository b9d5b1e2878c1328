//! Reviews of objects that refer to `ResourceClaimTemplate`s of other namespaces.

use super::*;

fn set(namespace: &str, clique_count: usize) -> Value {
    let containers = json!([{ "name": "main", "image": "pause" }]);
    let spec = |at: usize| {
        let role = format!("front-{at}");
        json!({ "roleName": role, "replicas": 1, "minAvailable": 1, "podSpec": { "containers": containers } })
    };
    let clique = |at: usize| {
        let share = json!({ "name": format!("t-{at}"), "namespace": namespace, "scope": "AllReplicas" });
        json!({ "name": format!("front-{at}"), "resourceSharing": [share], "spec": spec(at) })
    };
    json!({ "kind": "PodCliqueSet", "metadata": { "name": "serve", "namespace": "team", "uid": "1" },
        "spec": { "replicas": 1, "template": { "cliques": (0..clique_count).map(clique).collect::<Vec<_>>() } } })
}

fn clique(claims: &str) -> Value {
    json!({ "kind": "PodClique", "spec": { "replicas": 1, "podSpec": {} },
        "metadata": { "name": "c", "namespace": "team", "annotations": { "grove.io/resource-claims": claims } } })
}

fn claims(namespace: &str) -> Value {
    clique(&json!({ "claims": [{ "template": "gpus", "namespace": namespace, "scope": "PerReplica" }] }).to_string())
}

/// The message of the denial; `None` if the request is allowed.
async fn denial(webhook: Webhook, object: &Value, old: Option<&Value>) -> Option<String> {
    let operation = if old.is_some() { "UPDATE" } else { "CREATE" };
    let request = json!({ "uid": "7", "operation": operation, "kind": { "kind": object["kind"] }, "object": object, "oldObject": old, "userInfo": { "username": "ann" } });
    let review = json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request });
    let (status, body) = server().send(webhook, JSON, review.to_string().into()).await;
    assert_eq!(status, 200, "{body:?}");
    let response: Value = serde_json::from_slice(&body).unwrap();
    response["response"]["status"]["message"].as_str().map(str::to_owned)
}

#[tokio::test]
async fn a_set_may_refer_only_to_templates_that_its_user_may_read() {
    assert_eq!(denial(Webhook::ValidateTemplates, &set("shared", 1), None).await, None);
    let message = denial(Webhook::ValidateTemplates, &set("secret", 1), None).await.unwrap();
    let expected = "spec.template.cliques[0].resourceSharing[0].name: Forbidden: user \"ann\" may not get ResourceClaimTemplate t-0 in \
                    namespace secret";
    assert!(message.starts_with(expected), "{message}");
    let unchanged = denial(Webhook::ValidateTemplates, &set("secret", 1), Some(&set("secret", 1))).await;
    assert_eq!(unchanged, None, "another user may update the set");
    let message = denial(Webhook::ValidateTemplates, &set("shared", 65), None).await.unwrap();
    assert!(message.contains("refers to 65 ResourceClaimTemplates of other namespaces"), "{message}");
}

#[tokio::test]
async fn a_clique_may_refer_only_to_templates_that_its_user_may_read() {
    for allowed in [claims("shared"), claims("team"), clique("{}")] {
        assert_eq!(denial(Webhook::ValidateTemplates, &allowed, None).await, None);
    }
    let message = denial(Webhook::ValidateTemplates, &claims("secret"), None).await.unwrap();
    assert!(
        message.starts_with("metadata.annotations[grove.io/resource-claims]: Forbidden: user \"ann\""),
        "{message}"
    );
    let added = denial(Webhook::ValidateTemplates, &claims("secret"), Some(&claims("shared"))).await;
    assert!(added.is_some());
    assert_eq!(denial(Webhook::ValidateTemplates, &claims("secret"), Some(&claims("secret"))).await, None);
    let message = denial(Webhook::ValidateTemplates, &clique("{"), None).await.unwrap();
    assert!(message.contains("grove.io/resource-claims cannot be decoded"), "{message}");
}
