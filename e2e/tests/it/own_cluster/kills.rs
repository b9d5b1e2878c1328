//! Services are killed right after a write was sent, and nothing is lost or done twice: the world becomes what it became
//! when nobody was killed, and at no moment do two live pods have one index.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use e2e::victims::{Strikes, Victim};
use e2e::{Namespace, Plane, World, state, world::is_ready};
use futures::future::join_all;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};

const SETS: usize = 20;
/// In one life of the sets; more of them would leave the services no time to do anything in between.
const KILLS_AT_A_TIME: usize = 20;
/// The world of the undisturbed run counts as settled when it was whole and did not change for so long.
pub(super) const QUIET: Duration = Duration::from_secs(3);

/// What a user does with each of the sets; the world settles after each step.
pub(super) const STEPS: [Step; 4] = [Step::Create, Step::ScaleOut, Step::ScaleIn, Step::Delete];

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Create,
    ScaleOut,
    ScaleIn,
    Delete,
}

/// A standalone clique, and a scaling group of two cliques whose second replica has a gang of its own.
pub(super) fn set(name: &str) -> String {
    let containers = "containers: [{name: main, image: registry.k8s.io/pause:3.10}]";
    format!(
        "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {{name: {name}}}
spec:
  replicas: 1
  template:
    cliques:
    - {{name: f, spec: {{roleName: f, replicas: 2, minAvailable: 1, podSpec: {{{containers}}}}}}}
    - {{name: p, spec: {{roleName: p, replicas: 1, minAvailable: 1, podSpec: {{{containers}}}}}}}
    - {{name: d, spec: {{roleName: d, replicas: 1, minAvailable: 1, podSpec: {{{containers}}}}}}}
    podCliqueScalingGroups:
    - {{name: g, cliqueNames: [p, d], replicas: 2, minAvailable: 1, scaleConfig: {{minReplicas: 1, maxReplicas: 8}}}}
"
    )
}

/// Sets, cliques and groups are scaled, each a third of the sets.
async fn take(step: Step, ns: &Namespace) {
    let names: Vec<String> = (0..SETS).map(|number| format!("s{number}")).collect();
    join_all(names.iter().enumerate().map(|(at, name)| async move {
        let (clique, group) = (format!("{name}-0-f"), format!("{name}-0-g"));
        match (step, at % 3) {
            (Step::Create, _) => drop(ns.create_yaml::<PodCliqueSet>(&set(name)).await),
            (Step::ScaleOut, 0) => ns.scale::<PodCliqueSet>(name, 2).await,
            (Step::ScaleOut, 1) => ns.scale::<PodClique>(&clique, 4).await,
            (Step::ScaleOut, _) => ns.scale::<PodCliqueScalingGroup>(&group, 4).await,
            (Step::ScaleIn, 0) => ns.scale::<PodCliqueSet>(name, 1).await,
            (Step::ScaleIn, 1) => ns.scale::<PodClique>(&clique, 1).await,
            (Step::ScaleIn, _) => ns.scale::<PodCliqueScalingGroup>(&group, 1).await,
            (Step::Delete, _) => ns.remove::<PodCliqueSet>(name).await,
        }
    }))
    .await;
}

/// Whether everything that the sets ask for serves and is told, and nothing else is there.
pub(super) fn is_whole(world: &World) -> bool {
    let sizes = world.cliques.values().map(|clique| usize::try_from(clique.spec.replicas).unwrap_or_default());
    let pods = sizes.sum::<usize>();
    let replicas = world.sets.values().map(|set| usize::try_from(set.spec.replicas).unwrap_or_default());
    let replicas = replicas.sum::<usize>();
    // Of each replica.
    let alone = [world.services.len(), world.groups.len(), world.autoscalers.len()];
    world.sets.keys().all(|set| world.is_available(set))
        && world.is_told()
        && alone == [replicas; 3]
        && world.pods.len() == pods
        && world.live_pods().filter(|pod| is_ready(pod)).count() == pods
        && world.references() == pods
}

/// A run of all steps in a namespace of its own.
struct Life {
    ns: Namespace,
    strikes: Arc<Strikes>,
}

/// An undisturbed life.
#[derive(Default)]
struct Model {
    /// What each step left.
    states: Vec<BTreeSet<String>>,
    /// How many writes were sent until it had.
    writes: Vec<usize>,
}

impl Life {
    async fn begin(plane: &Plane, name: &str, strikes: &Arc<Strikes>, due: BTreeSet<usize>) -> Self {
        let ns = Namespace::create(&plane.client().await, name).await;
        strikes.begin(due);
        Self { ns, strikes: Arc::clone(strikes) }
    }

    async fn undisturbed(self) -> Model {
        let mut model = Model::default();
        for step in STEPS {
            take(step, &self.ns).await;
            let whole = |world: &World| match step {
                Step::Create | Step::ScaleOut | Step::ScaleIn => world.sets.len() == SETS && is_whole(world),
                Step::Delete => world.is_empty(),
            };
            self.ns.until(&format!("{step:?} has come about"), whole).await;
            let world = self.ns.at_rest(QUIET).await;
            assert!(whole(&world), "the world does not stay whole after {step:?}:\n{world}");
            model.states.push(state::of(&world));
            model.writes.push(self.strikes.sent());
        }
        println!("undisturbed: writes until the end of each step: {:?}", model.writes);
        self.ns.delete().await;
        model
    }

    /// Returns how often a service was killed.
    async fn like(self, model: &Model) -> usize {
        for ((step, expected), writes) in STEPS.into_iter().zip(&model.states).zip(&model.writes) {
            take(step, &self.ns).await;
            let pods = expected.iter().filter(|line| line.starts_with("Pod ")).count();
            let arrived = self.ns.arrives(|world| world.pods.len() == pods && state::of(world) == *expected).await;
            if let Err(world) = arrived {
                panic!("{step:?} ended otherwise than undisturbed\n{}\n{}", differences(expected, &world), self.told());
            }
            self.strikes.count_from(*writes);
        }
        let struck = self.strikes.struck();
        print!("{}", self.told());
        self.ns.delete().await;
        struck.len()
    }

    fn told(&self) -> String {
        let lines = self.strikes.struck().into_iter().map(|line| format!("  killed at write {line}\n"));
        lines.collect()
    }
}

pub(super) fn differences(expected: &BTreeSet<String>, world: &World) -> String {
    let found = state::of(world);
    let missing = expected.difference(&found).map(|line| format!("- {line}\n"));
    let surplus = found.difference(expected).map(|line| format!("+ {line}\n"));
    let mut lines: Vec<_> = missing.chain(surplus).collect();
    lines.sort_by(|a, b| a[2..].cmp(&b[2..]));
    lines.into_iter().take(40).collect()
}

/// A sequence of numbers that depends on the seed alone.
struct Numbers(u64);

impl Iterator for Numbers {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        // SplitMix64: small, and good enough to choose places with.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Some(mixed ^ (mixed >> 31))
    }
}

/// So many different writes out of all.
fn places(numbers: &mut Numbers, count: usize, writes: usize) -> BTreeSet<usize> {
    let writes = u64::try_from(writes).expect("a small number");
    let mut places = BTreeSet::new();
    while places.len() < count {
        let number = numbers.next().expect("an endless sequence") % writes;
        places.insert(usize::try_from(number).expect("a small number") + 1);
    }
    places
}

/// On a plane of that name, which is that of the configuration, too.
async fn series(plane: &str, kills: usize, seed: u64) {
    println!("seed {seed}, {kills} kills");
    let config = format!("{}/tests/it/own_cluster/{plane}.yaml", env!("CARGO_MANIFEST_DIR"));
    let plane = Plane::own_with(plane, &["--config", &config]).await;
    let strikes = Arc::new(Strikes::default());
    let mut victims = Vec::new();
    for service in ["pcs-controller", "pclq-controller"] {
        victims.push(Victim::take_over(&plane, service, Arc::clone(&strikes)).await);
    }
    let model = Life::begin(&plane, "e2e-kills-none", &strikes, BTreeSet::new()).await.undisturbed().await;
    let writes = model.writes.last().copied().unwrap_or_default();
    let mut numbers = Numbers(seed);
    let (mut killed, mut lives) = (0, 0);
    while killed < kills {
        let batch = KILLS_AT_A_TIME.min(kills - killed);
        let due = places(&mut numbers, batch, writes);
        killed += Life::begin(&plane, &format!("e2e-kills-{lives}"), &strikes, due).await.like(&model).await;
        lives += 1;
        for victim in &victims {
            victim.is_well();
        }
        println!("{killed} kills in {lives} lives, each of which ended like the undisturbed one");
    }
    drop(victims);
    plane.down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_kills_after_a_write_do_not_change_the_end_state() {
    series("kills", 20, 20).await;
}

/// Who comes next waits until the lease of the one before has expired, and what that one sent last may arrive meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn leader_kills_after_a_write_do_not_change_the_end_state() {
    series("leader-kills", 3, 9).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes long; run by `cargo xtask soak kills`"]
async fn many_kills_after_a_write_do_not_change_the_end_state() {
    let given = |name: &str| e2e::plane::given(name).parse::<u64>().expect("a number");
    let kills = usize::try_from(given("GROVE_SOAK_KILLS")).expect("a small number");
    series("kills", kills, given("GROVE_SOAK_SEED")).await;
}
