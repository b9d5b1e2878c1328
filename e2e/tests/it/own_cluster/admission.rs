//! The admission rows, run as dry runs against a real API server: each row with its configuration and its cluster state, and
//! with exact messages. First the admission policy runs alone, then the webhooks with CRDs that have no validation rules,
//! then all together.

mod cluster_state;
mod policy_only;
mod relaxed_crds;

use std::collections::BTreeMap;

use cluster_state::ClusterState;
use e2e::TestCluster;
use e2e::service_replica::ServiceReplica;
use policy_only::PolicyCases;
use relaxed_crds::RelaxedCrds;
use serde_json::json;

use super::dry_run::{Case, run_cases};
use grove_test_support::rows::{RowFacts, patches, rows, scales};

/// With the kind, mnnvl-controller starts although the configuration enables automatic MNNVL.
const COMPUTE_DOMAIN_CRD: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/components/compute-domains/computedomain.yaml");

/// Takes long: each row is a request, many of them twice, and webhook-server restarts for each configuration of the rows.
#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_enforces_the_admission_rules() {
    let cluster = TestCluster::with_own_services(
        "admission",
        &["--config", &configuration_file("first", &RowFacts::default()), "--crd", COMPUTE_DOMAIN_CRD],
    )
    .await;
    // The test stores objects only for validation, so the controllers must not reconcile them.
    for controller in ["pcs-controller", "pclq-controller", "topology-controller", "mnnvl-controller"] {
        cluster.stop(controller).await;
    }
    let client = cluster.client().await;
    let mut state = ClusterState::install(&client).await;
    let relaxed_crds = RelaxedCrds::install(&client).await;
    let mut with_rules = Groups::default();
    // Cases with a CRD error, for the run in which the CRDs have no rules.
    let mut without_rules = Groups::default();
    let mut policy_cases = PolicyCases::default();
    for (number, row) in rows().iter().enumerate().filter(|(_, row)| row.unit_test_only.is_none()) {
        let cases = state.prepare(number, row).await;
        policy_cases.add(row, &cases);
        if !row.schema_only && !row.kubernetes_rule {
            let with_crd_error = cases.iter().filter(|case| !case.crd_error.is_empty());
            without_rules.entry(shared(&row.facts)).or_default().extend(with_crd_error.map(Case::for_webhook));
        }
        with_rules.entry(shared(&row.facts)).or_default().extend(cases);
    }
    for row in &scales() {
        let case = state.prepare_scale(row).await;
        if !row.crd_errors.is_empty() && !row.kubernetes_rule {
            without_rules.entry(RowFacts::default()).or_default().push(case.for_webhook());
        }
        with_rules.entry(RowFacts::default()).or_default().push(case);
    }
    for (number, row) in patches().iter().enumerate().filter(|(_, row)| row.unit_test_only.is_none()) {
        with_rules.entry(shared(&row.facts)).or_default().push(state.prepare_patch(number, row).await);
    }
    let mut failures = policy_cases.run(&client).await;
    state.restore_webhooks().await;
    let mut server = ServiceReplica::take_over(&cluster, "webhook-server", &[]).await;
    let count = [&without_rules, &with_rules].into_iter().flat_map(BTreeMap::values).map(Vec::len).sum::<usize>();
    without_rules.retain(|_, cases| !cases.is_empty());
    failures.extend(run_groups(&state, &mut server, ("without CRD rules", without_rules)).await);
    relaxed_crds.restore().await;
    failures.extend(run_groups(&state, &mut server, ("with CRD rules", with_rules)).await);
    println!("{count} cases");
    assert!(
        failures.is_empty(),
        "{} of {count} results differ from the rows:\n{}",
        failures.len(),
        failures.join("\n")
    );
    drop(server);
    cluster.down().await;
}

/// Cases by what they share: the configuration and the queues of Volcano.
type Groups = BTreeMap<RowFacts, Vec<Case>>;

/// Runs each group under its configuration; the result is the list of failures.
async fn run_groups(state: &ClusterState, server: &mut ServiceReplica, (title, groups): (&str, Groups)) -> Vec<String> {
    let mut failures = vec![];
    for (at, (facts, cases)) in groups.into_iter().enumerate() {
        state.set_queues(&facts).await;
        server.set_flag("--config", &configuration_file(&format!("{}-{at}", title.replace(' ', "-")), &facts));
        server.restart().await;
        let failed = run_cases(state.client(), cases).await;
        failures.extend(failed.into_iter().map(|failure| format!("{title}: {failure}")));
    }
    failures
}

/// The facts of a row that concern the whole cluster, without those about its own objects.
fn shared(facts: &RowFacts) -> RowFacts {
    RowFacts { scheduled: false, name_conflict: false, grove_user: false, referencing_sets: vec![], ..facts.clone() }
}

/// All schedulers; the first one is always enabled.
const SCHEDULERS: [&str; 4] = ["default-scheduler", "kai-scheduler", "volcano", "lpx-scheduler"];

/// Writes the configuration that rows require. The file is outside of the cluster's folder, which does not exist yet. JSON
/// is YAML.
fn configuration_file(name: &str, facts: &RowFacts) -> String {
    let enabled: Vec<_> = SCHEDULERS
        .iter()
        .filter(|name| !facts.disabled_schedulers.iter().any(|other| other == *name))
        .copied()
        .collect();
    let default = facts.default_scheduler.as_deref().unwrap_or(SCHEDULERS[0]);
    // Rows with an impossible configuration have the field `onlyHere`.
    let is_possible = enabled.contains(&default) && enabled.contains(&SCHEDULERS[0]);
    assert!(is_possible, "the configuration is impossible: {facts:?}");
    let profiles: Vec<_> = enabled.iter().map(|name| json!({ "name": name })).collect();
    let levels =
        if facts.default_levels { json!([{ "domain": "rack", "key": "example.com/rack" }]) } else { json!([]) };
    let configuration = json!({
        "apiVersion": "operator.config.grove.io/v1alpha1",
        "kind": "OperatorConfiguration",
        "topologyAwareScheduling": { "enabled": !facts.topology_disabled, "levels": levels },
        "network": { "autoMNNVLEnabled": !facts.mnnvl_disabled,
            "autoMNNVLScope": if facts.multi_node_mnnvl { "multiNode" } else { "all" } },
        "scheduler": { "profiles": profiles, "defaultProfileName": default },
    });
    let folder = TestCluster::shared().dir().join("admission");
    std::fs::create_dir_all(&folder).expect("a folder for the files of this test");
    let file = folder.join(name).with_extension("yaml");
    std::fs::write(&file, configuration.to_string()).expect("the configuration is written");
    file.display().to_string()
}
