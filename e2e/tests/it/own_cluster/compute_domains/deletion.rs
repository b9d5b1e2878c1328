//! Deletions of domains and of sets, also while the service is down.

use super::*;

/// A user deletes a domain: it stays while its replica has cliques, and a replica without cliques gets another one.
#[expect(clippy::cognitive_complexity, reason = "each step of the scenario depends on the one before")]
pub(super) async fn a_deleted_domain_stays_while_its_replica_uses_it(cluster: &TestCluster) {
    let fixture = Fixture::create(cluster, "e2e-domains-deleted").await;
    fixture.ns.create_yaml::<PodCliqueSet>(&set("llm", 1)).await;
    let before = fixture.wait_for_ready_pods("llm", 3).await;
    let uid = fixture.wait_for_domain("llm-0", |_| true).await.uid();
    fixture.delete_domain("llm-0").await;
    let text = "these domains are being deleted";
    fixture.wait_for_condition("llm", "ComputeDomainsCreated", "ComputeDomainTerminating", text).await;
    let is_terminating = |domain: &ComputeDomain| domain.metadata.deletion_timestamp.is_some();
    // The restart of the service shows that it had the time to decide.
    cluster.stop(SERVICE).await;
    cluster.up().await;
    let domain = fixture.wait_for_domain("llm-0", is_terminating).await;
    assert!(domain.uid() == uid && has_finalizer(&domain, GROVE_FINALIZER), "{domain:?}");
    // Another pod replaces a deleted one and does not wait.
    let pod = pods_of(&before, "llm").find(|pod| claim_templates(pod).is_empty()).expect("the pod without GPUs");
    fixture.ns.delete_object::<Pod>(&pod.name_any()).await;
    let replaced = |state: &NamespaceState| !state.pods.contains_key(&pod.name_any()) && state.pods.len() == 3;
    fixture.ns.wait_for("the pod is replaced", replaced).await;
    fixture.ns.scale::<PodCliqueSet>("llm", 0).await;
    fixture.wait_for_domains(&[]).await;
    fixture.ns.scale::<PodCliqueSet>("llm", 1).await;
    fixture.wait_for_ready_pods("llm", 3).await;
    fixture.wait_for_domain("llm-0", |domain| !is_terminating(domain)).await;
    fixture.check_history().await;
    fixture.ns.delete_object::<PodCliqueSet>("llm").await;
    fixture.wait_for_domains(&[]).await;
}

/// In the background, in the foreground, and with orphans, while the service runs and while it is down.
#[expect(clippy::cognitive_complexity, reason = "each step of the scenario depends on the one before")]
pub(super) async fn deletions_of_a_set_release_its_domains(cluster: &TestCluster) {
    let fixture = Fixture::create(cluster, "e2e-domains-of-deleted-sets").await;
    let sets = fixture.ns.api::<PodCliqueSet>();
    for (name, params) in [("background", DeleteParams::background()), ("foreground", DeleteParams::foreground())] {
        for is_down in [false, true] {
            fixture.ns.create_yaml::<PodCliqueSet>(&set(name, 1)).await;
            fixture.wait_for_ready_pods(name, 3).await;
            if is_down {
                cluster.stop(SERVICE).await;
            }
            sets.delete(name, &params).await.expect("the set is deleted");
            if is_down {
                fixture
                    .ns
                    .wait_for("no pods and cliques are left", |state| state.pods.is_empty() && state.cliques.is_empty())
                    .await;
                let domain = format!("{name}-0");
                fixture.wait_for_domain(&domain, |domain| domain.metadata.deletion_timestamp.is_some()).await;
                cluster.up().await;
            }
            fixture.wait_for_domains(&[]).await;
            fixture.ns.wait_for("the set is deleted", |state| state.sets.is_empty() && state.pods.is_empty()).await;
        }
    }
    fixture.ns.create_yaml::<PodCliqueSet>(&set("orphans", 1)).await;
    fixture.wait_for_ready_pods("orphans", 3).await;
    sets.delete("orphans", &DeleteParams::orphan()).await.expect("the set is deleted");
    let is_released =
        |domain: &ComputeDomain| domain.owner_references().is_empty() && !has_finalizer(domain, GROVE_FINALIZER);
    fixture.wait_for_domain("orphans-0", is_released).await;
    // A new set of that name does not take the domain over.
    fixture.ns.create_yaml::<PodCliqueSet>(&set("orphans", 1)).await;
    let text = "ComputeDomain orphans-0 exists";
    fixture.wait_for_condition("orphans", "ComputeDomainsCreated", "NameConflict", text).await;
    fixture.delete_domain("orphans-0").await;
    fixture.wait_for_condition("orphans", "ComputeDomainsCreated", "AllComputeDomainsExist", "all 1").await;
    sets.delete("orphans", &DeleteParams::background()).await.expect("the set is deleted");
    fixture.wait_for_domains(&[]).await;
    fixture.check_history().await;
}
