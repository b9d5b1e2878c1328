//! What names become part of: hostnames, Services, and the names of one another.

use std::collections::BTreeSet;

use kube::ResourceExt;

use super::Judged;
use super::namesakes::{Part, namesakes};
use crate::admission::findings::{Excess, Findings};
use crate::admission::texts::SET_NAME;
use crate::admission::{FieldPath, Rule};
use crate::names::{Hostname, PodCliqueName, PodCliqueScalingGroupName, PodCliqueSetName};
use crate::syntax::{LONGEST_LABEL, LONGEST_NAME};
use crate::v1alpha1::{AutoScalingConfig, PodCliqueScalingGroupConfig, PodCliqueTemplateSpec};

/// How long the names of set, group and clique may be together.
const LONGEST_COMBINED: usize = 45;

pub(super) fn check(judged: &Judged<'_>, found: &mut Findings) {
    set(&judged.set.name_any(), found);
    for (path, clique) in judged.cliques() {
        if judged.group_of(&clique.name).is_none() {
            standalone(judged, (&path.field("name"), clique), found);
        }
    }
    for (path, group) in judged.groups() {
        for (at, name) in group.clique_names.iter().enumerate() {
            let Some(clique) = judged.clique(name) else { continue };
            let member = path.field("cliqueNames").item(at, name);
            if combined_of_member(judged, (&path, group), (&member, name), found) {
                hostname(&member, name, &longest_member(judged, group, clique), found);
            }
        }
    }
    clashes(judged, found);
}

fn set(name: &str, found: &mut Findings) {
    let path = FieldPath::new("metadata.name");
    if name.contains('.') {
        found.invalid(Rule::SetName, &path, name, SET_NAME);
    }
    if name.starts_with(|letter: char| letter.is_ascii_digit()) {
        found.warn(
            &path,
            "begins with a digit, and so would the names of its Services, which not every Kubernetes takes",
        );
    }
}

fn standalone(judged: &Judged<'_>, (path, clique): (&FieldPath, &PodCliqueTemplateSpec), found: &mut Findings) {
    let (set, name) = (judged.set.name_any(), clique.name.as_str());
    let length = set.len() + name.len();
    if length > LONGEST_COMBINED {
        let (set, name) = (told(&set), told(name));
        let text = format!(
            "combined resource name length {length} exceeds {LONGEST_COMBINED}-character limit required for pod naming. \
             Consider shortening: PodCliqueSet '{set}' or PodClique '{name}'"
        );
        found.invalid(Rule::CombinedNameLength, path, name, &text);
        found.invalid(Rule::CombinedNameLength, &FieldPath::new("metadata.name"), set, &text);
        return;
    }
    let most = most(clique.spec.replicas, clique.spec.auto_scaling_config.as_ref());
    let longest = PodCliqueName::standalone(&PodCliqueSetName::new(set), last(judged.set.spec.replicas), name);
    hostname(path, name, &Hostname::of_pod(&longest, last(most)), found);
}

/// Whether the three names are short enough together.
fn combined_of_member(
    judged: &Judged<'_>,
    (path, group): (&FieldPath, &PodCliqueScalingGroupConfig),
    (member, clique): (&FieldPath, &str),
    found: &mut Findings,
) -> bool {
    let (set, name) = (judged.set.name_any(), group.name.as_str());
    let length = set.len() + name.len() + clique.len();
    if length <= LONGEST_COMBINED {
        return true;
    }
    let (set, name, clique) = (told(&set), told(name), told(clique));
    let text = format!(
        "combined resource name length {length} exceeds {LONGEST_COMBINED}-character limit required for pod naming. \
         Consider shortening: PodCliqueSet '{set}', PodCliqueScalingGroup '{name}', or PodClique '{clique}'"
    );
    let rule = Rule::CombinedNameLength;
    found.invalid(rule, member, clique, &text);
    found.invalid(rule, &path.field("name"), name, &text);
    found.invalid(rule, &FieldPath::new("metadata.name"), set, &text);
    false
}

/// As much of a name as any name may have, so that one of a megabyte is not repeated for each member of a group.
fn told(name: &str) -> &str {
    let end = (0..=LONGEST_NAME).rev().find(|end| name.is_char_boundary(*end)).unwrap_or_default();
    name.get(..end).unwrap_or(name)
}

fn longest_member(
    judged: &Judged<'_>,
    group: &PodCliqueScalingGroupConfig,
    clique: &PodCliqueTemplateSpec,
) -> Hostname {
    let set = PodCliqueSetName::new(judged.set.name_any());
    let most = most(group.replicas(), group.scale_config.as_ref());
    let group = PodCliqueScalingGroupName::of_replica(&set, last(judged.set.spec.replicas), &group.name);
    let clique_name = PodCliqueName::member(&group, last(most), &clique.name);
    Hostname::of_pod(&clique_name, last(clique.spec.replicas))
}

/// The most replicas that there may come to be.
fn most(replicas: i32, scale: Option<&AutoScalingConfig>) -> i32 {
    scale.map_or(replicas, |scale| scale.max_replicas.max(replicas))
}

/// The index of the last of so many.
fn last(replicas: i32) -> i32 {
    replicas.max(1).saturating_sub(1)
}

fn hostname(path: &FieldPath, name: &str, longest: &Hostname, found: &mut Findings) {
    let length = longest.as_str().len();
    if length > LONGEST_LABEL {
        let text = format!(
            "hostname '{longest}' of the last pod would have {length} characters, and {LONGEST_LABEL} is the most; \
             shorten the names or lower the numbers of replicas"
        );
        found.exceeds((Rule::HostnameLength, path), name, Excess::of_length(path, name, length), text);
    }
}

/// Cliques that would become `PodClique`s of one name, and autoscalers that would have one name.
fn clashes(judged: &Judged<'_>, found: &mut Findings) {
    let cliques = becoming(judged);
    for (clique, first) in namesakes(&cliques) {
        let other = match first.group {
            Some(group) => format!("PodClique '{}' of PodCliqueScalingGroup '{group}'", first.name),
            None => format!("PodClique '{}'", first.name),
        };
        let text = format!("would get a PodClique of the same name as {other}; rename one of them");
        found.invalid(Rule::NameClash, &clique.path, clique.name, text);
    }
    let scaled_groups = judged.template().pod_clique_scaling_groups.iter().filter(|group| group.scale_config.is_some());
    let scaled_groups: BTreeSet<&str> = scaled_groups.map(|group| group.name.as_str()).collect();
    let scaled = judged.cliques().filter(|(_, clique)| clique.spec.auto_scaling_config.is_some());
    for (path, clique) in scaled.filter(|(_, clique)| judged.group_of(&clique.name).is_none()) {
        let name = clique.name.as_str();
        if scaled_groups.contains(name) {
            let text = "a PodCliqueScalingGroup of this name has an autoscaler of the same name; rename one of them";
            found.invalid(Rule::NameClash, &path.field("name"), name, text);
        }
    }
}

/// A clique that becomes `PodClique`s.
struct Becoming<'a> {
    path: FieldPath,
    name: &'a str,
    group: Option<&'a str>,
}

/// The cliques with the names of their `PodClique`s, from after the index of the set's replica on: those of scaling groups
/// first. What is too long for a name, and what stands twice, is told elsewhere.
fn becoming<'a>(judged: &Judged<'a>) -> Vec<(Vec<Part<'a>>, Becoming<'a>)> {
    let is_name = |name: &str| name.len() <= LONGEST_LABEL;
    let (mut cliques, mut seen) = (vec![], BTreeSet::new());
    for (path, group) in judged.groups().filter(|(_, group)| is_name(&group.name)) {
        let (path, group, names) = (path.field("cliqueNames"), group.name.as_str(), &group.clique_names);
        for (at, name) in names.iter().enumerate().filter(|(_, name)| judged.clique(name).is_some() && is_name(name)) {
            if seen.insert((Some(group), name.as_str())) {
                let parts = vec![Part::Text(group), Part::Index, Part::Text(name)];
                cliques.push((parts, Becoming { path: path.item(at, name), name, group: Some(group) }));
            }
        }
    }
    for (path, clique) in judged.cliques().filter(|(_, clique)| is_name(&clique.name)) {
        let name = clique.name.as_str();
        if judged.group_of(name).is_none() && seen.insert((None, name)) {
            cliques.push((vec![Part::Text(name)], Becoming { path: path.field("name"), name, group: None }));
        }
    }
    cliques
}
