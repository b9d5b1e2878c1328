//! The rule of the scale subresource: hostnames keep their length limit, and the set and the gang keep their size limits. A number below
//! `minAvailable` causes a warning.

use std::collections::BTreeMap;

use kube::ResourceExt;

use super::error_collector::ErrorCollector;
use super::messages::{gang_too_large, too_large, too_many_dependencies};
use super::validate::warnings;
use super::{Facts, FieldPath, Rule, ValidationResult, validate_update};
use crate::expansion::dependency_count::{self, MAX_DEPENDENCIES};
use crate::expansion::object_count::{self, MAX_OBJECTS, ObjectCount};
use crate::names::{Hostname, PodCliqueName, PodCliqueScalingGroupName};
use crate::syntax::MAX_LABEL_LENGTH;
use crate::v1alpha1::{
    PodClique, PodCliqueScalingGroup, PodCliqueScalingGroupConfig, PodCliqueSet, PodCliqueTemplateSpec,
};

/// The object that a request scales.
#[derive(Clone, Copy, Debug)]
pub enum ScaleTarget<'a> {
    /// A set.
    Set(&'a PodCliqueSet),
    /// A scaling group, and its set if the caller knows it.
    Group(&'a PodCliqueScalingGroup, Option<&'a PodCliqueSet>),
    /// A clique, its set if the caller knows it, and the size of the other existing cliques of its gang (see
    /// [`object_count::clique_size`]); 0 if the caller knows none.
    Clique(&'a PodClique, Option<&'a PodCliqueSet>, u64),
}

/// Validates the new number of replicas.
pub fn validate_scale(target: ScaleTarget<'_>, replicas: i32, facts: &Facts) -> ValidationResult {
    let mut errors = ErrorCollector::default();
    match target {
        ScaleTarget::Set(set) => {
            let mut new = set.clone();
            new.spec.replicas = replicas;
            let mut result = validate_update(&new, set, facts);
            if !result.warnings.is_empty() {
                // The user of the scale subresource gets no warnings about the unchanged set.
                let before = warnings(set, facts);
                result.warnings.retain(|warning| !before.contains(warning));
            }
            return result;
        }
        ScaleTarget::Group(group, set) => {
            validate_minimum(replicas, group.spec.min_available.unwrap_or(1), &mut errors);
            if replicas > group.spec.replicas.max(0) {
                validate_object_count(
                    replicas,
                    set,
                    |set| growth_of_group(set, &group.name_any(), replicas),
                    &mut errors,
                );
                validate_dependency_count(replicas, &group.name_any(), set, &mut errors);
                validate_hostname(replicas, &longest_hostname_of_group(group, set, replicas), &mut errors);
            }
        }
        ScaleTarget::Clique(clique, set, others) => {
            validate_minimum(replicas, clique.spec.min_available.unwrap_or_default(), &mut errors);
            if replicas > clique.spec.replicas.max(0) {
                let name = PodCliqueName::new(clique.name_any());
                validate_object_count(replicas, set, |set| growth_of_clique(set, name.as_str(), replicas), &mut errors);
                validate_gang_size(replicas, (name.as_str(), set), others, &mut errors);
                validate_hostname(replicas, &Hostname::of_pod(&name, replicas.saturating_sub(1)), &mut errors);
            }
        }
    }
    errors.finish()
}

/// Users scale below `minAvailable` to release nodes, and the Go operator admits it.
fn validate_minimum(replicas: i32, min_available: i32, errors: &mut ErrorCollector) {
    let path = FieldPath::new("spec.replicas");
    if replicas < 0 {
        errors.invalid(Rule::Scale, &path, replicas, "must be greater than or equal to 0");
    } else if replicas > 0 && replicas < min_available {
        let text = format!(
            "is below minAvailable, which is {min_available}; the gang requires only the existing replicas, and the condition \
             MinAvailableBreached becomes True"
        );
        errors.warn(&path, text);
    }
}

fn longest_hostname_of_group(group: &PodCliqueScalingGroup, set: Option<&PodCliqueSet>, replicas: i32) -> Hostname {
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

/// Counts the objects of the set with the replicas of its template, except for the scaled part.
fn validate_object_count(
    replicas: i32,
    set: Option<&PodCliqueSet>,
    growth: impl Fn(&PodCliqueSet) -> u64,
    errors: &mut ErrorCollector,
) {
    let Some(set) = set else { return };
    let growth = growth(set);
    let total = object_count::of_template(set).saturating_add(growth);
    if growth > 0 && total > MAX_OBJECTS {
        errors.invalid(Rule::Scale, &FieldPath::new("spec.replicas"), replicas, too_large(total));
    }
}

/// Counts the gang of the clique with the replicas of the template, except for the scaled clique, and with the replicas of the existing
/// cliques. The first alone would allow each of two cliques to use all that the template leaves free. The second alone would miss
/// cliques that do not exist yet. If the template was stored with a larger gang, the gang may become as large as that of the template, so
/// that a clique can be scaled back. If the whole set is too large, the error about the gang is omitted.
fn validate_gang_size(
    replicas: i32,
    (clique, set): (&str, Option<&PodCliqueSet>),
    others: u64,
    errors: &mut ErrorCollector,
) {
    let pods = set.map_or(0, |set| additional_pods(set, clique, replicas));
    let is_set_too_large = set.filter(|_| pods > 0).is_some_and(|set| {
        let growth = growth_of_clique(set, clique, replicas);
        object_count::of_template(set).saturating_add(growth) > MAX_OBJECTS
    });
    let by_template = set.map_or(0, |set| gang_size_of_template(set, clique));
    let existing = if others > 0 { object_count::clique_size(replicas).saturating_add(others) } else { 0 };
    let size = by_template.saturating_add(pods).max(existing);
    if !is_set_too_large && size > by_template && object_count::is_gang_too_large(size) {
        errors.invalid(Rule::Scale, &FieldPath::new("spec.replicas"), replicas, gang_too_large(size));
    }
}

/// Counts the startup dependencies of the set with the replicas of its template, except for the scaled group. A clique of a scaled gang
/// has no more dependencies than one of the base gang, so the limit of a clique needs no check.
fn validate_dependency_count(replicas: i32, group: &str, set: Option<&PodCliqueSet>, errors: &mut ErrorCollector) {
    let Some(set) = set else { return };
    let config = group_config(set, group);
    let growth = config.map_or(0, |config| dependency_count::growth(&set.spec.template, &config.name, replicas));
    let total = dependency_count::of_template(set).total().saturating_add(growth);
    if growth > 0 && total > MAX_DEPENDENCIES {
        errors.invalid(Rule::Scale, &FieldPath::new("spec.replicas"), replicas, too_many_dependencies(total));
    }
}

fn growth_of_group(set: &PodCliqueSet, name: &str, replicas: i32) -> u64 {
    group_config(set, name).map_or(0, |config| ObjectCount::of(&set.spec.template).growth(&config.name, replicas))
}

/// The template of a scaling group. The name is `<set>-<replica>-<group>`.
fn group_config<'a>(set: &'a PodCliqueSet, name: &str) -> Option<&'a PodCliqueScalingGroupConfig> {
    let part = replica_and_rest(name, &set.name_any()).map(|(_, rest)| rest);
    set.spec.template.pod_clique_scaling_groups.iter().find(|config| part == Some(&config.name))
}

/// The number of objects that the clique gets in addition to those of its template: pods and claims.
fn growth_of_clique(set: &PodCliqueSet, name: &str, replicas: i32) -> u64 {
    template_of(set, name).map_or(0, |(clique, _)| object_count::growth_of_clique(clique, replicas))
}

/// The number of pods that the clique gets in addition to those of its template.
fn additional_pods(set: &PodCliqueSet, name: &str, replicas: i32) -> u64 {
    let growth = template_of(set, name).map_or(0, |(clique, _)| replicas.saturating_sub(clique.spec.replicas.max(0)));
    u64::try_from(growth).unwrap_or(0)
}

/// The size of the gang of the clique with the replicas of the template; 0 if the template does not contain the clique.
fn gang_size_of_template(set: &PodCliqueSet, name: &str) -> u64 {
    let template = &set.spec.template;
    template_of(set, name).map_or(0, |(_, scaled)| match scaled {
        None => object_count::base_gang_size(template),
        Some(group) => object_count::scaled_gang_size(template, group),
    })
}

/// The template of a clique, and its scaling group if its gang is a scaled gang. The name is `<set>-<replica>-<clique>` or
/// `<set>-<replica>-<group>-<replica>-<clique>`.
fn template_of<'a>(
    set: &'a PodCliqueSet,
    name: &str,
) -> Option<(&'a PodCliqueTemplateSpec, Option<&'a PodCliqueScalingGroupConfig>)> {
    let template = &set.spec.template;
    let (_, part) = replica_and_rest(name, &set.name_any())?;
    let groups = &template.pod_clique_scaling_groups;
    let member = groups.iter().find_map(|group| {
        let (replica, clique) = replica_and_rest(part, &group.name)?;
        group.clique_names.iter().any(|name| name == clique).then_some((group, replica, clique))
    });
    let (clique, scaled) = match member {
        None => (part, None),
        Some((group, replica, clique)) => (clique, (replica >= group.min_available()).then_some(group)),
    };
    let clique = template.cliques.iter().find(|it| it.name == clique)?;
    Some((clique, scaled))
}

/// The parts of the name after `<owner>-`: the index of the replica, and the rest.
fn replica_and_rest<'a>(name: &'a str, owner: &str) -> Option<(i32, &'a str)> {
    let (replica, rest) = name.strip_prefix(owner)?.strip_prefix('-')?.split_once('-')?;
    let index = replica.parse::<i32>().ok().filter(|_| replica.bytes().all(|digit| digit.is_ascii_digit()))?;
    Some((index, rest))
}

fn validate_hostname(replicas: i32, longest: &Hostname, errors: &mut ErrorCollector) {
    let length = longest.as_str().len();
    if length > MAX_LABEL_LENGTH {
        let text = format!(
            "hostname '{longest}' of the last pod would have {length} characters; at most {MAX_LABEL_LENGTH} are allowed"
        );
        errors.invalid(Rule::Scale, &FieldPath::new("spec.replicas"), replicas, text);
    }
}
