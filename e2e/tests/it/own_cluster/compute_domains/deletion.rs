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
        Object::Domain => {
            fixture.history.expect_deletion(&format!("{set}-0"));
            fixture.domains.delete(&format!("{set}-0"), &params).await.map(drop)
        }
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
pub(super) async fn deletions_of_a_set_delete_its_domains(cluster: &TestCluster) {
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
    let orphan = fixture.wait_for_domains(&["orphans-0"]).await.remove(0);
    // Until then, the API server rejects another set of the name.
    fixture.ns.wait_for("the sets are deleted", |state| state.sets.is_empty()).await;
    a_new_set_adopts_the_domain_with_its_pods(&fixture, &orphan).await;
    fixture.delete_last_set("orphans").await;
}

async fn a_new_set_adopts_the_domain_with_its_pods(fixture: &Fixture, orphan: &ComputeDomain) {
    let released = fixture.wait_for_domain("orphans-0", |domain| domain.owner_references().len() == 1).await;
    assert!(has_finalizer(&released, GROVE_FINALIZER) && !is_terminating(&released), "{released:?}");
    let before = fixture.ns.wait_for_ready_pods("orphans", 3).await;
    let set = fixture.ns.create_yaml::<PodCliqueSet>(&set("orphans", 1)).await;
    let adopted = fixture.wait_for_domain("orphans-0", |domain| is_controlled_by(domain, &set)).await;
    assert_eq!(adopted.uid(), orphan.uid());
    let is_available = |state: &NamespaceState| {
        let status = state.sets.get("orphans").and_then(|set| set.status.as_ref());
        status.is_some_and(|status| status.available_replicas == 1)
    };
    let state = fixture.ns.wait_for("the new set is available", is_available).await;
    assert!(state.pods.keys().eq(before.pods.keys()), "{before}{state}");
}

/// A user deletes the domain of a running replica, and later its pods one after another.
pub(super) async fn the_pods_of_a_deleted_domain_wait_for_the_next_one(cluster: &TestCluster) {
    let fixture = Fixture::create(cluster, "e2e-domains-deleted-by-user").await;
    let state = fixture.create_set("llm", 1).await;
    let before = uids(&fixture).await;
    fixture.delete_domain("llm-0").await;
    let text = "delete the pods of their replicas to replace them: llm-0";
    fixture.ns.wait_for_condition("llm", "ComputeDomainsCreated", "ComputeDomainTerminating", text).await;
    replace_the_pods_with_claims(&fixture, &state).await;
    fixture.wait_for_ready_replicas("llm", 1).await;
    assert!(uids(&fixture).await.is_disjoint(&before));
    let text = "all 1 ComputeDomains exist";
    fixture.ns.wait_for_condition("llm", "ComputeDomainsCreated", "AllComputeDomainsExist", text).await;
    fixture.delete_last_set("llm").await;
}

/// Deletes the two pods with claims. While the second one exists, the domain does.
async fn replace_the_pods_with_claims(fixture: &Fixture, state: &NamespaceState) {
    let with_claim = state.pods_of("llm").filter(|pod| !claim_templates(pod).is_empty());
    let [first, second] = &with_claim.map(ResourceExt::name_any).collect::<Vec<_>>()[..] else {
        panic!("two pods have claims")
    };
    let is_new = |pod: &Pod| !state.pods.contains_key(&pod.name_any());
    let is_replaced = |state: &NamespaceState, pod: &str| !state.pods.contains_key(pod) && state.pods.len() == 3;
    let before = uids(fixture).await;
    fixture.ns.delete_object::<Pod>(first).await;
    let state = fixture.ns.wait_for("one pod is replaced", |state| is_replaced(state, first)).await;
    assert_eq!(uids(fixture).await, before, "the other pod has the claim of the old domain: {state}");
    let clique = &state.pods_of("llm").find(|pod| is_new(pod)).expect("a new pod").labels()[POD_CLIQUE];
    let text = "ResourceClaimTemplate llm-0 does not exist";
    fixture.ns.wait_for_condition(clique, "Available", "ComputeDomainsPending", text).await;
    fixture.ns.delete_object::<Pod>(second).await;
    fixture.ns.wait_for("the other pod is replaced", |state| is_replaced(state, second)).await;
}

/// A user deletes a domain and the cliques of its replica, while pcs-controller is stopped. When the pods have ended, the next domain is
/// created, although the references of the base gang show that cliques will return.
pub(super) async fn a_deleted_domain_is_followed_before_the_next_cliques(cluster: &TestCluster) {
    let fixture = Fixture::create(cluster, "e2e-domains-of-next-cliques").await;
    let pods = fixture.create_set("llm", 1).await.pods.len();
    fixture.ns.wait_for("the gang has references", |state| state.reference_count() == pods).await;
    let before = fixture.wait_for_domain("llm-0", |_| true).await.uid();
    cluster.stop("pcs-controller").await;
    delete(&fixture, "llm", Object::Domain).await;
    delete(&fixture, "llm", Object::Cliques).await;
    let are_deleted = |state: &NamespaceState| state.cliques.is_empty() && state.pods.is_empty();
    fixture.ns.wait_for("the cliques and the pods are deleted", are_deleted).await;
    fixture.wait_for_domain("llm-0", |domain| domain.uid() != before && !is_terminating(domain)).await;
    cluster.start_again().await;
    fixture.wait_for_ready_replicas("llm", 1).await;
    fixture.delete_last_set("llm").await;
}
