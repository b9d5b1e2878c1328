//! Acts in random order, also as a user, and checks the promises of updates after each step.

use std::collections::{BTreeMap, BTreeSet};

use grove_api_types::labels;
use grove_api_types::v1alpha1::PodClique;
use kube::ResourceExt;

use crate::model::{Actor, Model, VERSION, is_member};

/// The updates settle within this many rounds: each of at most 16 units needs a few.
const MOST_ROUNDS: usize = 300;
/// After this many steps the user corrects a broken template, and the cluster must settle.
const STEPS_PER_EPISODE: usize = 200;
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
        for _ in 0..STEPS_PER_EPISODE {
            log.push(step(&mut model, &mut numbers));
            report.steps += 1;
            served.check(&model).map_err(|broken| failure(&broken, &log))?;
        }
        // Pods that the user should have replaced stay until the template changes.
        let version = LAST_VERSIONS[report.settled % 2];
        model.write(|set| set.spec.update_strategy = None);
        model.update(version, false);
        log.push(format!("the user writes version {version}, without a strategy"));
        let rounds = model.settle(MOST_ROUNDS).ok_or_else(|| failure("the cluster does not settle", &log))?;
        check_settled(&model, version).map_err(|broken| failure(&broken, &log))?;
        report.settled += 1;
        report.most_rounds = report.most_rounds.max(rounds);
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
        _ => {
            let version = numbers.choose(&VERSIONS).copied().unwrap_or("a");
            let is_broken = numbers.below(4) == 0;
            model.update(version, is_broken);
            format!("the user writes version {version}{}", if is_broken { ", which is broken" } else { "" })
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
        self.record_replicas(model, &units);
        for (owner, units) in units {
            let served = self.units.entry(owner.clone()).or_default();
            served.retain(|index| units.contains_key(index));
            served.extend(units.iter().filter(|(_, is_up)| **is_up).map(|(index, _)| *index));
            let down: Vec<_> = served.iter().filter(|index| units.get(index) == Some(&false)).collect();
            if down.len() > 1 {
                return Err(format!("units {down:?} of {} are down", owner.1));
            }
        }
        let progress = model.set().status.as_ref().and_then(|status| status.update_progress.as_ref());
        let updating =
            progress.iter().flat_map(|progress| &progress.currently_updating).map(|entry| entry.replica_index);
        let updating: Vec<_> = updating.filter(|index| self.replicas.contains(index)).collect();
        if updating.len() > 1 { Err(format!("the set updates {updating:?}")) } else { Ok(()) }
    }

    fn record_replicas(&mut self, model: &Model, units: &BTreeMap<Owner, BTreeMap<i32, bool>>) {
        let replicas = model.set().spec.replicas;
        self.replicas.retain(|index| *index < replicas);
        let template = &model.set().spec.template;
        let groups = &template.pod_clique_scaling_groups;
        let is_member = |name: &String| groups.iter().any(|group| group.clique_names.contains(name));
        let expected = groups.len() + template.cliques.iter().filter(|clique| !is_member(&clique.name)).count();
        let serves = |index: &i32| {
            let of_replica: Vec<_> = units.iter().filter(|((replica, _), _)| replica == index).collect();
            of_replica.len() == expected && of_replica.iter().flat_map(|(_, units)| units.values()).all(|is_up| *is_up)
        };
        self.replicas.extend((0..replicas).filter(serves));
    }
}

/// Whether each desired pod of a clique, or each replica of a scaling group, serves.
fn units(model: &Model) -> BTreeMap<Owner, BTreeMap<i32, bool>> {
    let mut units: BTreeMap<Owner, BTreeMap<i32, bool>> = BTreeMap::new();
    for clique in model.cliques() {
        let Some(replica) = number_of(clique, labels::SET_REPLICA) else { continue };
        let pods = model.pods_of(&clique.name_any());
        let is_up = |index: i32| pods.get(&index).is_some_and(|pod| pod.is_ready());
        match clique.labels().get(labels::SCALING_GROUP) {
            None => {
                let of_clique = (0..clique.spec.replicas).map(|index| (index, is_up(index)));
                units.insert((replica, clique.name_any()), of_clique.collect());
            }
            Some(group) => {
                let Some(index) = number_of(clique, labels::SCALING_GROUP_REPLICA) else { continue };
                let serves = (0..clique.spec.replicas).all(is_up);
                let unit = units.entry((replica, group.clone())).or_default().entry(index).or_insert(true);
                *unit = *unit && serves;
            }
        }
    }
    units
}

/// The number in a label of the clique.
fn number_of(clique: &PodClique, label: &str) -> Option<i32> {
    clique.labels().get(label)?.parse().ok()
}

/// All pods have this version and are ready, and the set reports it.
fn check_settled(model: &Model, version: &str) -> Result<(), String> {
    let status = model.set().status.clone().unwrap_or_default();
    if status.observed_generation != model.set().metadata.generation {
        return Err(format!("generation {:?} is observed", status.observed_generation));
    }
    if status.update_progress.is_some_and(|progress| progress.update_ended_at.is_none()) {
        return Err("the update has not ended".to_owned());
    }
    for clique in model.cliques() {
        let name = clique.name_any();
        if clique.annotations().contains_key(labels::UPDATE_TURN) {
            return Err(format!("{name} still has its turn"));
        }
        let pods = model.pods_of(&name);
        let is_new = |index: i32| {
            pods.get(&index)
                .is_some_and(|pod| pod.is_ready() && pod.labels().get(VERSION).is_some_and(|of| of == version))
        };
        if !(0..clique.spec.replicas).all(is_new) || i32::try_from(pods.len()) != Ok(clique.spec.replicas) {
            return Err(format!("{name} has other pods"));
        }
    }
    Ok(())
}
