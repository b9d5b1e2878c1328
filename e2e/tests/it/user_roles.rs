//! The rules that the roles `view`, `edit` and `admin` of Kubernetes contain for users of Grove.

use e2e::poll::poll_until;
use e2e::{Namespace, TestCluster, access, in_namespace};
use kube::Api;
use kube::api::PostParams;

/// Whether the user may do this in the namespace.
async fn may(ns: &Namespace, user: &str, verb: &str, (group, resource): (&str, &str)) -> bool {
    let review = access::review(user.to_owned(), &[], Some(&ns.name), (verb, group, resource));
    let reviews = Api::all(TestCluster::shared().client().await);
    let reviewed = reviews.create(&PostParams::default(), &review).await.expect("a review");
    reviewed.status.is_some_and(|status| status.allowed)
}

#[tokio::test]
async fn the_roles_of_kubernetes_contain_the_rules_for_sets() {
    in_namespace("e2e-user-roles", async |ns| {
        let (set, scale, clique) =
            (("grove.io", "podcliquesets"), ("grove.io", "podcliques/scale"), ("grove.io", "podcliques"));
        access::bind(ns, "e2e-viewer", ("ClusterRole", "view")).await;
        access::bind(ns, "e2e-editor", ("ClusterRole", "edit")).await;
        access::bind(ns, "e2e-admin", ("ClusterRole", "admin")).await;
        // The roles take effect a moment later.
        poll_until(async || may(ns, "e2e-viewer", "list", set).await.then_some(())).await;
        poll_until(async || may(ns, "e2e-editor", "create", set).await.then_some(())).await;
        poll_until(async || may(ns, "e2e-admin", "create", set).await.then_some(())).await;
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
            ("e2e-admin", "patch", scale, true),
            ("e2e-admin", "patch", clique, false),
        ] {
            assert_eq!(may(ns, user, verb, resource).await, expected, "{user}: {verb} {resource:?}");
        }
    })
    .await;
}
