//! Acts in random order, also as a user, and checks the promises of updates after each step, and that the cluster settles from there.

use std::collections::{BTreeMap, BTreeSet};

use grove_api_types::labels;
use grove_api_types::v1alpha1::{PodClique, PodCliqueTemplateSpec, PodCliqueUpdateProgress};
use kube::ResourceExt;

use crate::model::{Actor, BROKEN, Model, VERSION, is_member};

/// The updates settle within this many rounds: each of at most 16 units needs a few.
const MOST_ROUNDS: usize = 300;
/// After this many steps the user corrects a broken template, and the cluster must settle.
const STEPS_PER_EPISODE: usize = 200;
/// After this many steps a copy of the cluster must settle, with the strategy and the template that the user has chosen.
const STEPS_PER_FIXED_POINT: usize = 20;
/// One of this many steps is the user's.
const STEPS_PER_CHANGE: u64 = 40;
/// The versions that the user writes; he may return to an earlier one.
const VERSIONS: [&str; 4] = ["a", "b", "c", "d"];
/// The versions at the ends of the episodes.
const LAST_VERSIONS: [&str; 2] = ["y", "z"];
/// The strategies and controls that the user chooses.
const STRATEGIES: [&str; 4] = [
    r#"{"type":"RollingRecreate"}"#,
    r#"{"type":"OnDelete"}"#,
    r#"{"type":"RollingRecreate","rollingUpdate":{"paused":true}}"#,
    r#"{"type":"RollingRecreate","rollingUpdate":{"partition":1}}"#,
];

/// What an exploration has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The number of steps.
    pub steps: usize,
    /// How often the cluster settled.
    pub settled: usize,
    /// The most rounds that it needed.
    pub most_rounds: usize,
}

impl Report {
    fn settle(&mut self, rounds: usize) {
        self.settled += 1;
        self.most_rounds = self.most_rounds.max(rounds);
    }
}

/// A pseudorandom sequence that depends on the seed alone.
struct Numbers(u64);

impl Numbers {
    /// A number below `limit`.
    fn below(&mut self, limit: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit.max(1)
    }

    fn choose<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        let at = self.below(u64::try_from(items.len()).ok()?);
        items.get(usize::try_from(at).ok()?)
    }
}

/// Explores this many steps from a settled set.
///
/// # Errors
/// The broken promise, and the last steps that led to it.
pub fn explore(manifest: &str, seed: u64, steps: usize) -> Result<Report, String> {
    let mut model = Model::new(manifest)?;
    model.settle(MOST_ROUNDS).ok_or("the set does not settle")?;
    let (mut numbers, mut report, mut log, mut served) =
        (Numbers(seed), Report::default(), Vec::new(), Served::default());
    while report.steps < steps {
        let mut leaves_pods = false;
        for _ in 0..STEPS_PER_EPISODE {
            log.push(step(&mut model, &mut numbers));
            report.steps += 1;
            served.check(&model).map_err(|broken| failure(&broken, &log))?;
            leaves_pods |= model.set().spec.is_updated_on_delete();
            if report.steps.is_multiple_of(STEPS_PER_FIXED_POINT) {
                let rounds = check_fixed_point(model.clone(), leaves_pods).map_err(|broken| failure(&broken, &log))?;
                report.settle(rounds);
            }
        }
        // Pods that the user should have replaced stay until the template changes.
        let version = LAST_VERSIONS[report.steps / STEPS_PER_EPISODE % 2];
        model.write(|set| set.spec.update_strategy = None);
        model.update(version, false);
        log.push(format!("the user writes version {version}, without a strategy"));
        let rounds = model.settle(MOST_ROUNDS).ok_or_else(|| failure("the cluster does not settle", &log))?;
        check_settled(&model).map_err(|broken| failure(&broken, &log))?;
        report.settle(rounds);
        log.clear();
        served = Served::default();
    }
    Ok(report)
}

fn failure(broken: &str, log: &[String]) -> String {
    let last = log.iter().skip(log.len().saturating_sub(60)).cloned().collect::<Vec<_>>();
    format!("{broken}\n{}", last.join("\n"))
}

/// One step of the user or of somebody else.
fn step(model: &mut Model, numbers: &mut Numbers) -> String {
    if numbers.below(STEPS_PER_CHANGE) == 0 {
        return change(model, numbers);
    }
    let actors = model.actors();
    let Some(actor) = numbers.choose(&actors).cloned() else { return String::new() };
    let writes = model.act(&actor);
    let who = match &actor {
        Actor::Set => "set".to_owned(),
        Actor::Group(name) | Actor::Clique(name) | Actor::Kubelet(name) => name.clone(),
    };
    format!("{who}: {}", writes.join("; "))
}

/// A change by the user.
fn change(model: &mut Model, numbers: &mut Numbers) -> String {
    let replicas = 1 + i32::try_from(numbers.below(3)).unwrap_or(0);
    match numbers.below(6) {
        2 => {
            let strategy = numbers.choose(&STRATEGIES).copied().unwrap_or_default();
            model.write(|set| set.spec.update_strategy = serde_json::from_str(strategy).ok());
            format!("the user chooses the strategy {strategy}")
        }
        0 => {
            let cliques = model.cliques().filter(|clique| !is_member(clique)).map(ResourceExt::name_any);
            let groups = model.cliques().filter_map(|clique| clique.labels().get(labels::SCALING_GROUP).cloned());
            let names: Vec<_> = cliques.chain(groups).collect();
            let Some(name) = numbers.choose(&names).cloned() else { return String::new() };
            model.scale(&name, replicas);
            format!("the user scales {name} to {replicas}")
        }
        1 => {
            model.write(|set| set.spec.replicas = replicas);
            format!("the user scales the set to {replicas}")
        }
        kind => {
            let version = numbers.choose(&VERSIONS).copied().unwrap_or("a");
            let is_broken = numbers.below(4) == 0;
            let names: Vec<_> = model.set().spec.template.cliques.iter().map(|clique| clique.name.clone()).collect();
            let only = numbers.choose(&names).filter(|_| kind == 3);
            model.update_cliques(|name| only.is_none_or(|only| only == name), version, is_broken);
            let of = only.map_or(String::new(), |only| format!(" of {only}"));
            format!("the user writes version {version}{of}{}", if is_broken { ", which is broken" } else { "" })
        }
    }
}

/// The index of a replica of the set, and the name of a clique or a scaling group of it.
type Owner = (i32, String);

/// What has served.
#[derive(Debug, Default)]
struct Served {
    /// The units of each clique outside of scaling groups, and of each scaling group.
    units: BTreeMap<Owner, BTreeSet<i32>>,
    /// The replicas of the set of which all units have served at one time.
    replicas: BTreeSet<i32>,
}

impl Served {
    /// At most one unit of a clique or a scaling group that has served is down, and at most one replica of the set that has served is updated. A new
    /// replica may come up meanwhile.
    fn check(&mut self, model: &Model) -> Result<(), String> {
        let units = units(model);
        self.units.retain(|name, _| units.contains_key(name));
        let progress = model.set().status.as_ref().and_then(|status| status.update_progress.as_ref());
        let updating = progress.iter().flat_map(|progress| &progress.currently_updating);
        let updating: BTreeSet<_> = updating.map(|entry| entry.replica_index).collect();
        self.record_replicas(model, &units, &updating);
        for (owner, units) in units {
            let served = self.units.entry(owner.clone()).or_default();
            served.retain(|index| units.contains_key(index));
            served.extend(units.iter().filter(|(_, unit)| unit.is_up && unit.is_known).map(|(index, _)| *index));
            let down: Vec<_> = served.iter().filter(|index| units.get(index).is_some_and(|unit| !unit.is_up)).collect();
            if down.len() > 1 {
                return Err(format!("units {down:?} of {} are down", owner.1));
            }
        }
        let updating: Vec<_> = updating.intersection(&self.replicas).collect();
        if updating.len() > 1 { Err(format!("the set updates {updating:?}")) } else { Ok(()) }
    }

    /// A new replica counts once the set no longer reports that it comes up.
    fn record_replicas(
        &mut self,
        model: &Model,
        units: &BTreeMap<Owner, BTreeMap<i32, Unit>>,
        updating: &BTreeSet<i32>,
    ) {
        let replicas = model.set().spec.replicas;
        self.replicas.retain(|index| *index < replicas);
        let template = &model.set().spec.template;
        let groups = &template.pod_clique_scaling_groups;
        let is_member = |name: &String| groups.iter().any(|group| group.clique_names.contains(name));
        let expected = groups.len() + template.cliques.iter().filter(|clique| !is_member(&clique.name)).count();
        let serves = |index: &i32| {
            let of_replica: Vec<_> = units.iter().filter(|((replica, _), _)| replica == index).collect();
            of_replica.len() == expected
                && of_replica.iter().flat_map(|(_, units)| units.values()).all(|unit| unit.is_up)
        };
        self.replicas.extend((0..replicas).filter(|index| !updating.contains(index)).filter(serves));
    }
}

/// A pod of a clique outside of scaling groups, or a replica of a scaling group.
#[derive(Clone, Copy, Debug)]
struct Unit {
    /// Whether it serves.
    is_up: bool,
    /// Whether the services can know it. Whose turn it is follows from the statuses of the cliques: a replica of a group that comes up just after
    /// it got its turn, because nothing of it was available, is replaced nevertheless.
    is_known: bool,
}

/// Each desired pod of a clique, or each replica of a scaling group.
fn units(model: &Model) -> BTreeMap<Owner, BTreeMap<i32, Unit>> {
    let mut units: BTreeMap<Owner, BTreeMap<i32, Unit>> = BTreeMap::new();
    for clique in model.cliques() {
        let Some(replica) = number_of(clique, labels::SET_REPLICA) else { continue };
        let pods = model.pods_of(&clique.name_any());
        let is_up = |index: i32| pods.get(&index).is_some_and(|pod| pod.is_ready());
        match clique.labels().get(labels::SCALING_GROUP) {
            None => {
                let unit = |index: i32| Unit { is_up: is_up(index), is_known: true };
                let of_clique = (0..clique.spec.replicas).map(|index| (index, unit(index)));
                units.insert((replica, clique.name_any()), of_clique.collect());
            }
            Some(group) => {
                let Some(index) = number_of(clique, labels::SCALING_GROUP_REPLICA) else { continue };
                let serves = (0..clique.spec.replicas).all(is_up);
                let units = units.entry((replica, group.clone())).or_default();
                let unit = units.entry(index).or_insert(Unit { is_up: true, is_known: true });
                unit.is_up &= serves;
                unit.is_known &= is_known(clique);
            }
        }
    }
    units
}

/// Whether the status of a member of a scaling group reports all its pods as ready, and it is not being updated.
fn is_known(clique: &PodClique) -> bool {
    let Some(status) = &clique.status else { return false };
    let turn = clique.annotations().get(labels::UPDATE_TURN);
    let is_of_turn = |progress: &PodCliqueUpdateProgress| Some(&progress.pod_clique_set_generation_hash) == turn;
    let has_ended = status.update_progress.as_ref().is_some_and(|it| is_of_turn(it) && !it.is_in_progress());
    status.ready_replicas >= clique.spec.replicas && (turn.is_none() || has_ended)
}

/// The number in a label of the clique.
fn number_of(clique: &PodClique, label: &str) -> Option<i32> {
    clique.labels().get(label)?.parse().ok()
}

/// The cluster settles without a further change by the user. Then all pods exist, and those that the strategy replaces have the template of the
/// set, unless the strategy has been `OnDelete`: then old pods may stay until the next template (`leaves_pods`). Returns the number of rounds.
fn check_fixed_point(mut model: Model, leaves_pods: bool) -> Result<usize, String> {
    let rounds = model.settle(MOST_ROUNDS).ok_or("the cluster does not settle with the strategy of the user")?;
    let spec = &model.set().spec;
    let is_broken = spec.template.cliques.iter().any(|clique| clique.labels.get(BROKEN).is_some_and(|it| it == "true"));
    for clique in model.cliques() {
        let pods = model.pods_of(&clique.name_any());
        if !pods.keys().copied().eq(0..clique.spec.replicas) {
            return Err(format!("{} has the pods {:?}", clique.name_any(), pods.keys()));
        }
    }
    let controls = spec.rolling_update();
    if is_broken || controls.paused || leaves_pods {
        return Ok(rounds);
    }
    match controls.partition {
        None => check_settled(&model)?,
        Some(partition) => {
            let is_replaced = |clique: &&PodClique| number_of(clique, labels::SET_REPLICA) >= Some(partition);
            model.cliques().filter(is_replaced).try_for_each(|clique| check_pods(&model, clique))?;
        }
    }
    Ok(rounds)
}

/// All pods have the version of the template and are ready, and the set reports it.
fn check_settled(model: &Model) -> Result<(), String> {
    let status = model.set().status.clone().unwrap_or_default();
    if status.observed_generation != model.set().metadata.generation {
        return Err(format!("generation {:?} is observed", status.observed_generation));
    }
    if status.is_updating() {
        return Err("the update has not ended".to_owned());
    }
    for clique in model.cliques() {
        if clique.annotations().contains_key(labels::UPDATE_TURN) {
            return Err(format!("{} still has its turn", clique.name_any()));
        }
        check_pods(model, clique)?;
    }
    Ok(())
}

/// All pods of the clique have the version of its template and are ready.
fn check_pods(model: &Model, clique: &PodClique) -> Result<(), String> {
    let name = clique.name_any();
    let is_template = |of: &&PodCliqueTemplateSpec| name.ends_with(&format!("-{}", of.name));
    let template = model.set().spec.template.cliques.iter().find(is_template);
    let version = template.and_then(|template| template.labels.get(VERSION));
    let pods = model.pods_of(&name);
    let is_new =
        |index: i32| pods.get(&index).is_some_and(|pod| pod.is_ready() && pod.labels().get(VERSION) == version);
    if !(0..clique.spec.replicas).all(is_new) || i32::try_from(pods.len()) != Ok(clique.spec.replicas) {
        return Err(format!("{name} has other pods"));
    }
    Ok(())
}
