//! How the default scheduler packs the pods of a gang: the key in the `PodGroup` of the gang, and pod affinity among pods of the gang. The
//! functions translate the constraints of a `PodGang`, which contain keys of node labels.
//!
//! The scheduler counts a pod for the required affinity of another pod only if the pod matches *all* terms of it. So the terms of one pod
//! can express the constraints of one [`Scope`] only. If a pod is in two constrained scopes, the key in the `PodGroup` expresses the outer
//! one, or the pods are packed more narrowly than the constraints require. [ADR 25] explains the design.
//!
//! [ADR 25]: ../../../docs/adr/0025-native-topology.md

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::annotation_value::{self, UnreadableAnnotation};
use crate::hash;
use crate::labels::PACK_AFFINITY;
use crate::pod_group::{PackRecord, PodGroupRef};
use crate::scheduler_v1alpha1::{PodGang, PodGangSpec, TopologyConstraint, TopologyPackConstraint};
use crate::text::join_names;

/// A message contains at most this many scopes, and counts the others.
const MAX_NAMED: usize = 5;

/// Pods that are packed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Scope {
    /// All pods of the gang.
    Gang,
    /// The pods of one replica of a scaling group.
    Replica,
    /// The pods of one clique.
    Clique,
}

/// The pod affinity of the pods of one clique.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PackAffinity {
    /// The pods of one scope must be on nodes with equal labels of these keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<RequiredAffinity>,
    /// The pods of each scope should be on nodes with equal labels of a key.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preferred: Vec<PreferredAffinity>,
}

/// Required pod affinity among the pods of one scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequiredAffinity {
    /// The pods.
    pub scope: Scope,
    /// The keys of node labels.
    pub keys: Vec<String>,
}

/// Preferred pod affinity among the pods of one scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreferredAffinity {
    /// The pods.
    pub scope: Scope,
    /// The key of node labels.
    pub key: String,
}

impl PackAffinity {
    /// The affinity of the pods of each clique of this gang that have one; `None` if the gang has no `PodGroup`.
    ///
    /// # Errors
    /// If the annotations of the gang cannot be read.
    pub fn of_gang(gang: &PodGang) -> Result<Option<BTreeMap<&str, Self>>, UnreadableAnnotation> {
        let Some(PodGroupRef { name: _, spec }) = PodGroupRef::of_gang(gang)? else { return Ok(None) };
        // A key that waits for the next incarnation does not make the constraints of the pods narrower.
        let is_stored = |record: PackRecord| {
            digest(&gang.spec).is_none_or(|current| current != record.constraints) || record.key.is_some()
        };
        let (packing, has_key) = (GangPacking::of(&gang.spec), spec.packing.is_none_or(is_stored));
        let affinities = packing.cliques.keys().map(|clique| (*clique, packing.affinity(clique, has_key)));
        Ok(Some(affinities.filter(|(_, affinity)| *affinity != Self::default()).collect()))
    }

    /// The affinity in the annotation of a clique; `None` without the annotation.
    ///
    /// # Errors
    /// If the annotation cannot be read. Its pods would not be packed as the gang requires.
    pub fn of_annotation(clique: &impl ResourceExt) -> Result<Option<Self>, UnreadableAnnotation> {
        let text = clique.annotations().get(PACK_AFFINITY);
        text.map(|text| annotation_value::decode(PACK_AFFINITY, text)).transpose()
    }

    /// The value of the annotation.
    pub fn annotation(&self) -> String {
        annotation_value::encode(self)
    }
}

/// A hash of all constraints of a gang; `None` if it has none.
pub fn digest(gang: &PodGangSpec) -> Option<String> {
    let of_groups = gang.podgroups.iter().map(|group| (&group.name, &group.topology_constraint));
    let of_configs = &gang.topology_constraint_group_configs;
    let of_configs = of_configs.iter().map(|config| (&config.name, &config.topology_constraint));
    let all = [("", &gang.topology_constraint)].into_iter();
    let all: Vec<_> = all
        .chain(of_configs.map(|(name, constraint)| (name.as_str(), constraint)))
        .chain(of_groups.map(|(name, constraint)| (name.as_str(), constraint)))
        .filter(|(_, constraint)| pack(constraint.as_ref()).is_some())
        .collect();
    (!all.is_empty()).then(|| hash::digest(&json!(all)))
}

/// The constraints of a gang by scope. A scope that has the same pods as a wider one counts as the wider one.
#[derive(Clone, Debug)]
pub struct GangPacking<'a> {
    /// The required keys of the whole gang.
    gang: Vec<&'a str>,
    cliques: BTreeMap<&'a str, CliqueKeys<'a>>,
    /// The required keys of all scopes, each once.
    all: Vec<&'a str>,
    /// Whether a clique is in two constrained scopes below the gang.
    has_two_scopes: bool,
}

/// The constraints of the pods of one clique.
#[derive(Clone, Debug, Default)]
struct CliqueKeys<'a> {
    /// The name of its replica of a scaling group, if that has a constraint.
    replica: Option<&'a str>,
    /// The required keys of the replica.
    of_replica: Vec<&'a str>,
    /// The required keys of the clique.
    of_clique: Vec<&'a str>,
    preferred: Vec<(Scope, &'a str)>,
}

impl CliqueKeys<'_> {
    /// Whether the clique is in two constrained scopes below the gang.
    fn has_two_scopes(&self) -> bool {
        !self.of_replica.is_empty() && !self.of_clique.is_empty()
    }

    /// Whether the clique is in a constrained scope below the gang.
    fn has_inner_scope(&self) -> bool {
        !self.of_replica.is_empty() || !self.of_clique.is_empty()
    }
}

impl<'a> GangPacking<'a> {
    /// The constraints of a gang.
    pub fn of(spec: &'a PodGangSpec) -> Self {
        let (of_gang, mut gang) = (pack(spec.topology_constraint.as_ref()), Vec::new());
        gang.extend(of_gang.and_then(required));
        let mut cliques: BTreeMap<&str, CliqueKeys<'_>> = BTreeMap::new();
        let of_gang = of_gang.and_then(preferred).map(|key| (Scope::Gang, key));
        for group in &spec.podgroups {
            cliques.entry(&group.name).or_default().preferred.extend(of_gang);
        }
        for config in &spec.topology_constraint_group_configs {
            let constraint = pack(config.topology_constraint.as_ref());
            let names: BTreeSet<&str> = config.pod_group_names.iter().map(String::as_str).collect();
            let is_whole_gang = cliques.keys().all(|clique| names.contains(clique));
            gang.extend(constraint.and_then(required).filter(|_| is_whole_gang));
            for keys in names.into_iter().filter_map(|name| cliques.remove_entry(name)).collect::<Vec<_>>() {
                let (name, mut keys) = keys;
                keys.replica = Some(config.name.as_str());
                keys.of_replica.extend(constraint.and_then(required).filter(|_| !is_whole_gang));
                keys.preferred.extend(constraint.and_then(preferred).map(|key| (Scope::Replica, key)));
                cliques.insert(name, keys);
            }
        }
        let mut packing = Self { gang, cliques, all: Vec::new(), has_two_scopes: false };
        for group in &spec.podgroups {
            packing.add_clique(&group.name, pack(group.topology_constraint.as_ref()));
        }
        packing.remove_implied_keys();
        let inner = packing.cliques.values().flat_map(|keys| keys.of_replica.iter().chain(&keys.of_clique));
        packing.all = distinct(packing.gang.iter().chain(inner).copied());
        packing.has_two_scopes = packing.cliques.values().any(CliqueKeys::has_two_scopes);
        packing
    }

    fn add_clique(&mut self, name: &'a str, constraint: Option<&'a TopologyPackConstraint>) {
        let is_only_clique = self.cliques.len() == 1;
        let of_same_replica = |keys: &&CliqueKeys<'_>, replica: &str| keys.replica == Some(replica);
        let replica = self.cliques.get(name).and_then(|keys| keys.replica);
        let is_only_of_replica = replica
            .is_some_and(|replica| self.cliques.values().filter(|keys| of_same_replica(keys, replica)).count() == 1);
        let Some(keys) = self.cliques.get_mut(name) else { return };
        keys.preferred.extend(constraint.and_then(preferred).map(|key| (Scope::Clique, key)));
        let required = constraint.and_then(required);
        if is_only_clique {
            self.gang.extend(required);
        } else if is_only_of_replica && !keys.of_replica.is_empty() {
            keys.of_replica.extend(required);
        } else {
            keys.of_clique.extend(required);
        }
    }

    /// Removes the keys of scopes that a wider scope has, too.
    fn remove_implied_keys(&mut self) {
        for keys in self.cliques.values_mut() {
            let CliqueKeys { replica: _, of_replica, of_clique, preferred: _ } = keys;
            of_replica.retain(|key| !self.gang.contains(key));
            of_clique.retain(|key| !self.gang.contains(key) && !of_replica.contains(key));
        }
    }

    /// The key for the `PodGroup`: the narrowest of the keys that must apply to the whole gang. `depth` is greater for narrower keys. If a
    /// clique is in two constrained scopes below the gang, the key of the outer one applies to the whole gang.
    pub fn key(&self, depth: impl Fn(&str) -> Option<usize>) -> Option<&'a str> {
        let two_scopes = self.cliques.values().filter(|keys| keys.has_two_scopes());
        let candidates = self.gang.iter().chain(two_scopes.flat_map(|keys| &keys.of_replica));
        candidates.copied().max_by_key(|key| depth(key))
    }

    /// Whether pod affinity alone cannot express the constraints exactly.
    pub fn relies_on_key(&self) -> bool {
        let has_inner_scope = || self.cliques.values().any(CliqueKeys::has_inner_scope);
        self.has_two_scopes || (!self.gang.is_empty() && has_inner_scope())
    }

    /// The affinity of the pods of a clique. `has_key` is whether the `PodGroup` has the key of the gang.
    pub fn affinity(&self, clique: &str, has_key: bool) -> PackAffinity {
        let Some(keys) = self.cliques.get(clique) else { return PackAffinity::default() };
        let required = self.required(keys, has_key);
        // The required key of a scope also packs the narrower ones. Pods that must be in one domain have no use for a wider scope that prefers
        // a key of theirs: it would attract them to domains that other pods occupy.
        let is_redundant = |(scope, key): &&(Scope, &str)| {
            let Some((of, required)) = &required else { return false };
            let is_required = of <= scope && required.contains(key);
            is_required || (scope < of && keys.preferred.iter().any(|(other, same)| other >= of && same == key))
        };
        let preferred = keys.preferred.iter().filter(|preferred| !is_redundant(preferred));
        PackAffinity {
            preferred: preferred
                .map(|(scope, key)| PreferredAffinity { scope: *scope, key: (*key).to_owned() })
                .collect(),
            required: required
                .map(|(scope, keys)| RequiredAffinity { scope, keys: keys.into_iter().map(str::to_owned).collect() }),
        }
    }

    fn required(&self, keys: &CliqueKeys<'a>, has_key: bool) -> Option<(Scope, Vec<&'a str>)> {
        let needs_affinity_of_gang = !self.gang.is_empty() && (!has_key || !self.relies_on_key());
        let (scope, required) = if needs_affinity_of_gang {
            (Scope::Gang, self.all.clone())
        } else if keys.of_replica.is_empty() || (has_key && keys.has_two_scopes()) {
            (Scope::Clique, distinct(keys.of_clique.iter().copied()))
        } else {
            (Scope::Replica, self.of_replica(keys, has_key))
        };
        (!required.is_empty()).then_some((scope, required))
    }

    /// The keys by which the replica of a clique is packed.
    fn of_replica(&self, keys: &CliqueKeys<'a>, has_key: bool) -> Vec<&'a str> {
        let members = self.cliques.values().filter(|other| other.replica == keys.replica);
        let narrower = members.filter(|_| !has_key).flat_map(|member| &member.of_clique);
        distinct(keys.of_replica.iter().chain(narrower).copied())
    }

    /// Which constraints pod affinity expresses, and which are stricter than the user wrote them; `None` if there are none. `key` is the key
    /// of the `PodGroup`.
    pub fn description(&self, key: Option<&str>) -> Option<String> {
        let by = |name: &str, keys: &[&str]| format!("{name} by {}", keys.join(" and "));
        let mut by_affinity = BTreeSet::new();
        for (clique, keys) in &self.cliques {
            match self.required(keys, key.is_some()) {
                Some((Scope::Gang, required)) if key.is_none() => by_affinity.insert(by("the gang", &required)),
                Some((Scope::Replica, required)) => by_affinity.insert(by(keys.replica.unwrap_or(clique), &required)),
                Some((Scope::Clique, required)) => by_affinity.insert(by(clique, &required)),
                Some((Scope::Gang, _)) | None => false,
            };
        }
        let mut sentences = Vec::new();
        let by_affinity: Vec<String> = by_affinity.into_iter().collect();
        if !by_affinity.is_empty() {
            let list = join_names(&by_affinity, MAX_NAMED);
            sentences.push(format!(
                "required pod affinity packs {list}, so the scheduler may not find a placement in a full cluster"
            ));
        }
        if let Some(key) = key.filter(|_| self.has_two_scopes) {
            sentences.push(format!(
                "the whole gang is packed by {key}, which is stricter than its constraints: the default scheduler cannot pack replicas of \
                 scaling groups and PodCliques in them at the same time"
            ));
        }
        if key.is_none() && self.relies_on_key() {
            sentences.push(
                "pods are packed more narrowly than their constraints require, because the PodGroup has no topology key; enable the feature \
                 gate TopologyAwareWorkloadScheduling of the API server and restart the gang"
                    .to_owned(),
            );
        }
        (!sentences.is_empty()).then(|| sentences.join("; "))
    }
}

fn pack(constraint: Option<&TopologyConstraint>) -> Option<&TopologyPackConstraint> {
    let pack = constraint?.pack_constraint.as_ref()?;
    (required(pack).is_some() || preferred(pack).is_some()).then_some(pack)
}

fn required(pack: &TopologyPackConstraint) -> Option<&str> {
    pack.required.as_deref()
}

fn preferred(pack: &TopologyPackConstraint) -> Option<&str> {
    pack.preferred.as_deref()
}

/// The keys in their order, each once.
fn distinct<'a>(keys: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    keys.filter(|key| seen.insert(*key)).collect()
}

#[cfg(test)]
mod tests;
