//! From a `PodCliqueSet` to its ready domains, with several configurations, until nothing is left of the set.

use std::collections::BTreeMap;

use e2e::compute_domains::{KubeletPlugin, NODE_LABEL};
use e2e::poll::poll_until;
use e2e::{Namespace, TestCluster};
use futures::future::join_all;
use grove_api_types::SYSTEM_NAMESPACE;
use grove_api_types::compute_domain::clique::ComputeDomainClique;
use grove_api_types::compute_domain::entry::{Entry, Readiness};
use grove_api_types::compute_domain::{ComputeDomain, ComputeDomainState, STRATEGY_ANNOTATION};
use grove_api_types::v1alpha1::PodCliqueSet;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimTemplate};
use kube::api::{DeleteParams, ListParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::configuration;
use crate::it::own_cluster::compute_domains::set;

/// The nodes of each domain: the set has two pods per replica with a claim.
const DAEMONS: usize = 2;

/// A set with two domains, and the kubelet plugin of its namespace.
struct Fixture {
    ns: Namespace,
    plugin: KubeletPlugin,
    strategy: &'static str,
}

impl Fixture {
    async fn create(cluster: &TestCluster, strategy: &'static str) -> Self {
        let ns = Namespace::create(&cluster.client().await, &format!("e2e-daemons-of-sets-{strategy}")).await;
        let fixture = Self { plugin: KubeletPlugin::start(cluster, &ns), ns, strategy };
        fixture.ns.create_yaml::<PodCliqueSet>(&set("llm", 2)).await;
        fixture.ns.wait_for_ready_pods("llm", 6).await;
        for domain in ["llm-0", "llm-1"] {
            fixture.wait_until_formed(domain).await;
        }
        fixture
    }

    /// Waits until the domain is ready and has an entry per node. Returns the indices and addresses by node.
    async fn wait_until_formed(&self, name: &str) -> BTreeMap<String, (i64, String)> {
        let formed = poll_until(async || {
            let domain = self.ns.api::<ComputeDomainState>().get(name).await.ok()?;
            assert_eq!(domain.annotations().get(STRATEGY_ANNOTATION)?, self.strategy);
            let is_ready = domain.status.status == Some(Readiness::Ready);
            let entries = self.entries(&domain).await?;
            let is_complete = entries.len() == DAEMONS && entries.iter().all(|it| it.status == Readiness::Ready);
            let mut indices: Vec<_> = entries.iter().map(|entry| entry.index).collect();
            indices.sort_unstable();
            let place = |entry: Entry| (entry.node_name, (entry.index, entry.ip_address));
            (is_ready && is_complete && indices == [0, 1]).then(|| entries.into_iter().map(place).collect())
        });
        formed.await
    }

    async fn entries(&self, domain: &ComputeDomainState) -> Option<Vec<Entry>> {
        let cliques = objects_of::<ComputeDomainClique>(&self.ns, &domain.uid()?).await?;
        let of_cliques = cliques.into_iter().flat_map(|clique| clique.daemons);
        let of_status = domain.status.nodes.iter().cloned().map(Entry::from);
        Some(of_cliques.chain(of_status).collect())
    }

    async fn uid(&self, domain: &str) -> String {
        self.ns.api::<ComputeDomain>().get(domain).await.expect("the domain").uid().expect("a UID")
    }

    /// The pods of the daemons of a domain.
    async fn daemon_pods(&self, uid: &str) -> Vec<Pod> {
        poll_until(async || objects_of::<Pod>(&self.ns, uid).await).await
    }

    /// Waits until the domain and everything with its label has been deleted.
    async fn wait_until_nothing_is_left(&self, domain: &str, uid: &str) {
        let nodes = Api::<Node>::all(self.ns.client.clone());
        let label = ListParams::default().labels(&format!("{NODE_LABEL}={uid}"));
        let left = async || {
            let templates = self.ns.api::<ResourceClaimTemplate>().list_metadata(&label).await.ok()?.items;
            let exists = self.ns.api::<ComputeDomain>().get_opt(domain).await.ok()?;
            let counts = [
                objects_of::<Pod>(&self.ns, uid).await?.len(),
                objects_of::<DaemonSet>(&self.ns, uid).await?.len(),
                objects_of::<ResourceClaimTemplate>(&self.ns, uid).await?.len(),
                objects_of::<ComputeDomainClique>(&self.ns, uid).await?.len(),
                nodes.list_metadata(&label).await.ok()?.items.len(),
                templates.len(),
                usize::from(exists.is_some_and(|domain| domain.uid().as_deref() == Some(uid))),
            ];
            Some(counts.iter().sum::<usize>())
        };
        poll_until(async || (left().await? == 0).then_some(())).await;
    }

    /// A pod of a daemon is deleted without a grace period. The `DaemonSet` replaces it, and its node keeps its index.
    async fn replace_daemon(&self) {
        let (formed, uid) = (self.wait_until_formed("llm-0").await, self.uid("llm-0").await);
        let lost = self.daemon_pods(&uid).await.remove(0);
        let pods = Api::<Pod>::namespaced(self.ns.client.clone(), SYSTEM_NAMESPACE);
        let params = DeleteParams::default().grace_period(0);
        pods.delete(&lost.name_any(), &params).await.expect("the pod is deleted");
        let node = lost.spec.and_then(|spec| spec.node_name).expect("a node");
        let address = poll_until(async || {
            let pods = objects_of::<Pod>(&self.ns, &uid).await?;
            let on_node =
                pods.into_iter().find(|pod| pod.spec.as_ref().and_then(|it| it.node_name.as_ref()) == Some(&node));
            let successor = on_node.filter(|pod| pod.metadata.uid != lost.metadata.uid)?;
            successor.status?.pod_ip
        });
        let address = address.await;
        let is_current = |formed: &BTreeMap<String, (i64, String)>| formed[&node].1 == address;
        let replaced = poll_until(async || Some(self.wait_until_formed("llm-0").await).filter(is_current)).await;
        assert_eq!(replaced[&node].0, formed[&node].0, "{}", self.strategy);
    }

    /// Another set is deleted as soon as its domain has the pod of a daemon.
    async fn delete_during_formation(&self) {
        self.ns.create_yaml::<PodCliqueSet>(&set("brief", 1)).await;
        let uid = poll_until(async || self.ns.api::<ComputeDomain>().get("brief-0").await.ok()?.uid()).await;
        poll_until(async || (!objects_of::<Pod>(&self.ns, &uid).await?.is_empty()).then_some(())).await;
        let domain = self.ns.api::<ComputeDomain>().get("brief-0").await.expect("the domain");
        assert_eq!(domain.annotations().get(STRATEGY_ANNOTATION).map(String::as_str), Some(self.strategy));
        self.ns.delete_object::<PodCliqueSet>("brief").await;
        self.wait_until_nothing_is_left("brief-0", &uid).await;
    }

    /// One replica is removed, and then the set.
    async fn remove(self) {
        let uids = [self.uid("llm-0").await, self.uid("llm-1").await];
        self.ns.scale::<PodCliqueSet>("llm", 1).await;
        self.wait_until_nothing_is_left("llm-1", &uids[1]).await;
        self.wait_until_formed("llm-0").await;

        self.ns.delete_object::<PodCliqueSet>("llm").await;
        self.wait_until_nothing_is_left("llm-0", &uids[0]).await;
        let claims = self.ns.api::<ResourceClaim>();
        poll_until(async || claims.list(&ListParams::default()).await.ok()?.items.is_empty().then_some(())).await;
    }
}

/// The objects of a domain in the namespace of the daemons.
async fn objects_of<K>(ns: &Namespace, uid: &str) -> Option<Vec<K>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let api = Api::<K>::namespaced(ns.client.clone(), SYSTEM_NAMESPACE);
    Some(api.list(&ListParams::default().labels(&format!("{NODE_LABEL}={uid}"))).await.ok()?.items)
}

/// The configuration changes while half of the daemons of a set restart: no entry changes.
pub(super) async fn domains_keep_their_state_when_gate_and_strategy_change(cluster: &mut TestCluster) {
    let mut all = Vec::new();
    for (name, fields, strategy) in [
        ("gate", json!({ "featureGates": { "ComputeDomainCliques": true } }), "ssa-status"),
        ("strategy", json!({ "syncStrategy": "rmw-status" }), "controller-clique"),
        ("default", json!({}), "rmw-status"),
    ] {
        let fixture = Fixture::create(cluster, strategy).await;
        let formed = fixture.wait_until_formed("llm-0").await;
        fixture.delete_during_formation().await;
        change_configuration(cluster, configuration(name, fields), &fixture).await;
        all.push((fixture, formed));
        for (fixture, formed) in &all {
            assert_eq!(fixture.wait_until_formed("llm-0").await, *formed, "{}: {name}", fixture.strategy);
        }
    }
    join_all(all.iter().map(|(fixture, _)| fixture.replace_daemon())).await;
    join_all(all.into_iter().map(|(fixture, _)| fixture.remove())).await;
}

/// Starts the services with another configuration, while half of the daemons of a set restart.
async fn change_configuration(cluster: &mut TestCluster, config: String, fixture: &Fixture) {
    let flags = ["--config", &config];
    tokio::join!(cluster.up_with(&flags), fixture.plugin.crash_half());
}
