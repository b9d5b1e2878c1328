//! Both controllers are killed, or stopped for a time, while sets are updated: at each watch event as many units are available as promised, and the
//! end state is that of an undisturbed update.

use std::collections::BTreeSet;
use std::time::Duration;

use e2e::poll::poll_until;
use e2e::watch_history::{Change, WatchHistory};
use e2e::{Namespace, NamespaceState, TestCluster, namespace_state::is_ready, normalized};
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use grove_api_types::labels;
use grove_api_types::v1alpha1::PodCliqueSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt;
use kube::api::{ListParams, PostParams};
use serde_json::json;
use tokio::sync::OnceCell;

use super::kill_series::{Kills, kill_series};
use super::kills::{QUIET, differences, is_complete, kills_and_seed, set};
use crate::it::rolling_updates::{assert_one_unit_at_a_time, label};

const SERVICES: [&str; 2] = ["pcs-controller", "pclq-controller"];
/// The numbers of sets of a short and of a long series.
const FEW_SETS: usize = 4;
const MANY_SETS: usize = 50;
/// The pods of each set.
const PODS: usize = 6;

/// Writes this value into a label of all cliques of a set.
async fn update(ns: &Namespace, name: &str, version: &str) {
    let manifest: serde_json::Value = serde_saphyr::from_str(&set(name)).expect("YAML");
    let mut cliques = manifest["spec"]["template"]["cliques"].clone();
    for clique in cliques.as_array_mut().expect("a list") {
        clique["labels"] = json!({ "version": version });
    }
    ns.patch::<PodCliqueSet>(name, json!({ "spec": { "template": { "cliques": cliques } } })).await;
}

fn has_version(pod: &Pod, version: &str) -> bool {
    label(pod, "version") == version
}

/// Whether the last update of all sets has ended, and all pods have this version and are ready.
fn has_ended(state: &NamespaceState, version: &str) -> bool {
    let has_ended = |set: &PodCliqueSet| {
        let Some(status) = &set.status else { return false };
        let progress = status.update_progress.as_ref();
        status.observed_generation == set.metadata.generation
            && progress.is_some_and(|progress| progress.update_ended_at.is_some())
    };
    state.sets.values().all(has_ended)
        && is_complete(state)
        && state.active_pods().all(|pod| has_version(pod, version) && is_ready(pod))
}

/// Updates all sets, and in the middle of this update to another template, which `interrupt` delays. Then deletes the sets. The end state of the
/// first run is that of all.
async fn run(fixture: &Fixture<'_>, name: &str, interrupt: impl AsyncFn(&Namespace, BoxFuture<'_, ()>)) {
    let ns = &Namespace::create(&fixture.cluster.client().await, name).await;
    let sets = fixture.sets;
    let names: Vec<_> = (0..sets).map(|number| format!("s{number}")).collect();
    join_all(names.iter().map(|name| async move { drop(ns.create_yaml::<PodCliqueSet>(&set(name)).await) })).await;
    let is_created = |state: &NamespaceState| state.sets.len() == sets && is_complete(state);
    ns.wait_for("all pods are ready", is_created).await;
    let history = WatchHistory::default().record::<Pod>(ns, |pod| *pod).await;
    update_all(ns, &names, interrupt).await;
    let changes = history.changes().await;
    for name in &names {
        assert_available(&changes, name);
    }
    compare(ns, fixture.reference).await;
    for name in &names {
        ns.delete_object::<PodCliqueSet>(name).await;
    }
    ns.wait_for("no objects exist", NamespaceState::is_empty).await;
    ns.delete().await;
}

async fn update_all(ns: &Namespace, names: &[String], interrupt: impl AsyncFn(&Namespace, BoxFuture<'_, ()>)) {
    join_all(names.iter().map(|name| update(ns, name, "second"))).await;
    let is_half_done = |state: &NamespaceState| {
        state.active_pods().filter(|pod| has_version(pod, "second")).count() * 2 > names.len() * PODS
    };
    ns.wait_for("half of the pods are new", is_half_done).await;
    interrupt(ns, join_all(names.iter().map(|name| update(ns, name, "third"))).map(drop).boxed()).await;
    ns.wait_for("the last update has ended", |state| has_ended(state, "third")).await;
}

/// Asserts that at most one pod of the standalone clique, and one replica of the scaling group, is down at a time.
fn assert_available(changes: &[Change<Pod>], name: &str) {
    let (clique, group) = (format!("{name}-0-f"), format!("{name}-0-g"));
    let is_of_clique = |pod: &Pod| label(pod, labels::POD_CLIQUE) == clique;
    assert_one_unit_at_a_time(changes, is_of_clique, (|pod: &Pod| label(pod, labels::POD_INDEX).to_owned(), 1));
    let is_of_group = |pod: &Pod| label(pod, labels::SCALING_GROUP) == group;
    let replica = |pod: &Pod| label(pod, labels::SCALING_GROUP_REPLICA).to_owned();
    assert_one_unit_at_a_time(changes, is_of_group, (replica, 2));
}

/// Compares the end state with that of the first run.
async fn compare(ns: &Namespace, reference: &OnceCell<BTreeSet<String>>) {
    let of_first_run = async || normalized::lines(&ns.wait_until_quiet(QUIET).await);
    let expected = reference.get_or_init(of_first_run).await;
    if let Err(state) = ns.try_wait_for(|state| normalized::has_lines(state, expected)).await {
        panic!("the end state differs from the undisturbed run\n{}", differences(expected, &state));
    }
}

/// Waits until the last pod is as old as this: nothing creates pods without the controllers.
async fn wait_without_new_pods(ns: &Namespace, age: Duration) {
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let mut probe = ConfigMap::default();
    probe.metadata.name = Some("probe".to_owned());
    poll_until(async || {
        let pods = ns.api::<Pod>().list(&ListParams::default()).await.ok()?.items;
        let newest = pods.iter().filter_map(ResourceExt::creation_timestamp).max()?;
        // By the clock of the API server.
        let probe = ns.api::<ConfigMap>().create(&dry_run, &probe).await.ok()?;
        (probe.creation_timestamp()?.0.duration_since(newest.0).unsigned_abs() >= age).then_some(())
    })
    .await;
}

/// Runs the steps while the controllers are stopped for this time in the middle, without a disturbance, and with kills.
async fn series(sets: usize, stop: Duration, kills: Kills) {
    let config = format!("{}/tests/it/own_cluster/kills.yaml", env!("CARGO_MANIFEST_DIR"));
    let cluster = TestCluster::with_own_services("update-kills", &["--config", &config]).await;
    let reference = OnceCell::new();
    let fixture = Fixture { cluster: &cluster, sets, reference: &reference };
    run(&fixture, "e2e-update-stop", async |ns, step| {
        for service in SERVICES {
            cluster.stop(service).await;
        }
        step.await;
        wait_without_new_pods(ns, stop).await;
        cluster.start_again().await;
    })
    .await;
    kill_series(cluster, SERVICES, "e2e-update-kills", kills, async |cluster, name| {
        let fixture = Fixture { cluster, sets, reference: &reference };
        run(&fixture, name, async |_, step| step.await).await;
    })
    .await;
}

struct Fixture<'a> {
    cluster: &'a TestCluster,
    sets: usize,
    /// The end state of the first run.
    reference: &'a OnceCell<BTreeSet<String>>,
}

/// Takes long: the sets are updated three times, with a stop of the controllers, without, and with kills.
#[tokio::test(flavor = "multi_thread")]
async fn stops_and_a_kill_after_each_kind_of_write_do_not_disturb_an_update() {
    series(FEW_SETS, Duration::ZERO, Kills::EachKind { seed: 40 }).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes long; run by `cargo xtask soak kills --updates`"]
async fn many_kills_of_both_controllers_do_not_disturb_updates() {
    let (count, seed) = kills_and_seed();
    series(MANY_SETS, Duration::from_mins(1), Kills::Random { count, seed }).await;
}
