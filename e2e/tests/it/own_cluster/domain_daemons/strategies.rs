//! Domains with each strategy, whose nodes the test adds and removes.

use std::collections::BTreeMap;

use e2e::compute_domains::{CLIQUE, Daemon, NODE_LABEL};
use e2e::kubectl::kubectl_on;
use e2e::poll::poll_until;
use e2e::{Namespace, TestCluster};
use futures::future::join_all;
use grove_api_types::SYSTEM_NAMESPACE;
use grove_api_types::compute_domain::clique::ComputeDomainClique;
use grove_api_types::compute_domain::entry::{Entry, Readiness};
use grove_api_types::compute_domain::status::ComputeDomainStatus;
use grove_api_types::compute_domain::strategy::Strategy;
use grove_api_types::compute_domain::{ComputeDomain, ComputeDomainState, STRATEGY_ANNOTATION};
use grove_api_types::names::{ComputeDomainCliqueName, DomainDaemonSetName};
use grove_dev_harness::readiness_probe;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

/// The daemons of a domain.
const DAEMONS: usize = 3;
/// Its nodes: another one replaces one of them.
pub(super) const NODES_PER_DOMAIN: usize = DAEMONS + 1;

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
        // The annotation of a domain whose synchronization began with this strategy, so that one configuration suffices for all.
        let metadata = json!({ "name": "llm-0", "annotations": { STRATEGY_ANNOTATION: strategy.name() } });
        let domain = json!({ "apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomain",
            "metadata": metadata, "spec": spec });
        let create = ["create", "--namespace", &ns.name, "--filename=-"];
        kubectl_on(cluster, &create, &domain.to_string()).await.expect("the domain is created");
        let domain = ns.api::<ComputeDomain>().get("llm-0").await.expect("the domain");
        Self { cluster, client, domain, strategy }
    }

    /// Starts the daemon of one of the nodes that only this domain uses.
    async fn start(&self, number: usize) -> Daemon {
        let node = self.node(number);
        Daemon::start(self.cluster.dir(), &self.client, &self.domain, &node).await
    }

    fn node(&self, number: usize) -> String {
        format!("node-{}", self.strategy as usize * NODES_PER_DOMAIN + number)
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
pub(super) async fn form_and_change(cluster: &TestCluster, strategy: Strategy) {
    let fixture = Fixture::create(cluster, strategy).await;
    let mut daemons = join_all((0..DAEMONS).map(|node| fixture.start(node))).await;
    let formed = fixture.wait_until_formed(&daemons).await;

    daemons[0].crash().await;
    poll_until(async || (count(&daemons[0], "start") == 2).then_some(())).await;
    assert_eq!(fixture.wait_until_formed(&daemons).await, formed, "{strategy:?}: a crash changes no index");

    change_strategies(&fixture, &mut daemons, &formed).await;
    let formed = delete_clique(&fixture, &daemons, formed).await;
    replace_second(&fixture, &mut daemons, formed).await;
    wait_for_summary(&fixture).await;

    end_all(daemons).await;
    wait_until_nothing_is_left(&fixture).await;
    delete_domain(&fixture).await;
}

/// The controller removes the entry of the first daemon, which cannot do it itself.
async fn end_all(mut daemons: Vec<Daemon>) {
    daemons.remove(0).lose().await;
    join_all(daemons.into_iter().map(Daemon::stop)).await;
}

/// A daemon serves probes, and all of them start with other strategies for the same object. No index changes.
async fn change_strategies(fixture: &Fixture<'_>, daemons: &mut [Daemon], formed: &BTreeMap<i64, String>) {
    if fixture.strategy != Strategy::RmwStatus {
        return;
    }
    let port = daemons[0].crash_and_serve_probes().await;
    readiness_probe::wait_for_success(port).await;
    for strategy in [Strategy::SsaStatus, Strategy::RmwStatus, Strategy::SsaStatus] {
        change_strategy(fixture, daemons, strategy).await;
        assert_eq!(fixture.wait_until_formed(daemons).await, *formed, "{strategy:?}");
    }
}

/// The annotation gets another strategy for the same object, and the daemons start again with it. Their entries belong to another field
/// manager then.
async fn change_strategy(fixture: &Fixture<'_>, daemons: &mut [Daemon], strategy: Strategy) {
    let domains =
        Api::<ComputeDomain>::namespaced(fixture.client.clone(), &fixture.domain.namespace().expect("a namespace"));
    let annotations = json!({ "metadata": { "annotations": { STRATEGY_ANNOTATION: strategy.name() } } });
    domains
        .patch_metadata("llm-0", &PatchParams::default(), &Patch::Merge(annotations))
        .await
        .expect("the annotation is changed");
    let starts: Vec<_> = daemons.iter().map(|daemon| count(daemon, "start")).collect();
    join_all(daemons.iter_mut().map(|daemon| daemon.crash_as(strategy))).await;
    let have_started = || daemons.iter().zip(&starts).all(|(daemon, before)| count(daemon, "start") > *before);
    poll_until(async || have_started().then_some(())).await;
}

/// The object of the clique is deleted under its daemons, and is created again. Returns the addresses by index. Only with the controller as
/// its writer, an index always survives. With server-side apply, two started daemons may even keep one index for ever.
async fn delete_clique(
    fixture: &Fixture<'_>,
    daemons: &[Daemon],
    formed: BTreeMap<i64, String>,
) -> BTreeMap<i64, String> {
    if !matches!(fixture.strategy, Strategy::RmwClique | Strategy::ControllerClique) {
        return formed;
    }
    let cliques = Api::<ComputeDomainClique>::namespaced(fixture.client.clone(), SYSTEM_NAMESPACE);
    let before = fixture.clique().await.expect("the clique");
    cliques.delete(&before.name_any(), &DeleteParams::default()).await.expect("the clique is deleted");
    poll_until(async || fixture.clique().await.filter(|clique| clique.uid() != before.uid())).await;
    let again = fixture.wait_until_formed(daemons).await;
    assert!(again == formed || fixture.strategy != Strategy::ControllerClique, "{again:?}");
    again
}

/// The domain is deleted with its `DaemonSet`, its claim templates and the label of its node.
async fn delete_domain(fixture: &Fixture<'_>) {
    let uid = fixture.domain.uid().expect("a UID");
    let namespace = fixture.domain.namespace().expect("a namespace");
    let daemons = DomainDaemonSetName::of_domain(&uid);
    let daemon_sets = Api::<DaemonSet>::namespaced(fixture.client.clone(), SYSTEM_NAMESPACE);
    let daemon_templates = Api::<ResourceClaimTemplate>::namespaced(fixture.client.clone(), SYSTEM_NAMESPACE);
    let templates = Api::<ResourceClaimTemplate>::namespaced(fixture.client.clone(), &namespace);
    let domains = Api::<ComputeDomain>::namespaced(fixture.client.clone(), &namespace);
    let nodes = Api::<Node>::all(fixture.client.clone());
    let daemon_set = daemon_sets.get(daemons.as_str()).await.expect("the DaemonSet");
    let strategy = json!(daemon_set.spec.template.spec.expect("a spec").containers[0].env);
    let variable = json!({ "name": "SYNC_STRATEGY", "value": fixture.strategy.name() });
    assert!(strategy.as_array().is_some_and(|variables| variables.contains(&variable)), "{strategy}");
    for (templates, name) in [(&daemon_templates, daemons.as_str()), (&templates, "llm-0")] {
        let template = templates.get(name).await.expect("the claim template");
        assert!(json!(template.spec).to_string().contains(&uid), "{template:?}");
    }
    let node = fixture.node(0);
    let label = json!({ "metadata": { "labels": { NODE_LABEL: uid } } });
    nodes.patch_metadata(&node, &PatchParams::default(), &Patch::Merge(label)).await.expect("the label is set");
    domains.delete("llm-0", &DeleteParams::default()).await.expect("the domain is deleted");
    let is_left = async || {
        let left = daemon_sets.get_opt(daemons.as_str()).await.ok()?.is_some()
            || daemon_templates.get_opt(daemons.as_str()).await.ok()?.is_some()
            || templates.get_opt("llm-0").await.ok()?.is_some()
            || domains.get_opt("llm-0").await.ok()?.is_some();
        let has_label = nodes.get_metadata(&node).await.ok()?.labels().contains_key(NODE_LABEL);
        Some(left || has_label)
    };
    poll_until(async || (!is_left().await?).then_some(())).await;
}

/// The second daemon leaves, and the daemon of another node takes its index.
async fn replace_second(fixture: &Fixture<'_>, daemons: &mut Vec<Daemon>, formed: BTreeMap<i64, String>) {
    let left = daemons.remove(1);
    let index = index_of(&formed, &left);
    let others: BTreeMap<_, _> = formed.into_iter().filter(|(other, _)| *other != index).collect();
    left.stop().await;
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
    let summary = async || Some(json!(ComputeDomainStatus { nodes: vec![], ..fixture.status().await? }));
    poll_until(async || (summary().await? == expected).then_some(())).await;
}
