//! Creation and scaling of domains, and objects and quotas that block them.

use super::*;

/// A set scales 0 → 3 → 1 → 0.
pub(super) async fn a_set_gets_its_domains_and_scales(cluster: &TestCluster) {
    let fixture = Fixture::create(cluster, "e2e-domains-scale").await;
    fixture.create_set("llm", 0).await;
    fixture.ns.wait_for_condition("llm", "ComputeDomainsCreated", "AllComputeDomainsExist", "no replica").await;
    let state = fixture.scale_set("llm", 3).await;
    pods_have_the_claims_of_their_replicas(&state);
    no_two_domains_share_a_node([&state]);
    let domain = fixture.wait_for_domain("llm-0", |domain| has_finalizer(domain, DRIVER_FINALIZER)).await;
    is_as_specified(&domain, &state.sets["llm"]);
    let text = "all 3 ComputeDomains exist";
    fixture.ns.wait_for_condition("llm", "ComputeDomainsCreated", "AllComputeDomainsExist", text).await;
    events::wait_for_note(&fixture.ns, "llm", "ComputeDomainCreated", "ComputeDomains llm-0, llm-1, llm-2 created")
        .await;
    scale_in(&fixture).await;
    fixture.scale_set("llm", 1).await;
    fixture.delete_last_set("llm").await;
}

fn pods_have_the_claims_of_their_replicas(state: &NamespaceState) {
    assert_eq!(state.sets["llm"].annotations()["grove.io/auto-mnnvl"], "enabled");
    assert_eq!(state.groups["llm-0-g"].annotations()["grove.io/auto-mnnvl"], "enabled");
    for pod in state.pods_of("llm") {
        let (clique, domain) = (&pod.labels()["grove.io/podclique"], format!("llm-{}", pod.labels()[SET_REPLICA]));
        let expected = if clique.ends_with("-cpu") { vec![] } else { vec![domain] };
        assert_eq!(claim_templates(pod), expected, "{}", pod.name_any());
    }
}

async fn scale_in(fixture: &Fixture) {
    fixture.ns.scale::<PodCliqueSet>("llm", 1).await;
    fixture.wait_for_domains(&["llm-0"]).await;
    fixture.ns.scale::<PodCliqueSet>("llm", 0).await;
    fixture.wait_for_domains(&[]).await;
    fixture.ns.wait_for_condition("llm", "ComputeDomainsCreated", "AllComputeDomainsExist", "no replica").await;
}

/// A set scales 3 → 1 → 3 while the pods of the removed replicas terminate. The domains of these pods stay, and the new pods use them.
pub(super) async fn a_replica_returns_while_its_pods_terminate(cluster: &TestCluster) {
    let fixture = Fixture::create(cluster, "e2e-domains-slow").await;
    let before = fixture.create_set("llm", 3).await;
    fixture.ns.add_finalizers(before.pods_of("llm")).await;
    let domains = uids(&fixture).await;
    fixture.ns.scale::<PodCliqueSet>("llm", 1).await;
    let terminating = |state: &NamespaceState| state.pods.values().filter(|pod| is_terminating(*pod)).count();
    fixture.ns.wait_for("the pods of two replicas are terminating", |state| terminating(state) == 6).await;
    fixture.ns.scale::<PodCliqueSet>("llm", 3).await;
    let is_new_and_ready = |pod: &&Pod| is_ready(pod) && !is_terminating(*pod);
    let are_ready = |state: &NamespaceState| state.pods_of("llm").filter(is_new_and_ready).count() == 9;
    let state = fixture.ns.wait_for("the new pods are ready", are_ready).await;
    only_the_first_replica_is_retained(&before, &state);
    no_two_domains_share_a_node([&state]);
    assert_eq!(domains, uids(&fixture).await, "all domains were in use");
    fixture.ns.remove_finalizers(before.pods_of("llm")).await;
    fixture.delete_last_set("llm").await;
}

fn only_the_first_replica_is_retained(before: &NamespaceState, after: &NamespaceState) {
    let is_retained = |pod: &&Pod| after.active_pods().any(|other| other.uid() == pod.uid());
    let retained: Vec<_> = before.pods.values().filter(is_retained).map(|pod| &*pod.labels()[SET_REPLICA]).collect();
    assert_eq!(retained, ["0"; 3]);
}

/// Two sets in two namespaces start at the same time.
pub(super) async fn two_sets_share_no_node(cluster: &TestCluster) {
    let first = Fixture::create(cluster, "e2e-domains-first").await;
    let second = Fixture::create(cluster, "e2e-domains-second").await;
    let (first_state, second_state) = tokio::join!(first.create_set("llm", 3), second.create_set("llm", 3));
    no_two_domains_share_a_node([&first_state, &second_state]);
    for fixture in [first, second] {
        fixture.delete_last_set("llm").await;
    }
}

fn is_as_specified(domain: &ComputeDomain, set: &PodCliqueSet) {
    let labels = json!({
        "app.kubernetes.io/component": "pcs-computedomain", "app.kubernetes.io/managed-by": "grove-operator",
        "app.kubernetes.io/name": "llm-0", "app.kubernetes.io/part-of": "llm",
        "grove.io/podcliqueset-replica-index": "0", "resource.nvidia.com/driver": "e2e",
    });
    assert_eq!(json!(domain.labels()), labels);
    assert_eq!(domain.finalizers(), [GROVE_FINALIZER, DRIVER_FINALIZER]);
    assert_eq!((domain.claim_template(), domain.spec.num_nodes), ("llm-0", 0));
    let owners: Vec<_> = domain.owner_references().iter().map(|owner| (&*owner.kind, owner.controller)).collect();
    assert_eq!(owners, [("PodCliqueSet", Some(true)), ("Namespace", None)]);
    assert_eq!(Some(&domain.owner_references()[0].uid), set.metadata.uid.as_ref());
}

/// A domain of a user has the name of one of the set, and a quota rejects the third domain.
pub(super) async fn a_foreign_object_and_a_quota_block_one_replica(cluster: &TestCluster) {
    let fixture = Fixture::create(cluster, "e2e-domains-foreign").await;
    let foreign = "{apiVersion: resource.nvidia.com/v1beta1, kind: ComputeDomain, metadata: {name: llm-0}, \
                   spec: {channel: {resourceClaimTemplate: {name: mine}}}}";
    let create = ["create", "--namespace", &fixture.ns.name, "--filename=-"];
    kubectl_on(cluster, &create, foreign).await.expect("the domain is created");
    a_foreign_object_blocks_its_replica(&fixture).await;
    fixture.delete_domain("llm-0").await;
    fixture.wait_for_ready_replicas("llm", 2).await;
    a_quota_blocks_the_third_replica(&fixture).await;
    fixture.wait_for_ready_replicas("llm", 3).await;
    fixture.delete_last_set("llm").await;
}

async fn a_foreign_object_blocks_its_replica(fixture: &Fixture) {
    fixture.ns.create_yaml::<PodCliqueSet>(&set("llm", 2)).await;
    let state = fixture.ns.wait_for_ready_pods("llm", 3).await;
    assert!(state.pods_of("llm").all(|pod| pod.labels()[SET_REPLICA] == "1"), "{state}");
    fixture.ns.wait_for_condition("llm", "ComputeDomainsCreated", "NameConflict", "ComputeDomain llm-0 exists").await;
    events::wait_for_note(&fixture.ns, "llm", "ComputeDomainFailed", "ComputeDomain llm-0 exists").await;
    events::wait_for_note(&fixture.ns, "llm", "ComputeDomainCreated", "ComputeDomain llm-1 created").await;
    let domain = fixture.domains.get("llm-0").await.expect("the foreign domain");
    assert!(domain.owner_references().is_empty() && domain.claim_template() == "mine", "{domain:?}");
}

async fn a_quota_blocks_the_third_replica(fixture: &Fixture) {
    let further = "{apiVersion: resource.nvidia.com/v1beta1, kind: ComputeDomain, metadata: {name: further}, \
                   spec: {channel: {resourceClaimTemplate: {name: further}}}}";
    propagation::create_exhausted_quota(&fixture.ns, ("count/computedomains.resource.nvidia.com", 2), further).await;
    fixture.ns.scale::<PodCliqueSet>("llm", 3).await;
    fixture.ns.wait_for_condition("llm", "ComputeDomainsCreated", "FailedCreate", "exceeded quota: small").await;
    events::wait_for_note(&fixture.ns, "llm", "ComputeDomainFailed", "for replica 2: ").await;
    fixture.ns.delete_object::<ResourceQuota>(propagation::QUOTA).await;
}
