//! Each of the two controllers is stopped while a user changes something, and started again.

use super::*;

const SERVICES: [&str; 2] = [SERVICE, "pcs-controller"];

/// Labels, the reference to the set, and the finalizer, while the service runs and while it is stopped.
pub(super) async fn edits_are_restored(cluster: &TestCluster) {
    let fixture = Fixture::create(cluster, "e2e-domains-edits").await;
    fixture.create_set("llm", 3).await;
    let edits = [
        json!({ "metadata": { "labels": { "grove.io/podcliqueset-replica-index": "7" } } }),
        json!({ "metadata": { "ownerReferences": null } }),
        json!({ "metadata": { "finalizers": [DRIVER_FINALIZER] } }),
    ];
    let before = uids(&fixture).await;
    edit_and_wait(&fixture, &edits).await;
    edit_while_stopped(cluster, &fixture, &edits).await;
    assert_eq!(uids(&fixture).await, before);
    fixture.ns.delete_object::<PodCliqueSet>("llm").await;
    fixture.wait_for_domains(&[]).await;
}

async fn edit_and_wait(fixture: &Fixture, edits: &[Value]) {
    for edit in edits {
        fixture.patch("llm-0", edit).await;
        fixture.wait_for_domain("llm-0", |domain| is_restored(domain, "0")).await;
    }
}

/// Each domain has one of the edits.
async fn edit_while_stopped(cluster: &TestCluster, fixture: &Fixture, edits: &[Value]) {
    let edit = async {
        for (index, edit) in edits.iter().enumerate() {
            fixture.patch(&format!("llm-{index}"), edit).await;
        }
    };
    cluster.during_stop(SERVICE, edit).await;
    for index in ["0", "1", "2"] {
        fixture.wait_for_domain(&format!("llm-{index}"), |domain| is_restored(domain, index)).await;
    }
}

fn is_restored(domain: &ComputeDomain, replica: &str) -> bool {
    domain.labels().get("grove.io/podcliqueset-replica-index").is_some_and(|index| index == replica)
        && domain.owner_references().iter().any(|owner| owner.controller == Some(true))
        && has_finalizer(domain, GROVE_FINALIZER)
        && has_finalizer(domain, DRIVER_FINALIZER)
}

/// The test plays an mnnvl-controller of a later version, which protects domains by another finalizer. pcs-controller does not know it, so the
/// replica waits for that of this version.
pub(super) async fn a_finalizer_of_a_later_version_protects_no_domain(cluster: &TestCluster) {
    let fixture = Fixture::create(cluster, "e2e-domains-later").await;
    fixture.create_set("llm", 1).await;
    let domain = later_domain(&fixture.wait_for_domain("llm-0", |_| true).await);
    // On the heap: this is a large future.
    let scale_out = Box::pin(async {
        let create = ["create", "--namespace", &fixture.ns.name, "--filename=-"];
        kubectl_on(cluster, &create, &domain).await.expect("the domain is created");
        fixture.ns.scale::<PodCliqueSet>("llm", 2).await;
        let text = "llm-1 lacks the finalizer of Grove";
        let state = fixture.ns.wait_for_condition("llm", "Available", "ComputeDomainsPending", text).await;
        assert!(state.cliques.keys().all(|clique| clique.starts_with("llm-0-")), "{state}");
    });
    cluster.during_stop(SERVICE, scale_out).await;
    fixture.wait_for_ready_replicas("llm", 2).await;
    // Only the later version would remove it.
    fixture.patch("llm-1", &json!({ "metadata": { "finalizers": [GROVE_FINALIZER, DRIVER_FINALIZER] } })).await;
    fixture.delete_last_set("llm").await;
}

/// The domain of the next replica, with the finalizer of a later version.
fn later_domain(first: &ComputeDomain) -> String {
    let (mut labels, name) = (first.labels().clone(), "llm-1");
    labels.insert(SET_REPLICA.to_owned(), "1".to_owned());
    let finalizers = [format!("{GROVE_FINALIZER}-v2")];
    let owners = first.owner_references();
    let metadata = json!({ "name": name, "labels": labels, "ownerReferences": owners, "finalizers": finalizers });
    let mut domain = json!(first);
    json_patch::merge(
        &mut domain,
        &json!({ "apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomain",
            "spec": { "channel": { "resourceClaimTemplate": { "name": name } } } }),
    );
    domain["metadata"] = metadata;
    domain.to_string()
}

/// A set is created, scaled out, loses a domain, is scaled in and deleted: each while a service is stopped.
pub(super) async fn each_step_completes_after_a_stop(cluster: &TestCluster) {
    for service in SERVICES {
        let fixture = Fixture::create(cluster, &format!("e2e-domains-stop-{service}")).await;
        let stopped = Stopped { cluster, service, fixture: &fixture };
        stopped.create_and_scale_out().await;
        stopped.delete_a_domain_and_scale_in().await;
        stopped.delete_the_set().await;
        fixture.check_history().await;
    }
}

struct Stopped<'a> {
    cluster: &'a TestCluster,
    service: &'a str,
    fixture: &'a Fixture,
}

impl Stopped<'_> {
    async fn create_and_scale_out(&self) {
        let Self { cluster, service, fixture } = self;
        let create = async { drop(fixture.ns.create_yaml::<PodCliqueSet>(&set("llm", 1)).await) };
        cluster.during_stop(service, create).await;
        fixture.ns.wait_for_ready_pods("llm", 3).await;
        cluster.during_stop(service, fixture.ns.scale::<PodCliqueSet>("llm", 3)).await;
        fixture.ns.wait_for_ready_pods("llm", 9).await;
        fixture.wait_for_domains(&["llm-0", "llm-1", "llm-2"]).await;
    }

    async fn delete_a_domain_and_scale_in(&self) {
        let Self { cluster, service, fixture } = self;
        let uid = fixture.wait_for_domain("llm-0", |_| true).await.uid();
        let delete_and_scale = async {
            fixture.delete_domain("llm-0").await;
            fixture.ns.scale::<PodCliqueSet>("llm", 2).await;
        };
        cluster.during_stop(service, delete_and_scale).await;
        self.the_deleted_domain_stays_while_it_is_used(uid.as_deref()).await;
        // Without cliques, the replica gets another domain.
        fixture.ns.scale::<PodCliqueSet>("llm", 0).await;
        fixture.wait_for_domains(&[]).await;
        fixture.scale_set("llm", 1).await;
        fixture.wait_for_domain("llm-0", |domain| !is_terminating(domain) && domain.uid() != uid).await;
    }

    /// The domain of the removed replica is deleted.
    async fn the_deleted_domain_stays_while_it_is_used(&self, uid: Option<&str>) {
        let fixture = self.fixture;
        let domains = fixture.wait_for_domains(&["llm-0", "llm-1"]).await;
        let [first, second] = &domains[..] else { unreachable!("two domains") };
        assert!(first.metadata.uid.as_deref() == uid && is_terminating(first), "{first:?}");
        assert!(has_finalizer(first, GROVE_FINALIZER) && !is_terminating(second), "{first:?} {second:?}");
        let text = "no pod has a claim of these";
        fixture.ns.wait_for_condition("llm", "ComputeDomainsCreated", "ComputeDomainTerminating", text).await;
        let state = fixture.wait_for_ready_replicas("llm", 2).await;
        // Another pod replaces a deleted one and does not wait.
        let without_claim = |pod: &&Pod| claim_templates(pod).is_empty() && pod.labels()[SET_REPLICA] == "0";
        let pod = state.pods_of("llm").find(without_claim).expect("the pod without GPUs").name_any();
        fixture.ns.delete_object::<Pod>(&pod).await;
        let is_replaced = |state: &NamespaceState| !state.pods.contains_key(&pod) && state.pods.len() == 6;
        fixture.ns.wait_for("the pod is replaced", is_replaced).await;
    }

    /// Only the deletion of the domains waits for mnnvl-controller.
    async fn delete_the_set(&self) {
        let Self { cluster, service, fixture } = self;
        fixture.create_set("foreground", 1).await;
        cluster.stop(service).await;
        fixture.ns.delete_object::<PodCliqueSet>("llm").await;
        let sets = fixture.ns.api::<PodCliqueSet>();
        sets.delete("foreground", &DeleteParams::foreground()).await.expect("the set is deleted");
        if *service == SERVICE {
            fixture.ns.wait_for("only the domains are left", NamespaceState::is_empty).await;
            for domain in ["foreground-0", "llm-0"] {
                fixture.wait_for_domain(domain, |domain| !is_terminating(domain)).await;
            }
        }
        cluster.start_again().await;
        fixture.wait_for_domains(&[]).await;
        fixture.ns.wait_for("nothing is left", NamespaceState::is_empty).await;
    }
}

/// A set scales 2 → 1 → 2 while pcs-controller is stopped. The second replica runs on, and keeps its domain.
pub(super) async fn a_replica_that_returns_keeps_its_domain(cluster: &TestCluster) {
    let fixture = Fixture::create(cluster, "e2e-domains-returning").await;
    let pods = fixture.create_set("llm", 2).await;
    let before = uids(&fixture).await;
    let scale_in_and_out = async {
        for replicas in [1, 2] {
            fixture.ns.scale::<PodCliqueSet>("llm", replicas).await;
            let text = format!("all {replicas} ComputeDomains exist");
            let reason = "AllComputeDomainsExist";
            fixture.ns.wait_for_condition("llm", "ComputeDomainsCreated", reason, &text).await;
        }
    };
    Box::pin(cluster.during_stop("pcs-controller", scale_in_and_out)).await;
    let state = fixture.wait_for_ready_replicas("llm", 2).await;
    assert_eq!(uids(&fixture).await, before);
    assert!(state.pods.keys().eq(pods.pods.keys()), "{pods}{state}");
    fixture.delete_last_set("llm").await;
}
