//! Creation, scaling and restoration of domains, and objects and quotas in their way.

use super::*;

/// A set scales 1 → 3 → 1 → 0, and back to 3 while the pods of the removed replicas terminate.
#[expect(clippy::cognitive_complexity, reason = "each step of the scenario depends on the one before")]
pub(super) async fn a_set_gets_its_domains_and_scales(cluster: &TestCluster) {
    let fixture = Fixture::create(cluster, "e2e-domains-scale").await;
    fixture.ns.create_yaml::<PodCliqueSet>(&set("llm", 1)).await;
    let state = fixture.wait_for_ready_pods("llm", 3).await;
    assert_eq!(state.sets["llm"].annotations()["grove.io/auto-mnnvl"], "enabled");
    assert_eq!(state.groups["llm-0-g"].annotations()["grove.io/auto-mnnvl"], "enabled");
    for pod in pods_of(&state, "llm") {
        let is_cpu = pod.labels()["grove.io/podclique"] == "llm-0-cpu";
        let expected = if is_cpu { vec![] } else { vec!["llm-0".to_owned()] };
        assert_eq!(claim_templates(pod), expected, "{}", pod.name_any());
    }
    let domain = fixture.wait_for_domain("llm-0", |domain| has_finalizer(domain, DRIVER_FINALIZER)).await;
    is_as_specified(&domain, &state.sets["llm"]);
    let created = events::wait_for(&fixture.ns, "llm", "ComputeDomainCreated").await;
    assert_eq!(notes(&created, "llm", "ComputeDomainCreated"), ["ComputeDomain llm-0 created"]);
    fixture
        .wait_for_condition("llm", "ComputeDomainsCreated", "AllComputeDomainsExist", "all 1 ComputeDomains exist")
        .await;

    fixture.ns.scale::<PodCliqueSet>("llm", 3).await;
    let state = fixture.wait_for_ready_pods("llm", 9).await;
    no_two_domains_share_a_node(&state);
    fixture.wait_for_domains(&["llm-0", "llm-1", "llm-2"]).await;
    let uids = async || {
        let domains = fixture.wait_for_domains(&["llm-0", "llm-1", "llm-2"]).await;
        domains.into_iter().filter_map(|domain| domain.uid()).collect::<BTreeSet<_>>()
    };
    let before = uids().await;
    fixture.ns.scale::<PodCliqueSet>("llm", 1).await;
    fixture.wait_for_domains(&["llm-0"]).await;
    fixture.ns.scale::<PodCliqueSet>("llm", 3).await;
    fixture.wait_for_ready_pods("llm", 9).await;
    assert_eq!(before.intersection(&uids().await).count(), 1, "only the first replica keeps its domain");
    fixture.ns.scale::<PodCliqueSet>("llm", 0).await;
    fixture.wait_for_domains(&[]).await;
    fixture.wait_for_condition("llm", "ComputeDomainsCreated", "AllComputeDomainsExist", "no replica").await;
    fixture.check_history().await;
    fixture.ns.delete_object::<PodCliqueSet>("llm").await;
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
    assert_eq!(owners, [("PodCliqueSet", Some(true))]);
    assert_eq!(Some(&domain.owner_references()[0].uid), set.metadata.uid.as_ref());
}

fn no_two_domains_share_a_node(state: &NamespaceState) {
    let mut used = BTreeSet::new();
    for pod in state.pods.values() {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        for template in claim_templates(pod) {
            used.insert((node.clone(), template));
        }
    }
    let nodes: BTreeSet<_> = used.iter().map(|(node, _)| node).collect();
    assert_eq!(nodes.len(), used.len(), "{used:?}");
}

/// Labels, the reference to the set, and the finalizer, while the service runs and while it is down.
pub(super) async fn edits_are_restored(cluster: &TestCluster) {
    let fixture = Fixture::create(cluster, "e2e-domains-edits").await;
    fixture.ns.create_yaml::<PodCliqueSet>(&set("llm", 1)).await;
    fixture.wait_for_ready_pods("llm", 3).await;
    let is_restored = |domain: &ComputeDomain| {
        domain.labels().get("grove.io/podcliqueset-replica-index").is_some_and(|index| index == "0")
            && domain.owner_references().iter().any(|owner| owner.controller == Some(true))
            && has_finalizer(domain, GROVE_FINALIZER)
            && has_finalizer(domain, DRIVER_FINALIZER)
    };
    let before = fixture.wait_for_domain("llm-0", is_restored).await;
    let edits = [
        json!({ "metadata": { "labels": { "grove.io/podcliqueset-replica-index": "7" } } }),
        json!({ "metadata": { "ownerReferences": null } }),
        json!({ "metadata": { "finalizers": [DRIVER_FINALIZER] } }),
    ];
    for edit in &edits {
        fixture.patch("llm-0", edit).await;
        fixture.wait_for_domain("llm-0", is_restored).await;
        cluster.stop(SERVICE).await;
        fixture.patch("llm-0", edit).await;
        cluster.up().await;
        let after = fixture.wait_for_domain("llm-0", is_restored).await;
        assert_eq!(after.uid(), before.uid(), "{edit}");
    }
    fixture.ns.delete_object::<PodCliqueSet>("llm").await;
    fixture.wait_for_domains(&[]).await;
}

/// A domain of a user has the name of one of the set, and a quota rejects the third domain.
#[expect(clippy::cognitive_complexity, reason = "each step of the scenario depends on the one before")]
pub(super) async fn a_foreign_object_and_a_quota_block_one_replica(cluster: &TestCluster) {
    let fixture = Fixture::create(cluster, "e2e-domains-foreign").await;
    let foreign = "{apiVersion: resource.nvidia.com/v1beta1, kind: ComputeDomain, metadata: {name: llm-0}, \
                   spec: {channel: {resourceClaimTemplate: {name: mine}}}}";
    let create = ["create", "--namespace", &fixture.ns.name, "--filename=-"];
    kubectl_on(cluster, &create, foreign).await.expect("the domain is created");
    fixture.ns.create_yaml::<PodCliqueSet>(&set("llm", 2)).await;
    let state = fixture.wait_for_ready_pods("llm", 3).await;
    assert!(pods_of(&state, "llm").all(|pod| pod.labels()["grove.io/podcliqueset-replica-index"] == "1"), "{state}");
    fixture.wait_for_condition("llm", "ComputeDomainsCreated", "NameConflict", "ComputeDomain llm-0 exists").await;
    fixture.wait_for_failed_event("llm", "ComputeDomain llm-0 exists").await;
    let domain = fixture.domains.get("llm-0").await.expect("the foreign domain");
    assert!(domain.owner_references().is_empty() && domain.claim_template() == "mine", "{domain:?}");
    fixture.delete_domain("llm-0").await;
    fixture.wait_for_ready_pods("llm", 6).await;

    let quota = "{metadata: {name: two}, spec: {hard: {count/computedomains.resource.nvidia.com: '2'}}}";
    fixture.ns.create_yaml::<ResourceQuota>(quota).await;
    let quotas = fixture.ns.api::<ResourceQuota>();
    let is_counted = |quota: ResourceQuota| quota.status?.used?.values().any(|used| used.0 == "2").then_some(());
    poll_until(async || is_counted(quotas.get("two").await.ok()?)).await;
    fixture.ns.scale::<PodCliqueSet>("llm", 3).await;
    fixture.wait_for_condition("llm", "ComputeDomainsCreated", "FailedCreate", "exceeded quota: two").await;
    fixture.wait_for_failed_event("llm", "for replica 2: ").await;
    quotas.delete("two", &DeleteParams::default()).await.expect("the quota is deleted");
    fixture.wait_for_ready_pods("llm", 9).await;
    fixture.check_history().await;
    fixture.ns.delete_object::<PodCliqueSet>("llm").await;
    fixture.wait_for_domains(&[]).await;
}
