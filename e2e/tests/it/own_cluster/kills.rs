//! Kills services at scheduled writes: no change is lost or duplicated. The end state of each step equals that of an
//! undisturbed run, and at no moment do two active pods of a clique have the same index.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use e2e::crash_injection::{CrashSchedule, CrashTarget, KillPoints};
use e2e::{Namespace, NamespaceState, TestCluster, namespace_state::is_ready, normalized};
use futures::future::join_all;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};

/// The numbers of sets of a short and of a long series.
const FEW_SETS: usize = 6;
const MANY_SETS: usize = 20;
/// Kills in one run of the steps of a long series. With more kills the services would have too little time between them.
const KILLS_PER_RUN: usize = 20;
/// An undisturbed step is over when its state is complete and has not changed for this long.
pub(super) const QUIET: Duration = Duration::from_secs(3);

/// What a user does with each of the sets. The state settles after each step.
pub(super) const STEPS: [Step; 4] = [Step::Create, Step::ScaleOut, Step::ScaleIn, Step::Delete];

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Create,
    ScaleOut,
    ScaleIn,
    Delete,
}

/// A standalone clique, and a scaling group of two cliques whose second replica has a scaled gang.
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

/// Runs a step. In the steps that scale, a third of the sets scales the set, a third a clique, and a third a group.
async fn run_step(step: Step, sets: usize, ns: &Namespace) {
    let names: Vec<String> = (0..sets).map(|number| format!("s{number}")).collect();
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
            (Step::Delete, _) => ns.delete_object::<PodCliqueSet>(name).await,
        }
    }))
    .await;
}

/// Whether all objects of the sets exist and are ready, every status is current, and there are no other objects.
pub(super) fn is_complete(state: &NamespaceState) -> bool {
    let sizes = state.cliques.values().map(|clique| usize::try_from(clique.spec.replicas).unwrap_or_default());
    let pods = sizes.sum::<usize>();
    let replicas = state.sets.values().map(|set| usize::try_from(set.spec.replicas).unwrap_or_default());
    let replicas = replicas.sum::<usize>();
    // One of each per replica of a set.
    let per_replica = [state.services.len(), state.groups.len(), state.autoscalers.len()];
    state.sets.keys().all(|set| state.is_available(set))
        && state.status_is_current()
        && per_replica == [replicas; 3]
        && state.pods.len() == pods
        && state.active_pods().filter(|pod| is_ready(pod)).count() == pods
        && state.reference_count() == pods
}

/// One run of all steps in a namespace of its own.
struct Run {
    ns: Namespace,
    sets: usize,
    schedule: Arc<CrashSchedule>,
}

/// The end states of an undisturbed run.
#[derive(Default)]
struct Reference {
    /// The normalised end state of each step.
    states: Vec<BTreeSet<String>>,
    /// The number of writes at the end of each step.
    writes: Vec<usize>,
}

impl Run {
    async fn start(
        cluster: &TestCluster,
        name: &str,
        sets: usize,
        schedule: &Arc<CrashSchedule>,
        kill_points: KillPoints,
    ) -> Self {
        let ns = Namespace::create(&cluster.client().await, name).await;
        schedule.start(kill_points);
        Self { ns, sets, schedule: Arc::clone(schedule) }
    }

    async fn undisturbed(self) -> Reference {
        let mut reference = Reference::default();
        for step in STEPS {
            run_step(step, self.sets, &self.ns).await;
            let is_done = |state: &NamespaceState| match step {
                Step::Create | Step::ScaleOut | Step::ScaleIn => state.sets.len() == self.sets && is_complete(state),
                Step::Delete => state.is_empty(),
            };
            self.ns.wait_for(&format!("the end state of {step:?}"), is_done).await;
            let state = self.ns.wait_until_quiet(QUIET).await;
            assert!(is_done(&state), "the state after {step:?} does not stay complete:\n{state}");
            reference.states.push(normalized::lines(&state));
            reference.writes.push(self.schedule.writes_sent());
        }
        println!("undisturbed run: writes at the end of each step: {:?}", reference.writes);
        self.ns.delete().await;
        reference
    }

    /// Runs the steps with kills and compares each end state. Returns the number of kills.
    async fn compare_with(self, reference: &Reference) -> usize {
        for ((step, expected), writes) in STEPS.into_iter().zip(&reference.states).zip(&reference.writes) {
            run_step(step, self.sets, &self.ns).await;
            let pods = expected.iter().filter(|line| line.starts_with("Pod ")).count();
            let reached =
                self.ns.try_wait_for(|state| state.pods.len() == pods && normalized::has_lines(state, expected)).await;
            if let Err(state) = reached {
                panic!(
                    "the end state of {step:?} differs from the undisturbed run\n{}\n{}",
                    differences(expected, &state),
                    self.kill_report()
                );
            }
            self.schedule.count_from(*writes);
        }
        let kills = self.schedule.kills();
        print!("{}", self.kill_report());
        self.ns.delete().await;
        kills.len()
    }

    fn kill_report(&self) -> String {
        let lines = self.schedule.kills().into_iter().map(|line| format!("  killed at write {line}\n"));
        lines.collect()
    }
}

pub(super) fn differences(expected: &BTreeSet<String>, state: &NamespaceState) -> String {
    let found = normalized::lines(state);
    let missing = expected.difference(&found).map(|line| format!("- {line}\n"));
    let surplus = found.difference(expected).map(|line| format!("+ {line}\n"));
    let mut lines: Vec<_> = missing.chain(surplus).collect();
    lines.sort_by(|a, b| a[2..].cmp(&b[2..]));
    lines.into_iter().take(40).collect()
}

/// A pseudorandom sequence that depends on the seed alone.
pub(super) struct Numbers(pub(super) u64);

impl Iterator for Numbers {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        // SplitMix64: small, and good enough to choose the kills.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Some(mixed ^ (mixed >> 31))
    }
}

/// `count` different numbers of writes out of `writes`.
pub(super) fn choose_kill_points(numbers: &mut Numbers, count: usize, writes: usize) -> BTreeSet<usize> {
    let writes = u64::try_from(writes).expect("a small number");
    let mut kill_points = BTreeSet::new();
    while kill_points.len() < count {
        let number = numbers.next().expect("an endless sequence") % writes;
        kill_points.insert(usize::try_from(number).expect("a small number") + 1);
    }
    kill_points
}

/// The name of a cluster, the name of its configuration file, and its flags.
type Cluster<'a> = (&'a str, &'a str, &'a [&'a str]);

/// Kills at random writes, in as many runs as necessary.
async fn random_series(cluster: Cluster<'_>, sets: usize, (kills, seed): (usize, u64)) {
    println!("seed {seed}, {kills} kills");
    series(cluster, sets, async |cluster, schedule, reference, targets| {
        let writes = reference.writes.last().copied().unwrap_or_default();
        let mut numbers = Numbers(seed);
        let (mut killed, mut runs) = (0, 0);
        while killed < kills {
            let batch = KILLS_PER_RUN.min(kills - killed);
            let kill_points = KillPoints::Numbers(choose_kill_points(&mut numbers, batch, writes));
            let run = Run::start(cluster, &format!("e2e-kills-{runs}"), sets, schedule, kill_points).await;
            killed += run.compare_with(reference).await;
            runs += 1;
            targets.iter().for_each(CrashTarget::assert_running);
            println!("{killed} kills in {runs} runs; the end state of each run equals the undisturbed one");
        }
    })
    .await;
}

/// Kills once at each kind of write, in one run.
async fn series_of_each_kind(cluster: Cluster<'_>, seed: u64) {
    series(cluster, FEW_SETS, async |cluster, schedule, reference, targets| {
        let kill_points = kill_each_kind(seed, schedule.writes_by_kind());
        let run = Run::start(cluster, "e2e-kills-each-kind", FEW_SETS, schedule, kill_points).await;
        run.compare_with(reference).await;
        targets.iter().for_each(CrashTarget::assert_running);
        assert_most_happened(schedule);
    })
    .await;
}

/// Runs the steps once without kills, and then `disturb`.
async fn series(
    (name, config, flags): Cluster<'_>,
    sets: usize,
    disturb: impl AsyncFnOnce(&TestCluster, &Arc<CrashSchedule>, &Reference, &[CrashTarget]),
) {
    let config = format!("{}/tests/it/own_cluster/{config}.yaml", env!("CARGO_MANIFEST_DIR"));
    let flags = [&["--config", &config], flags].concat();
    let cluster = TestCluster::with_own_services(name, &flags).await;
    let schedule = Arc::new(CrashSchedule::default());
    let mut targets = Vec::new();
    for service in ["pcs-controller", "pclq-controller", "topology-controller"] {
        targets.push(CrashTarget::take_over(&cluster, service, Arc::clone(&schedule)).await);
    }
    let undisturbed = Run::start(&cluster, "e2e-kills-none", sets, &schedule, KillPoints::default()).await;
    let reference = undisturbed.undisturbed().await;
    disturb(&cluster, &schedule, &reference, &targets).await;
    drop(targets);
    cluster.down().await;
}

/// One write of each kind. The seed chooses it among the first ones, because after a kill there may be fewer: the garbage collector may
/// delete what the killed service did not. Whether an event is created or changed depends on the timing, so events are left out.
pub(super) fn kill_each_kind(seed: u64, writes: BTreeMap<String, usize>) -> KillPoints {
    let numbers = Numbers(seed).map(|number| usize::try_from(number >> 32).expect("a small number"));
    let of_objects = writes.into_iter().filter(|(kind, _)| !kind.ends_with(" events"));
    let chosen = of_objects.zip(numbers).map(|((kind, count), number)| (kind, number % count.div_ceil(8) + 1));
    KillPoints::OfKinds(chosen.collect())
}

/// Asserts that services were killed at most kinds of writes. A run with kills may have no write of a kind, for example because the garbage
/// collector was faster than the restarted service.
pub(super) fn assert_most_happened(schedule: &CrashSchedule) {
    let KillPoints::OfKinds(remaining) = schedule.remaining() else {
        panic!("a series with a kill at each kind of write")
    };
    println!("no service was killed at {remaining:?}");
    assert!(remaining.len() * 2 < schedule.kills().len(), "no service was killed at {remaining:?}");
}

/// Takes long: a service is killed at each kind of write, and each of the four steps of the undisturbed run ends when nothing has changed for
/// some seconds.
#[tokio::test(flavor = "multi_thread")]
async fn a_kill_after_each_kind_of_write_does_not_change_the_end_state() {
    series_of_each_kind(("kills", "kills", &[]), 20).await;
}

/// The successor of a killed leader waits until the lease expires; the last write of the killed leader may arrive meanwhile.
/// It takes long because of these waits.
#[tokio::test(flavor = "multi_thread")]
async fn leader_kills_after_a_write_do_not_change_the_end_state() {
    random_series(("leader-kills", "leader-kills", &[]), FEW_SETS, (3, 9)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes long; run by `cargo xtask soak kills`"]
async fn many_kills_after_a_write_do_not_change_the_end_state() {
    random_series(("kills", "kills", &[]), MANY_SETS, kills_and_seed()).await;
}

/// The end state contains the `PodGroup` that each gang, clique and pod names.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes long; run by `cargo xtask soak kills --native-gangs`"]
async fn many_kills_with_native_gangs_do_not_change_the_end_state() {
    random_series(("native-kills", "kills", &["--native-gangs"]), MANY_SETS, kills_and_seed()).await;
}

/// The number of kills and the seed of `cargo xtask soak kills`.
pub(super) fn kills_and_seed() -> (usize, u64) {
    let count = e2e::test_cluster::required_number::<u64>;
    (usize::try_from(count("GROVE_SOAK_KILLS")).expect("a small number"), count("GROVE_SOAK_SEED"))
}
