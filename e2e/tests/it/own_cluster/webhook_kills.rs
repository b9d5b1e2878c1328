//! Kills webhook servers while sets are created, scaled and deleted. One replica always runs, so a retry of a failed request
//! succeeds, and the end state of each step equals that of an undisturbed run.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use e2e::service_replica::ServiceReplica;
use e2e::{Namespace, NamespaceState, TestCluster, namespace_state::TIMEOUT, normalized, test_cluster};
use futures::future::join_all;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::kills::{QUIET, STEPS, Step, differences, is_complete, set};
use super::rotation::Load;

const REPLICAS: [&str; 2] = ["webhook-server", "webhook-server-1"];
/// The numbers of sets of a short and of a long series.
const FEW_SETS: usize = 4;
const MANY_SETS: usize = 10;
/// Successful requests to the other replica before the next kill.
const SUCCESSES: usize = 20;
/// The error of the API server when it cannot call a webhook.
const WEBHOOK_FAILED: &str = "failed calling webhook";

/// A user that retries failed requests, and the number of retries.
struct User<'a> {
    ns: &'a Namespace,
    sets: usize,
    retries: AtomicUsize,
}

impl User<'_> {
    async fn run_step(&self, step: Step) {
        join_all((0..self.sets).map(|number| self.run_step_of(step, number))).await;
    }

    async fn run_step_of(&self, step: Step, number: usize) {
        let name = format!("s{number}");
        let api = self.ns.api::<PodCliqueSet>();
        let replicas = match step {
            Step::Create => {
                let set: PodCliqueSet = serde_saphyr::from_str(&set(&name)).expect("a set");
                let create = PostParams::default();
                return self.retry(async || api.create(&create, &set).await.map(drop)).await;
            }
            Step::Delete => {
                return self.retry(async || api.delete(&name, &DeleteParams::background()).await.map(drop)).await;
            }
            Step::ScaleOut => 2,
            Step::ScaleIn => 1,
        };
        let (patch, params) = (Patch::Merge(json!({ "spec": { "replicas": replicas } })), PatchParams::default());
        let (clique, group) = (format!("{name}-0-f"), format!("{name}-0-g"));
        let (cliques, groups) = (self.ns.api::<PodClique>(), self.ns.api::<PodCliqueScalingGroup>());
        self.retry(async || api.patch_scale(&name, &params, &patch).await.map(drop)).await;
        self.retry(async || cliques.patch_scale(&clique, &params, &patch).await.map(drop)).await;
        self.retry(async || groups.patch_scale(&group, &params, &patch).await.map(drop)).await;
    }

    /// Retries while the API server cannot call the webhook.
    async fn retry(&self, send: impl AsyncFn() -> Result<(), kube::Error>) {
        let attempts = async {
            while let Err(error) = send().await {
                assert!(error.to_string().contains(WEBHOOK_FAILED), "{error}");
                self.retries.fetch_add(1, Ordering::SeqCst);
            }
        };
        tokio::time::timeout(TIMEOUT, attempts).await.expect("a webhook server responds");
    }

    /// The normalised end state of each step without kills.
    async fn undisturbed(&self) -> Vec<BTreeSet<String>> {
        let mut states = Vec::new();
        for step in STEPS {
            self.run_step(step).await;
            let is_done = |state: &NamespaceState| match step {
                Step::Create | Step::ScaleOut | Step::ScaleIn => state.sets.len() == self.sets && is_complete(state),
                Step::Delete => state.is_empty(),
            };
            self.ns.wait_for(&format!("the end state of {step:?}"), is_done).await;
            states.push(normalized::lines(&self.ns.wait_until_quiet(QUIET).await));
        }
        states
    }

    async fn compare_with(&self, reference: &[BTreeSet<String>]) {
        for (step, expected) in STEPS.into_iter().zip(reference) {
            self.run_step(step).await;
            if let Err(state) = self.ns.try_wait_for(|state| normalized::has_lines(state, expected)).await {
                panic!("the end state of {step:?} differs from the undisturbed run\n{}", differences(expected, &state));
            }
        }
    }
}

async fn series(name: &str, sets: usize, kills: usize) {
    let cluster = TestCluster::with_own_services(name, &["--replicas", "2"]).await;
    let client = cluster.client().await;
    let (ns, other) =
        (Namespace::create(&client, "e2e-webhook-kills").await, Namespace::create(&client, "e2e-load").await);
    let mut replicas = Vec::new();
    for replica in REPLICAS {
        replicas.push(ServiceReplica::take_over(&cluster, replica, &[]).await);
    }
    let user = User { ns: &ns, sets, retries: AtomicUsize::new(0) };
    let reference = user.undisturbed().await;
    let (load, stopped) = (Load::start(&other), AtomicBool::new(false));
    let killing = async {
        for kill in 0..kills {
            replicas[kill % REPLICAS.len()].kill_and_restart().await;
            load.wait_for_successes(load.succeeded() + SUCCESSES).await;
        }
        stopped.store(true, Ordering::SeqCst);
    };
    let running = async {
        let mut runs = 0;
        while !stopped.load(Ordering::SeqCst) {
            user.compare_with(&reference).await;
            runs += 1;
        }
        runs
    };
    let ((), runs) = tokio::join!(killing, running);
    let (succeeded, failed) = load.stop().await;
    let retries = user.retries.load(Ordering::SeqCst);
    println!(
        "{kills} kills in {runs} runs; retries: {retries} of the runs, {} of {succeeded} other requests",
        failed.len()
    );
    assert!(failed.iter().all(|error| error.contains(WEBHOOK_FAILED)), "{failed:#?}");
    drop(replicas);
    cluster.down().await;
}

/// Takes long: each step of the undisturbed run ends when nothing has changed for some seconds, and requests have to succeed between the kills.
#[tokio::test(flavor = "multi_thread")]
async fn webhook_server_kills_do_not_change_the_end_state() {
    series("webhook-kills", FEW_SETS, 2 * REPLICAS.len()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes long; run by `cargo xtask soak kills --webhooks`"]
async fn many_webhook_server_kills_do_not_change_the_end_state() {
    let kills = test_cluster::required_number("GROVE_SOAK_KILLS");
    series("soak-webhook-kills", MANY_SETS, kills).await;
}
