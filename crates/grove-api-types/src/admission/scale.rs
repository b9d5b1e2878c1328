//! The rule of the scale subresource: nothing is scaled to a number below its minimum, or to more than its names can tell.

use std::collections::BTreeMap;

use kube::ResourceExt;

use super::findings::Findings;
use super::texts::too_large;
use super::validate::warnings;
use super::{Facts, FieldPath, Rule, Verdict, validate_update};
use crate::expansion::object_count::{self, MAX_OBJECTS, ObjectCount};
use crate::names::{Hostname, PodCliqueName, PodCliqueScalingGroupName};
use crate::syntax::LONGEST_LABEL;
use crate::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueScalingGroupConfig, PodCliqueSet, PodCliqueSpec};

/// What is scaled.
#[derive(Clone, Copy, Debug)]
pub enum Scaled<'a> {
    /// A set.
    Set(&'a PodCliqueSet),
    /// A scaling group, and its set if that is known.
    Group(&'a PodCliqueScalingGroup, Option<&'a PodCliqueSet>),
    /// A clique, and its set if that is known.
    Clique(&'a PodClique, Option<&'a PodCliqueSet>),
}

/// Judges the number of replicas that something is scaled to.
pub fn validate_scale(scaled: Scaled<'_>, replicas: i32, facts: &Facts) -> Verdict {
    let mut found = Findings::default();
    match scaled {
        Scaled::Set(set) => {
            let mut new = set.clone();
            new.spec.replicas = replicas;
            let mut verdict = validate_update(&new, set, facts);
            if !verdict.warnings.is_empty() {
                // What the set is warned about as it stands has nothing to do with the number.
                let before = warnings(set, facts);
                verdict.warnings.retain(|warning| !before.contains(warning));
            }
            return verdict;
        }
        Scaled::Group(group, set) => {
            minimum(replicas, group.spec.min_available.unwrap_or(1), &mut found);
            if replicas > group.spec.replicas.max(0) {
                size(replicas, set, |set| growth_of_group(set, &group.name_any(), replicas), &mut found);
                hostnames(replicas, &longest_of_group(group, set, replicas), &mut found);
            }
        }
        Scaled::Clique(clique, set) => {
            minimum(replicas, clique.spec.min_available.unwrap_or_default(), &mut found);
            if replicas > clique.spec.replicas.max(0) {
                let name = PodCliqueName::new(clique.name_any());
                size(replicas, set, |set| growth_of_clique(set, &clique.name_any(), replicas), &mut found);
                hostnames(replicas, &Hostname::of_pod(&name, replicas.saturating_sub(1)), &mut found);
            }
        }
    }
    found.verdict()
}

/// A number of replicas that is too small to be available is a slip; none at all is a decision.
fn minimum(replicas: i32, least: i32, found: &mut Findings) {
    let path = FieldPath::new("spec.replicas");
    if replicas < 0 {
        found.invalid(Rule::Scale, &path, replicas, "must be greater than or equal to 0");
    } else if replicas > 0 && replicas < least {
        let text = format!("must be 0, or greater than or equal to minAvailable, which is {least}");
        found.invalid(Rule::Scale, &path, replicas, text);
    }
}

fn longest_of_group(group: &PodCliqueScalingGroup, set: Option<&PodCliqueSet>, replicas: i32) -> Hostname {
    let name = PodCliqueScalingGroupName::new(group.name_any());
    let templates = set.map_or(&[][..], |set| &set.spec.template.cliques);
    let pods: BTreeMap<&str, i32> = templates.iter().map(|it| (it.name.as_str(), it.spec.replicas)).collect();
    let hostname = |clique: &String| {
        let member = PodCliqueName::member(&name, replicas.saturating_sub(1), clique);
        Hostname::of_pod(&member, pods.get(clique.as_str()).copied().unwrap_or(1).max(1) - 1)
    };
    let longest = group.spec.clique_names.iter().map(hostname).max_by_key(|hostname| hostname.as_str().len());
    longest.unwrap_or_else(|| hostname(&String::new()))
}

/// The set as it is created, but for the part of it that is scaled.
fn size(replicas: i32, set: Option<&PodCliqueSet>, growth: impl Fn(&PodCliqueSet) -> u64, found: &mut Findings) {
    let Some(set) = set else { return };
    let growth = growth(set);
    let total = object_count::of_template(set).saturating_add(growth);
    if growth > 0 && total > MAX_OBJECTS {
        found.invalid(Rule::Scale, &FieldPath::new("spec.replicas"), replicas, too_large(total));
    }
}

fn growth_of_group(set: &PodCliqueSet, name: &str, replicas: i32) -> u64 {
    let template = &set.spec.template;
    let part = part_of(name, &set.name_any());
    let config = template.pod_clique_scaling_groups.iter().find(|config| part == Some(&config.name));
    config.map_or(0, |config| ObjectCount::of(template).growth(&config.name, replicas))
}

/// Whether it stands alone or is one of a group, a clique grows by its pods.
fn growth_of_clique(set: &PodCliqueSet, name: &str, replicas: i32) -> u64 {
    let growth = template_of(set, name).map_or(0, |spec| replicas.saturating_sub(spec.replicas.max(0)));
    u64::try_from(growth).unwrap_or(0)
}

/// What a clique is made from: `<set>-<replica>-<clique>`, or `<set>-<replica>-<group>-<replica>-<clique>`.
fn template_of<'a>(set: &'a PodCliqueSet, name: &str) -> Option<&'a PodCliqueSpec> {
    let template = &set.spec.template;
    let part = part_of(name, &set.name_any())?;
    let member_of = |group: &PodCliqueScalingGroupConfig| {
        part_of(part, &group.name).filter(|clique| group.clique_names.iter().any(|name| name == clique))
    };
    let clique = template.pod_clique_scaling_groups.iter().find_map(member_of).unwrap_or(part);
    template.cliques.iter().find(|it| it.name == clique).map(|it| &it.spec)
}

/// What follows `<owner>-<replica>-`.
fn part_of<'a>(name: &'a str, owner: &str) -> Option<&'a str> {
    let (replica, part) = name.strip_prefix(owner)?.strip_prefix('-')?.split_once('-')?;
    replica.bytes().all(|digit| digit.is_ascii_digit()).then_some(part)
}

fn hostnames(replicas: i32, longest: &Hostname, found: &mut Findings) {
    let length = longest.as_str().len();
    if length > LONGEST_LABEL {
        let text = format!(
            "hostname '{longest}' of the last pod would have {length} characters, and {LONGEST_LABEL} is the most"
        );
        found.invalid(Rule::Scale, &FieldPath::new("spec.replicas"), replicas, text);
    }
}
