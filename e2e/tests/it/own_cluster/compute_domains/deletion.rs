//! Deletions of domains, cliques and sets.

use e2e::propagation::wait_for_garbage_collection;
use futures::future::join_all;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Object {
    Set,
    Domain,
    Cliques,
}

/// Each order in which a user can delete a set, its domain and its cliques.
const ORDERS: [(&str, [Object; 3]); 6] = [
    ("set-domain-cliques", [Object::Set, Object::Domain, Object::Cliques]),
    ("set-cliques-domain", [Object::Set, Object::Cliques, Object::Domain]),
    ("domain-set-cliques", [Object::Domain, Object::Set, Object::Cliques]),
    ("domain-cliques-set", [Object::Domain, Object::Cliques, Object::Set]),
    ("cliques-set-domain", [Object::Cliques, Object::Set, Object::Domain]),
    ("cliques-domain-set", [Object::Cliques, Object::Domain, Object::Set]),
];

/// A domain of a user.
const DOMAIN: &str = "
apiVersion: resource.nvidia.com/v1beta1
kind: ComputeDomain
metadata: {name: probe}
spec: {numNodes: 0, channel: {resourceClaimTemplate: {name: probe}}}
";

/// The deletions follow each other without a pause.
pub(super) async fn deletions_in_each_order_leave_no_domain(cluster: &TestCluster) {
    let fixture = Fixture::create(cluster, "e2e-domains-orders").await;
    join_all(ORDERS.iter().map(|(name, objects)| {
        let fixture = &fixture;
        async move {
            fixture.create_set(name, 1).await;
            for object in objects {
                delete(fixture, name, *object).await;
            }
        }
    }))
    .await;
    fixture.wait_for_domains(&[]).await;
    fixture.ns.wait_for("nothing is left", NamespaceState::is_empty).await;
    fixture.check_history().await;
}

async fn delete(fixture: &Fixture, set: &str, object: Object) {
    let (params, selector) = (DeleteParams::default(), format!("app.kubernetes.io/part-of={set}"));
    let ns = &fixture.ns;
    let deleted = match object {
        Object::Set => ns.api::<PodCliqueSet>().delete(set, &params).await.map(drop),
        Object::Domain => fixture.domains.delete(&format!("{set}-0"), &params).await.map(drop),
        Object::Cliques => {
            let cliques = ListParams::default().labels(&selector);
            ns.api::<PodClique>().delete_collection(&params, &cliques).await.map(drop)
        }
    };
    // An earlier deletion may have deleted this object, too.
    if let Err(error) = deleted {
        assert!(matches!(&error, kube::Error::Api(status) if status.code == 404), "{object:?} of {set}: {error}");
    }
}

/// In the background, in the foreground, and with orphans.
pub(super) async fn deletions_of_a_set_release_its_domains(cluster: &TestCluster) {
    let kind = Namespace::create(&cluster.client().await, "e2e-domains-collected").await;
    wait_for_garbage_collection(&kind, DOMAIN).await;
    let fixture = Fixture::create(cluster, "e2e-domains-of-deleted-sets").await;
    for name in ["background", "foreground", "orphans"] {
        fixture.create_set(name, 1).await;
    }
    let sets = fixture.ns.api::<PodCliqueSet>();
    let policies = [
        ("background", DeleteParams::background()),
        ("foreground", DeleteParams::foreground()),
        ("orphans", DeleteParams::orphan()),
    ];
    for (name, params) in policies {
        sets.delete(name, &params).await.expect("the set is deleted");
    }
    let is_released =
        |domain: &ComputeDomain| domain.owner_references().is_empty() && !has_finalizer(domain, GROVE_FINALIZER);
    fixture.wait_for_domain("orphans-0", is_released).await;
    fixture.wait_for_domains(&["orphans-0"]).await;
    // Until then, the API server rejects another set of the name.
    fixture.ns.wait_for("the sets are deleted", |state| state.sets.is_empty()).await;
    a_new_set_does_not_adopt_the_domain(&fixture).await;
    fixture.delete_last_set("orphans").await;
}

async fn a_new_set_does_not_adopt_the_domain(fixture: &Fixture) {
    fixture.ns.create_yaml::<PodCliqueSet>(&set("orphans", 1)).await;
    let text = "ComputeDomain orphans-0 exists";
    fixture.ns.wait_for_condition("orphans", "ComputeDomainsCreated", "NameConflict", text).await;
    fixture.delete_domain("orphans-0").await;
    fixture.ns.wait_for_condition("orphans", "ComputeDomainsCreated", "AllComputeDomainsExist", "all 1").await;
}

/// A user deletes a domain and the cliques of its replica, while pcs-controller is stopped. The next cliques do not wait for another domain.
pub(super) async fn a_domain_is_retained_for_the_next_cliques(cluster: &TestCluster) {
    let fixture = Fixture::create(cluster, "e2e-domains-of-next-cliques").await;
    let pods = fixture.create_set("llm", 1).await.pods.len();
    // The references of the gang show that its cliques will return.
    fixture.ns.wait_for("the gang has references", |state| state.reference_count() == pods).await;
    let before = uids(&fixture).await;
    cluster.stop("pcs-controller").await;
    delete(&fixture, "llm", Object::Domain).await;
    delete(&fixture, "llm", Object::Cliques).await;
    let are_deleted = |state: &NamespaceState| state.cliques.is_empty() && state.pods.is_empty();
    fixture.ns.wait_for("the cliques and the pods are deleted", are_deleted).await;
    cluster.start_again().await;
    fixture.wait_for_ready_replicas("llm", 1).await;
    assert_eq!(uids(&fixture).await, before);
    fixture.delete_last_set("llm").await;
}
