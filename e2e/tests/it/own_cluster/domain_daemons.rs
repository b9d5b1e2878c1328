//! Compute domains whose state mnnvl-controller synchronizes, with real daemons and a stand-in for NVIDIA's kubelet plugin.

use e2e::TestCluster;
use e2e::compute_domains::{CLIQUE_CRD_FILE, CRD_FILE, install_channels, install_daemons};
use futures::future::join_all;
use grove_api_types::compute_domain::strategy::Strategy;
use serde_json::{Value, json};

use super::compute_domains::configuration_with;

mod foreign;
mod policies;
mod sets;
mod strategies;

/// The nodes of the dev cluster: those of the domains with each strategy, and those of the pods of sets.
const NODES: usize = Strategy::ALL.len() * strategies::NODES_PER_DOMAIN + 20;

/// The file of a configuration with these fields of `computeDomain`.
fn configuration(name: &str, mut domains: Value) -> String {
    domains["stateSync"] = json!("grove");
    let fields = json!({ "computeDomain": domains, "network": { "autoMNNVLEnabled": true } });
    configuration_with(&format!("domain-daemons-{name}"), fields)
}

/// The cases share the services, instead of a start for each.
#[tokio::test(flavor = "multi_thread")]
async fn daemons_form_the_domains_of_each_strategy() {
    let config = configuration("default", json!({}));
    let nodes = NODES.to_string();
    let flags = ["--config", &config, "--crd", CRD_FILE, "--crd", CLIQUE_CRD_FILE, "--nodes", &nodes];
    let mut cluster = TestCluster::with_own_services("domain-daemons", &flags).await;
    let client = cluster.client().await;
    policies::apply(&cluster).await;
    install_channels(&client).await;
    install_daemons(&client).await;
    tokio::join!(
        join_all(Strategy::ALL.map(|(_, strategy)| strategies::form_and_change(&cluster, strategy))),
        foreign::a_domain_of_another_manager_is_reported(&cluster),
        foreign::a_claim_template_of_a_user_is_reported(&cluster),
        foreign::a_negative_number_of_nodes_is_rejected(&cluster),
        policies::other_writes_are_denied(&cluster),
        foreign::objects_without_domain_are_removed(&cluster),
    );
    sets::domains_keep_their_state_when_gate_and_strategy_change(&mut cluster).await;
    cluster.down().await;
}
