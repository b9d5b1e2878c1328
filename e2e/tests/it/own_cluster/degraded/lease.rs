//! A service that cannot work with its lease lives on and writes nothing; one whose lease somebody else has ends.

use e2e::apart::Apart;
use e2e::replicas::Replica;
use e2e::{Namespace, Plane};
use grove_api_types::v1alpha1::PodCliqueSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use serde_json::json;

use super::serves;

/// It may not be renewed: the leader says so and rests, and goes on when it may.
pub(super) async fn forbidden(plane: &Plane, ns: &Namespace, service: &str) {
    let roles = Api::<Role>::namespaced(ns.client.clone(), "grove-system");
    let granted = roles.get(service).await.expect("the service's rules in its namespace");
    let mut less = granted.clone();
    less.rules.iter_mut().flatten().filter(|rule| is_of_leases(rule)).for_each(|rule| rule.verbs = vec!["get".into()]);
    let less = roles.replace(service, &PostParams::default(), &less).await.expect("the rules are changed");
    plane.until_logged(service, "could not read or write the lease, will retry").await;
    plane.until_logged(service, "could not renew the lease before the renew deadline").await;
    let restored = Role { metadata: less.metadata, ..granted };
    roles.replace(service, &PostParams::default(), &restored).await.expect("the rules are restored");
    plane.until_logged(service, "the requests for the lease succeed again").await;
}

fn is_of_leases(rule: &PolicyRule) -> bool {
    rule.resources.as_deref() == Some(&["leases".to_owned()])
}

/// Somebody else takes it from a leader that lives: the process ends with code 1, and another waits until the lease is free.
pub(super) async fn taken(plane: &Plane, ns: &Namespace) {
    let service = "pcs-controller";
    let robbed = Replica::take_over(plane, service, &[]).await;
    let leases = Api::<Lease>::namespaced(ns.client.clone(), "grove-system");
    let is_held = |lease: Option<&Lease>| {
        let holder = lease.and_then(|lease| lease.spec.as_ref()?.holder_identity.as_deref());
        holder.is_some_and(|holder| !holder.is_empty())
    };
    await_condition(leases.clone(), service, is_held).await.expect("it leads");
    let holder = json!({ "spec": { "holderIdentity": "somebody" } });
    leases.patch(service, &PatchParams::default(), &Patch::Merge(holder)).await.expect("the lease is taken");
    assert_eq!(robbed.ended().await.code(), Some(1), "another acts");
    plane.until_logged(service, "was acquired by somebody; this replica no longer leads").await;
    plane.up().await;
    ns.scale::<PodCliqueSet>("llm", 2).await;
    ns.until("two replicas serve", |world| serves(world, 2)).await;
}

/// Two processes take themselves for the same replica: the first ends with code 1 and says what to do.
pub(super) async fn doubled(plane: &Plane, ns: &Namespace) {
    let service = "pcs-controller";
    let first = Replica::take_over(plane, service, &[]).await;
    ns.scale::<PodCliqueSet>("llm", 3).await;
    ns.until("the first leads", |world| serves(world, 3)).await;
    // What the plane calls it.
    let identity = service;
    let own = plane.dir().join("sa").join(service).join("kubeconfig").display().to_string();
    let second = Apart::start(service, &["--kubeconfig", &own, "--identity", identity]);
    assert_eq!(first.ended().await.code(), Some(1), "another acts");
    plane.until_logged(service, "set a different --identity for each replica").await;
    ns.scale::<PodCliqueSet>("llm", 1).await;
    ns.until("the second leads", |world| serves(world, 1)).await;
    second.end().await;
    plane.up().await;
}
