//! The rule of the scale subresource: nothing is scaled to a number below its minimum, or to more than its names can tell.

use std::collections::BTreeMap;

use kube::ResourceExt;

use super::findings::Findings;
use super::texts::too_large;
use super::{Facts, FieldPath, Rule, Verdict, validate_update};
use crate::core::{PodClique, PodCliqueScalingGroup, PodCliqueScalingGroupConfig, PodCliqueSet};
use crate::names::{Hostname, PodCliqueName, PodCliqueScalingGroupName};
use crate::shape::size::{self, Count, MOST_OBJECTS};
use crate::syntax::LONGEST_LABEL;

/// What is scaled.
#[derive(Clone, Copy, Debug)]
pub enum Scaled<'a> {
    /// A set.
    Set(&'a PodCliqueSet),
    /// A scaling group, and its set if that is known.
    Group(&'a PodCliqueScalingGroup, Option<&'a PodCliqueSet>),
    /// A clique.
    Clique(&'a PodClique),
}

/// Judges the number of replicas that something is scaled to.
pub fn validate_scale(scaled: Scaled<'_>, replicas: i32, facts: &Facts) -> Verdict {
    let mut found = Findings::default();
    match scaled {
        Scaled::Set(set) => {
            let mut new = set.clone();
            new.spec.replicas = replicas;
            return validate_update(&new, set, facts);
        }
        Scaled::Group(group, set) => {
            minimum(replicas, group.spec.min_available.unwrap_or(1), &mut found);
            if replicas > group.spec.replicas.max(0) {
                size(replicas, group, set, &mut found);
                hostnames(replicas, &longest_of_group(group, set, replicas), &mut found);
            }
        }
        Scaled::Clique(clique) => {
            minimum(replicas, clique.spec.min_available.unwrap_or_default(), &mut found);
            if replicas > clique.spec.replicas.max(0) {
                let name = PodCliqueName::new(clique.name_any());
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

/// The set as it is created, but for this group.
fn size(replicas: i32, group: &PodCliqueScalingGroup, set: Option<&PodCliqueSet>, found: &mut Findings) {
    let Some(set) = set else { return };
    let name = group.name_any();
    let is_of = |config: &&PodCliqueScalingGroupConfig| name.ends_with(&format!("-{}", config.name));
    let config = set.spec.template.pod_clique_scaling_groups.iter().filter(is_of).max_by_key(|it| it.name.len());
    let growth = config.map_or(0, |config| Count::of(&set.spec.template).growth(&config.name, replicas));
    let total = size::of_template(set).saturating_add(growth);
    if growth > 0 && total > MOST_OBJECTS {
        found.invalid(Rule::Scale, &FieldPath::new("spec.replicas"), replicas, too_large(total));
    }
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
