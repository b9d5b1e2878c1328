//! Real daemons of compute domains, which synchronize their state with each strategy.

use std::collections::BTreeMap;

use e2e::compute_domains::{CLIQUE_CRD_FILE, CRD_FILE, Daemon, DaemonSpec};
use e2e::kubectl::kubectl_on;
use e2e::poll::poll_until;
use e2e::{Namespace, TestCluster};
use futures::future::join_all;
use grove_api_types::SYSTEM_NAMESPACE;
use grove_api_types::compute_domain::clique::ComputeDomainClique;
use grove_api_types::compute_domain::entry::{Entry, Readiness};
use grove_api_types::compute_domain::status::ComputeDomainStatus;
use grove_api_types::compute_domain::strategy::Strategy;
use grove_api_types::compute_domain::{ComputeDomain, ComputeDomainState};
use grove_api_types::names::ComputeDomainCliqueName;
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::compute_domains::configuration_with;

const CLIQUE: &str = "0a0a0a0a-0000-4000-8000-000000000000.7";
/// The daemons of a domain.
const DAEMONS: usize = 3;

/// A domain whose daemons synchronize with one strategy.
struct Fixture<'a> {
    cluster: &'a TestCluster,
    client: Client,
    domain: ComputeDomain,
    strategy: Strategy,
}

impl<'a> Fixture<'a> {
    async fn create(cluster: &'a TestCluster, strategy: Strategy) -> Self {
        let client = cluster.client().await;
        let ns = Namespace::create(&client, &format!("e2e-daemons-of-{}", strategy.name())).await;
        let spec = json!({ "numNodes": DAEMONS, "channel": { "resourceClaimTemplate": { "name": "llm-0" } } });
        let domain = json!({ "apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomain",
            "metadata": { "name": "llm-0" }, "spec": spec });
        let create = ["create", "--namespace", &ns.name, "--filename=-"];
        kubectl_on(cluster, &create, &domain.to_string()).await.expect("the domain is created");
        let domain = ns.api::<ComputeDomain>().get("llm-0").await.expect("the domain");
        Self { cluster, client, domain, strategy }
    }

    /// Starts the daemon of a node.
    async fn start(&self, node: usize) -> Daemon {
        let (strategy, node) = (self.strategy.name(), format!("node-{node}"));
        let (pod, flag) = (format!("{strategy}-on-{node}"), format!("--sync-strategy={strategy}"));
        let spec = DaemonSpec { domain: &self.domain, clique: CLIQUE, pod: &pod, node: &node, flags: &[&flag] };
        Daemon::start(self.cluster, spec).await
    }

    /// The stored entries.
    async fn entries(&self) -> Option<Vec<Entry>> {
        if self.strategy.has_cliques() {
            return Some(self.clique().await?.daemons);
        }
        Some(self.status().await?.nodes.into_iter().map(Entry::from).collect())
    }

    async fn status(&self) -> Option<ComputeDomainStatus> {
        let namespace = self.domain.namespace().expect("a namespace");
        let domains = Api::<ComputeDomainState>::namespaced(self.client.clone(), &namespace);
        Some(domains.get("llm-0").await.ok()?.status)
    }

    async fn clique(&self) -> Option<ComputeDomainClique> {
        let cliques = Api::<ComputeDomainClique>::namespaced(self.client.clone(), SYSTEM_NAMESPACE);
        let uid = self.domain.uid().expect("a UID");
        cliques.get_opt(ComputeDomainCliqueName::of_domain(&uid, CLIQUE).as_str()).await.ok()?
    }

    /// Waits until the entries are those of these daemons, all ready, with the indices from 0, and each daemon has the addresses of all. Returns
    /// the addresses by index.
    async fn wait_until_formed(&self, daemons: &[Daemon]) -> BTreeMap<i64, String> {
        let formed = poll_until(async || {
            let entries = self.entries().await?;
            let by_index: BTreeMap<_, _> = entries.iter().map(|it| (it.index, it.ip_address.clone())).collect();
            let are_complete = entries.len() == daemons.len() && by_index.len() == daemons.len();
            let are_dense = by_index.keys().copied().eq((0..).take(daemons.len()));
            let are_ready = entries.iter().all(|entry| entry.status == Readiness::Ready);
            let are_known = daemons.iter().all(|daemon| daemon.hosts() == by_index && !daemon.imex_log().is_empty());
            (are_complete && are_dense && are_ready && are_known).then_some(by_index)
        });
        formed.await
    }
}

fn index_of(hosts: &BTreeMap<i64, String>, daemon: &Daemon) -> i64 {
    *hosts.iter().find(|(_, address)| **address == daemon.address()).expect("the index").0
}

fn count(daemon: &Daemon, word: &str) -> usize {
    daemon.imex_log().iter().filter(|line| *line == word).count()
}

/// Three daemons start at once, one crashes, one leaves, another one comes, and all leave.
async fn form_and_change(cluster: &TestCluster, strategy: Strategy) {
    let fixture = Fixture::create(cluster, strategy).await;
    let mut daemons = join_all((0..DAEMONS).map(|node| fixture.start(node))).await;
    let formed = fixture.wait_until_formed(&daemons).await;

    daemons[0].crash().await;
    poll_until(async || (count(&daemons[0], "start") == 2).then_some(())).await;
    assert_eq!(fixture.wait_until_formed(&daemons).await, formed, "{strategy:?}: a crash changes no index");

    replace_second(&fixture, &mut daemons, formed).await;
    if strategy == Strategy::ControllerClique {
        wait_for_summary(&fixture).await;
    }

    join_all(daemons.into_iter().map(|daemon| daemon.stop(&fixture.client))).await;
    wait_until_nothing_is_left(&fixture).await;
}

/// The second daemon leaves, and the daemon of another node takes its index.
async fn replace_second(fixture: &Fixture<'_>, daemons: &mut Vec<Daemon>, formed: BTreeMap<i64, String>) {
    let left = daemons.remove(1);
    let index = index_of(&formed, &left);
    let others: BTreeMap<_, _> = formed.into_iter().filter(|(other, _)| *other != index).collect();
    left.stop(&fixture.client).await;
    poll_until(async || daemons.iter().all(|daemon| daemon.hosts() == others).then_some(())).await;

    let before: Vec<_> = daemons.iter().map(|daemon| count(daemon, "signal")).collect();
    daemons.push(fixture.start(DAEMONS).await);
    let again = fixture.wait_until_formed(daemons).await;
    let newcomer = &daemons[DAEMONS - 1];
    assert_eq!(index_of(&again, newcomer), index, "{:?}: the newcomer fills the gap", fixture.strategy);
    let are_signalled = || daemons.iter().zip(&before).all(|(daemon, before)| count(daemon, "signal") > *before);
    poll_until(async || are_signalled().then_some(())).await;
}

/// The object of a clique is deleted after the last pod, its owner.
async fn wait_until_nothing_is_left(fixture: &Fixture<'_>) {
    let has_cliques = fixture.strategy.has_cliques();
    let is_left = async || {
        if has_cliques { Some(fixture.clique().await.is_some()) } else { Some(!fixture.entries().await?.is_empty()) }
    };
    poll_until(async || (!is_left().await?).then_some(())).await;
    poll_until(async || (fixture.status().await? == ComputeDomainStatus::default()).then_some(())).await;
}

/// The status of the domain has its cliques, and is ready.
async fn wait_for_summary(fixture: &Fixture<'_>) {
    let expected = json!({ "status": "Ready", "cliques": [{ "id": CLIQUE, "status": "Ready" }] });
    poll_until(async || (json!(fixture.status().await?) == expected).then_some(())).await;
}

fn configuration(name: &str, strategy: Strategy) -> String {
    let fields = json!({ "computeDomain": { "stateSync": "grove", "syncStrategy": strategy.name() } });
    configuration_with(name, fields)
}

#[tokio::test(flavor = "multi_thread")]
async fn daemons_find_each_other_with_each_strategy() {
    // Without controller-clique, mnnvl-controller writes no state, and the daemons of the other strategies need none.
    let without = configuration("domain-daemons", Strategy::SsaStatus);
    let flags = |config| ["--config", config, "--crd", CRD_FILE, "--crd", CLIQUE_CRD_FILE];
    let mut cluster = TestCluster::with_own_services("domain-daemons", &flags(&without)).await;
    let of_driver = [Strategy::RmwStatus, Strategy::SsaStatus, Strategy::RmwClique, Strategy::SsaClique];
    join_all(of_driver.map(|strategy| form_and_change(&cluster, strategy))).await;

    let with = configuration("domain-daemons-of-controller", Strategy::ControllerClique);
    cluster.up_with(&flags(&with)).await;
    form_and_change(&cluster, Strategy::ControllerClique).await;
    cluster.down().await;
}
