//! The rules that the roles `view` and `edit` of Kubernetes contain for users of Grove.

use e2e::poll::poll_until;
use e2e::{Namespace, TestCluster, in_namespace};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

async fn bind(ns: &Namespace, user: &str, role: &str) {
    let role_ref = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role });
    let subject = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user });
    let binding = json!({ "metadata": { "name": user }, "roleRef": role_ref, "subjects": [subject] });
    ns.create_yaml::<RoleBinding>(&binding.to_string()).await;
}

/// Whether the user may do this in the namespace.
async fn may(ns: &Namespace, user: &str, verb: &str, (group, resource): (&str, &str)) -> bool {
    let (plural, subresource) = resource.split_once('/').map_or((resource, None), |(plural, sub)| (plural, Some(sub)));
    let attributes = ResourceAttributes {
        namespace: Some(ns.name.clone()),
        verb: Some(verb.to_owned()),
        group: Some(group.to_owned()),
        resource: Some(plural.to_owned()),
        subresource: subresource.map(str::to_owned),
        ..ResourceAttributes::default()
    };
    let spec = SubjectAccessReviewSpec {
        user: Some(user.to_owned()),
        resource_attributes: Some(attributes),
        ..SubjectAccessReviewSpec::default()
    };
    let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
    let reviews = Api::<SubjectAccessReview>::all(TestCluster::shared().client().await);
    let reviewed = reviews.create(&PostParams::default(), &review).await.expect("a review");
    reviewed.status.is_some_and(|status| status.allowed)
}

#[tokio::test]
async fn the_roles_of_kubernetes_contain_the_rules_for_sets() {
    in_namespace("e2e-user-roles", async |ns| {
        let (set, scale, clique) =
            (("grove.io", "podcliquesets"), ("grove.io", "podcliques/scale"), ("grove.io", "podcliques"));
        bind(ns, "e2e-viewer", "view").await;
        bind(ns, "e2e-editor", "edit").await;
        // The roles take effect a moment later.
        poll_until(async || may(ns, "e2e-viewer", "list", set).await.then_some(())).await;
        poll_until(async || may(ns, "e2e-editor", "create", set).await.then_some(())).await;
        for (user, verb, resource, expected) in [
            ("e2e-viewer", "get", ("scheduler.grove.io", "podgangs"), true),
            ("e2e-viewer", "create", set, false),
            ("e2e-viewer", "patch", scale, false),
            ("e2e-editor", "list", clique, true),
            ("e2e-editor", "delete", set, true),
            ("e2e-editor", "patch", scale, true),
            ("e2e-editor", "patch", clique, false),
            ("e2e-editor", "patch", ("grove.io", "podcliquesets/status"), false),
            ("e2e-editor", "create", ("scheduler.grove.io", "podgangs"), false),
            ("e2e-editor", "create", ("grove.io", "clustertopologies"), false),
        ] {
            assert_eq!(may(ns, user, verb, resource).await, expected, "{user}: {verb} {resource:?}");
        }
    })
    .await;
}
