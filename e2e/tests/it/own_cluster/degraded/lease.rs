//! A service that cannot use its lease keeps running and writes nothing; a service whose lease another process holds exits.

use e2e::service_replica::ServiceReplica;
use e2e::standalone::StandaloneService;
use e2e::{Namespace, TestCluster};
use grove_api_types::SYSTEM_NAMESPACE;
use grove_api_types::v1alpha1::PodCliqueSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use serde_json::json;

use super::three_cliques_are_ready;

/// Renewals are forbidden: the leader reports that, stops writing, and leads again when they are allowed.
pub(super) async fn forbidden(cluster: &TestCluster, ns: &Namespace, service: &str) {
    let roles = Api::<Role>::namespaced(ns.client.clone(), SYSTEM_NAMESPACE);
    let granted = roles.get(service).await.expect("the Role");
    let mut restricted = granted.clone();
    restricted
        .rules
        .iter_mut()
        .flatten()
        .filter(|rule| covers_leases(rule))
        .for_each(|rule| rule.verbs = vec!["get".into()]);
    let restricted = roles.replace(service, &PostParams::default(), &restricted).await.expect("the Role is replaced");
    cluster.wait_for_log(service, "could not read or write the lease, will retry").await;
    cluster.wait_for_log(service, "could not renew the lease before the renew deadline").await;
    let restored = Role { metadata: restricted.metadata, ..granted };
    roles.replace(service, &PostParams::default(), &restored).await.expect("the Role is restored");
    cluster.wait_for_log(service, "the requests for the lease succeed again").await;
}

fn covers_leases(rule: &PolicyRule) -> bool {
    rule.resources.as_deref() == Some(&["leases".to_owned()])
}

/// Another holder acquires the lease of a running leader: the process exits with code 1, and its successor waits for the
/// lease.
pub(super) async fn acquired_by_another(cluster: &TestCluster, ns: &Namespace) {
    let service = "pcs-controller";
    let replica = ServiceReplica::take_over(cluster, service, &[]).await;
    let leases = Api::<Lease>::namespaced(ns.client.clone(), SYSTEM_NAMESPACE);
    let is_held = |lease: Option<&Lease>| {
        let holder = lease.and_then(|lease| lease.spec.as_ref()?.holder_identity.as_deref());
        holder.is_some_and(|holder| !holder.is_empty())
    };
    await_condition(leases.clone(), service, is_held).await.expect("the replica leads");
    let holder = json!({ "spec": { "holderIdentity": "another-replica" } });
    leases.patch(service, &PatchParams::default(), &Patch::Merge(holder)).await.expect("the holder is replaced");
    assert_eq!(replica.wait_for_exit().await.code(), Some(1), "the exit code of a lost lease");
    cluster.wait_for_log(service, "was acquired by another-replica; this replica no longer leads").await;
    cluster.start_again().await;
    ns.scale::<PodCliqueSet>("llm", 2).await;
    ns.wait_for("two replicas are ready", |state| three_cliques_are_ready(state, 2)).await;
}

/// Two processes have the same identity: the first exits with code 1 and logs how to fix it.
pub(super) async fn duplicate_identity(cluster: &TestCluster, ns: &Namespace) {
    let service = "pcs-controller";
    let first = ServiceReplica::take_over(cluster, service, &[]).await;
    ns.scale::<PodCliqueSet>("llm", 3).await;
    ns.wait_for("the first leads", |state| three_cliques_are_ready(state, 3)).await;
    // The identity of the cluster's own process.
    let identity = service;
    let kubeconfig = cluster.dir().join("sa").join(service).join("kubeconfig").display().to_string();
    let second = StandaloneService::start(service, &["--kubeconfig", &kubeconfig, "--identity", identity]);
    assert_eq!(first.wait_for_exit().await.code(), Some(1), "the exit code of a lost lease");
    cluster.wait_for_log(service, "set a different --identity for each replica").await;
    ns.scale::<PodCliqueSet>("llm", 1).await;
    ns.wait_for("the second leads", |state| three_cliques_are_ready(state, 1)).await;
    second.stop().await;
    cluster.start_again().await;
}
