//! The lengths and the uniqueness of generated names: hostnames, `PodClique`s and autoscalers.

use std::collections::BTreeSet;

use kube::ResourceExt;

use super::ValidationContext;
use super::name_collisions::{NamePart, collisions};
use crate::admission::error_collector::{ErrorCollector, ExceededLimit};
use crate::admission::messages::SET_NAME_WITH_DOTS;
use crate::admission::{FieldPath, Rule};
use crate::names::{Hostname, PodCliqueName, PodCliqueScalingGroupName, PodCliqueSetName};
use crate::syntax::{MAX_LABEL_LENGTH, MAX_NAME_LENGTH};
use crate::v1alpha1::{AutoScalingConfig, PodCliqueScalingGroupConfig, PodCliqueTemplateSpec};

/// The limit for the names of set, group and clique together.
const MAX_COMBINED_LENGTH: usize = 45;

pub(super) fn check(context: &ValidationContext<'_>, errors: &mut ErrorCollector) {
    check_set_name(&context.set.name_any(), errors);
    for (path, clique) in context.cliques() {
        if context.group_of(&clique.name).is_none() {
            check_standalone(context, (&path.field("name"), clique), errors);
        }
    }
    for (path, group) in context.groups() {
        for (at, name) in group.clique_names.iter().enumerate() {
            let Some(clique) = context.clique(name) else { continue };
            let member = path.field("cliqueNames").item(at, name);
            if check_combined_length(context, (&path, group), (&member, name), errors) {
                check_hostname(&member, name, &longest_hostname_of_member(context, group, clique), errors);
            }
        }
    }
    check_name_collisions(context, errors);
}

fn check_set_name(name: &str, errors: &mut ErrorCollector) {
    let path = FieldPath::new("metadata.name");
    if name.contains('.') {
        errors.invalid(Rule::SetName, &path, name, SET_NAME_WITH_DOTS);
    }
    if name.starts_with(|letter: char| letter.is_ascii_digit()) {
        errors.warn(
            &path,
            "begins with a digit, and so do the names of its Services, which some versions of Kubernetes deny",
        );
    }
}

fn check_standalone(
    context: &ValidationContext<'_>,
    (path, clique): (&FieldPath, &PodCliqueTemplateSpec),
    errors: &mut ErrorCollector,
) {
    let (set, name) = (context.set.name_any(), clique.name.as_str());
    let length = set.len() + name.len();
    if length > MAX_COMBINED_LENGTH {
        let (set, name) = (shortened(&set), shortened(name));
        let text = format!(
            "combined resource name length {length} exceeds {MAX_COMBINED_LENGTH}-character limit required for pod naming. \
             Consider shortening: PodCliqueSet '{set}' or PodClique '{name}'"
        );
        errors.invalid(Rule::CombinedNameLength, path, name, &text);
        errors.invalid(Rule::CombinedNameLength, &FieldPath::new("metadata.name"), set, &text);
        return;
    }
    let max = max_replicas(clique.spec.replicas, clique.spec.auto_scaling_config.as_ref());
    let longest = PodCliqueName::standalone(&PodCliqueSetName::new(set), last_index(context.set.spec.replicas), name);
    check_hostname(path, name, &Hostname::of_pod(&longest, last_index(max)), errors);
}

/// Checks the names of set, group and clique together; true if they are short enough.
fn check_combined_length(
    context: &ValidationContext<'_>,
    (path, group): (&FieldPath, &PodCliqueScalingGroupConfig),
    (member, clique): (&FieldPath, &str),
    errors: &mut ErrorCollector,
) -> bool {
    let (set, name) = (context.set.name_any(), group.name.as_str());
    let length = set.len() + name.len() + clique.len();
    if length <= MAX_COMBINED_LENGTH {
        return true;
    }
    let (set, name, clique) = (shortened(&set), shortened(name), shortened(clique));
    let text = format!(
        "combined resource name length {length} exceeds {MAX_COMBINED_LENGTH}-character limit required for pod naming. \
         Consider shortening: PodCliqueSet '{set}', PodCliqueScalingGroup '{name}', or PodClique '{clique}'"
    );
    let rule = Rule::CombinedNameLength;
    errors.invalid(rule, member, clique, &text);
    errors.invalid(rule, &path.field("name"), name, &text);
    errors.invalid(rule, &FieldPath::new("metadata.name"), set, &text);
    false
}

/// The beginning of a name up to the longest valid length, so that a message does not repeat a name of a megabyte for each
/// member of a group.
fn shortened(name: &str) -> &str {
    let end = (0..=MAX_NAME_LENGTH).rev().find(|end| name.is_char_boundary(*end)).unwrap_or_default();
    name.get(..end).unwrap_or(name)
}

fn longest_hostname_of_member(
    context: &ValidationContext<'_>,
    group: &PodCliqueScalingGroupConfig,
    clique: &PodCliqueTemplateSpec,
) -> Hostname {
    let set = PodCliqueSetName::new(context.set.name_any());
    let max = max_replicas(group.replicas(), group.scale_config.as_ref());
    let group = PodCliqueScalingGroupName::of_replica(&set, last_index(context.set.spec.replicas), &group.name);
    let clique_name = PodCliqueName::member(&group, last_index(max), &clique.name);
    Hostname::of_pod(&clique_name, last_index(clique.spec.replicas))
}

/// The largest number of replicas that an autoscaler may set.
fn max_replicas(replicas: i32, scale: Option<&AutoScalingConfig>) -> i32 {
    scale.map_or(replicas, |scale| scale.max_replicas.max(replicas))
}

/// The index of the last replica.
fn last_index(replicas: i32) -> i32 {
    replicas.max(1).saturating_sub(1)
}

fn check_hostname(path: &FieldPath, name: &str, longest: &Hostname, errors: &mut ErrorCollector) {
    let length = longest.as_str().len();
    if length > MAX_LABEL_LENGTH {
        let text = format!(
            "hostname '{longest}' of the last pod would have {length} characters; at most {MAX_LABEL_LENGTH} are allowed; \
             shorten the names or lower the numbers of replicas"
        );
        errors.exceeds((Rule::HostnameLength, path), name, ExceededLimit::of_length(path, name, length), text);
    }
}

/// No two `PodClique`s and no two autoscalers of a set may have the same name.
fn check_name_collisions(context: &ValidationContext<'_>, errors: &mut ErrorCollector) {
    let cliques = generated_cliques(context);
    for (clique, first) in collisions(&cliques) {
        let other = match first.group {
            Some(group) => format!("PodClique '{}' of PodCliqueScalingGroup '{group}'", first.name),
            None => format!("PodClique '{}'", first.name),
        };
        let text = format!("would get a PodClique of the same name as {other}; rename one of them");
        errors.invalid(Rule::NameCollision, &clique.path, clique.name, text);
    }
    let scaled_groups =
        context.template().pod_clique_scaling_groups.iter().filter(|group| group.scale_config.is_some());
    let scaled_groups: BTreeSet<&str> = scaled_groups.map(|group| group.name.as_str()).collect();
    let scaled = context.cliques().filter(|(_, clique)| clique.spec.auto_scaling_config.is_some());
    for (path, clique) in scaled.filter(|(_, clique)| context.group_of(&clique.name).is_none()) {
        let name = clique.name.as_str();
        if scaled_groups.contains(name) {
            let text = "a PodCliqueScalingGroup of this name has an autoscaler of the same name; rename one of them";
            errors.invalid(Rule::NameCollision, &path.field("name"), name, text);
        }
    }
}

/// A clique of the template, and the field that names it.
struct CliqueSource<'a> {
    path: FieldPath,
    name: &'a str,
    group: Option<&'a str>,
}

/// The cliques with the names of their `PodClique`s without the prefix `<set>-<replica>-`; those of scaling groups first. Other
/// rules deny names that are too long and duplicates.
fn generated_cliques<'a>(context: &ValidationContext<'a>) -> Vec<(Vec<NamePart<'a>>, CliqueSource<'a>)> {
    let is_name = |name: &str| name.len() <= MAX_LABEL_LENGTH;
    let (mut cliques, mut seen) = (vec![], BTreeSet::new());
    for (path, group) in context.groups().filter(|(_, group)| is_name(&group.name)) {
        let (path, group, names) = (path.field("cliqueNames"), group.name.as_str(), &group.clique_names);
        for (at, name) in names.iter().enumerate().filter(|(_, name)| context.clique(name).is_some() && is_name(name)) {
            if seen.insert((Some(group), name.as_str())) {
                let parts = vec![NamePart::Text(group), NamePart::Index, NamePart::Text(name)];
                cliques.push((parts, CliqueSource { path: path.item(at, name), name, group: Some(group) }));
            }
        }
    }
    for (path, clique) in context.cliques().filter(|(_, clique)| is_name(&clique.name)) {
        let name = clique.name.as_str();
        if context.group_of(name).is_none() && seen.insert((None, name)) {
            cliques.push((vec![NamePart::Text(name)], CliqueSource { path: path.field("name"), name, group: None }));
        }
    }
    cliques
}
