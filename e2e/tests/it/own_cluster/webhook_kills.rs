//! Webhook servers are killed while sets are created, scaled and deleted. One is always there, so whoever was not answered
//! asks again and is; and every life of the sets ends as it did when nobody was killed.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use e2e::replicas::Replica;
use e2e::{Namespace, Plane, World, plane, state, world::LIMIT};
use futures::future::join_all;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::kills::{QUIET, STEPS, Step, differences, is_whole, set};
use super::rotation::Load;

const REPLICAS: [&str; 2] = ["webhook-server", "webhook-server-1"];
const SETS: usize = 10;
/// Answers that the other replica gives before the next kill.
const ANSWERS: usize = 20;
/// What the API server says when nobody answers it.
const NOT_ANSWERED: &str = "failed calling webhook";

/// A user, and how often one had to ask again.
struct User<'a> {
    ns: &'a Namespace,
    again: AtomicUsize,
}

impl User<'_> {
    async fn take(&self, step: Step) {
        join_all((0..SETS).map(|number| self.take_one(step, number))).await;
    }

    async fn take_one(&self, step: Step, number: usize) {
        let name = format!("s{number}");
        let api = self.ns.api::<PodCliqueSet>();
        let replicas = match step {
            Step::Create => {
                let set: PodCliqueSet = serde_saphyr::from_str(&set(&name)).expect("a set");
                let create = PostParams::default();
                return self.insists(async || api.create(&create, &set).await.map(drop)).await;
            }
            Step::Delete => {
                return self.insists(async || api.delete(&name, &DeleteParams::background()).await.map(drop)).await;
            }
            Step::ScaleOut => 2,
            Step::ScaleIn => 1,
        };
        let (to, way) = (Patch::Merge(json!({ "spec": { "replicas": replicas } })), PatchParams::default());
        let (clique, group) = (format!("{name}-0-f"), format!("{name}-0-g"));
        let (cliques, groups) = (self.ns.api::<PodClique>(), self.ns.api::<PodCliqueScalingGroup>());
        self.insists(async || api.patch_scale(&name, &way, &to).await.map(drop)).await;
        self.insists(async || cliques.patch_scale(&clique, &way, &to).await.map(drop)).await;
        self.insists(async || groups.patch_scale(&group, &way, &to).await.map(drop)).await;
    }

    /// Asks again as long as the webhook was not answered for.
    async fn insists(&self, ask: impl AsyncFn() -> Result<(), kube::Error>) {
        let asking = async {
            while let Err(error) = ask().await {
                assert!(error.to_string().contains(NOT_ANSWERED), "{error}");
                self.again.fetch_add(1, Ordering::SeqCst);
            }
        };
        tokio::time::timeout(LIMIT, asking).await.expect("a webhook server answers");
    }

    /// What each step leaves when nobody is killed.
    async fn undisturbed(&self) -> Vec<BTreeSet<String>> {
        let mut states = Vec::new();
        for step in STEPS {
            self.take(step).await;
            let whole = |world: &World| match step {
                Step::Create | Step::ScaleOut | Step::ScaleIn => world.sets.len() == SETS && is_whole(world),
                Step::Delete => world.is_empty(),
            };
            self.ns.until(&format!("{step:?} has come about"), whole).await;
            states.push(state::of(&self.ns.at_rest(QUIET).await));
        }
        states
    }

    async fn lives_like(&self, model: &[BTreeSet<String>]) {
        for (step, expected) in STEPS.into_iter().zip(model) {
            self.take(step).await;
            if let Err(world) = self.ns.arrives(|world| state::of(world) == *expected).await {
                panic!("{step:?} ended otherwise than undisturbed\n{}", differences(expected, &world));
            }
        }
    }
}

async fn series(name: &str, kills: usize) {
    let plane = Plane::own_with(name, &["--replicas", "2"]).await;
    let client = plane.client().await;
    let (ns, other) = (Namespace::create(&client, "e2e-lives").await, Namespace::create(&client, "e2e-load").await);
    let mut replicas = Vec::new();
    for replica in REPLICAS {
        replicas.push(Replica::take_over(&plane, replica, &[]).await);
    }
    let user = User { ns: &ns, again: AtomicUsize::new(0) };
    let model = user.undisturbed().await;
    let (load, over) = (Load::start(&other), AtomicBool::new(false));
    let killing = async {
        for kill in 0..kills {
            replicas[kill % REPLICAS.len()].crash().await;
            load.until_answered(load.answered() + ANSWERS).await;
        }
        over.store(true, Ordering::SeqCst);
    };
    let living = async {
        let mut lives = 0;
        while !over.load(Ordering::SeqCst) {
            user.lives_like(&model).await;
            lives += 1;
        }
        lives
    };
    let ((), lives) = tokio::join!(killing, living);
    let (answered, failed) = load.end().await;
    let again = user.again.load(Ordering::SeqCst);
    println!(
        "{kills} kills in {lives} lives; {again} requests of those and {} of {answered} others asked again",
        failed.len()
    );
    assert!(failed.iter().all(|why| why.contains(NOT_ANSWERED)), "{failed:#?}");
    drop(replicas);
    plane.down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn webhook_server_kills_do_not_change_the_end_state() {
    series("webhook-kills", 6).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes long; run by `cargo xtask soak kills --webhooks`"]
async fn many_webhook_server_kills_do_not_change_the_end_state() {
    let kills = plane::given("GROVE_SOAK_KILLS").parse().expect("a number");
    series("soak-webhook-kills", kills).await;
}
