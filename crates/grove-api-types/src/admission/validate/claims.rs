//! The names of the claims that Grove makes: that they are names, and that no pod uses them for claims of its own.

use std::collections::BTreeSet;

use kube::ResourceExt;
use serde_json::Value;

use super::{Judged, template_path};
use crate::admission::Rule;
use crate::admission::syntax::{LONGEST_NAME, dns_subdomain};
use crate::admission::verdict::{FieldPath, Findings};
use crate::core::{PodCliqueTemplateSpec, ResourceSharingScope};
use crate::fabric::{asks_for_gpu, group_of, is_automatic};
use crate::names::PodClaimName;
use crate::sharing::{self, Share};

/// The largest numbers that the name of a claim may contain take so many letters each.
const LONGEST_INDEX: usize = 5;

/// What the name of a claim consists of, between hyphens.
#[derive(Clone, Copy)]
enum Part<'a> {
    Text(&'a str),
    Index,
}

pub(super) fn check(judged: &Judged<'_>, found: &mut Findings) {
    let set = judged.set.name_any();
    let of_set = sharing::of_set(judged.template());
    let at_set = [Part::Text(&set)];
    names(&template_path(), &at_set, &of_set, found);
    for (path, group) in judged.groups() {
        let at_group = [Part::Text(&set), Part::Index, Part::Text(&group.name)];
        names(&path, &at_group, &sharing::of_group(group), found);
    }
    for (path, clique) in judged.cliques() {
        let group = judged.group_of(&clique.name);
        let name = Part::Text(&clique.name);
        let at_group = group.map(|group| [Part::Text(&set), Part::Index, Part::Text(&group.name)]);
        let at_clique = match at_group {
            Some([set, index, group]) => vec![set, index, group, Part::Index, name],
            None => vec![Part::Text(&set), Part::Index, name],
        };
        let of_clique = sharing::of_clique(clique);
        names(&path, &at_clique, &of_clique, found);
        if clique.spec.pod_spec.get("resourceClaims").is_none() {
            continue;
        }
        let mut added = vec![];
        let group_name = group.map(|group| group.name.as_str());
        let of_set = of_set.iter().filter(|share| share.reaches(&clique.name, group_name));
        added.extend(of_set.map(|share| claim(&at_set, share)));
        if let (Some(group), Some(at_group)) = (group, &at_group) {
            let of_group = sharing::of_group(group);
            let of_group = of_group.iter().filter(|share| share.reaches(&clique.name, None));
            added.extend(of_group.map(|share| claim(at_group, share)));
        }
        added.extend(of_clique.iter().map(|share| claim(&at_clique, share)));
        clashes(judged, (&path, clique), &added, found);
    }
}

fn claim<'a>(owner: &[Part<'a>], share: &Share<'a>) -> Vec<Part<'a>> {
    let of = match share.scope {
        ResourceSharingScope::AllReplicas => Part::Text("all"),
        ResourceSharingScope::PerReplica => Part::Index,
    };
    owner.iter().copied().chain([of, Part::Text(share.template)]).collect()
}

/// The name of a template is that of an object, and the names of its claims are, too.
fn names(path: &FieldPath, owner: &[Part<'_>], shares: &[Share<'_>], found: &mut Findings) {
    let mut seen = BTreeSet::new();
    for share in shares {
        let field = path.field(&share.field);
        if share.template.trim().is_empty() || !seen.insert(share.template) {
            continue;
        }
        if let Err(said) = dns_subdomain(share.template) {
            found.invalid(Rule::ClaimName, &field, share.template, said);
            continue;
        }
        let length = longest(&claim(owner, share));
        if length > LONGEST_NAME {
            let text = format!(
                "the claim's name would have up to {length} characters, and {LONGEST_NAME} is the most; shorten the \
                 template's name"
            );
            found.invalid(Rule::ClaimName, &field, share.template, text);
        }
    }
}

fn longest(name: &[Part<'_>]) -> usize {
    let length = |part: &Part<'_>| match part {
        Part::Text(text) => text.len(),
        Part::Index => LONGEST_INDEX,
    };
    name.iter().map(length).sum::<usize>() + name.len().saturating_sub(1)
}

/// Claims of the pod's own that have the name of one that Grove adds.
fn clashes(
    judged: &Judged<'_>,
    (path, clique): (&FieldPath, &PodCliqueTemplateSpec),
    added: &[Vec<Part<'_>>],
    found: &mut Findings,
) {
    let pod = &clique.spec.pod_spec;
    let in_group = group_of(judged.set, judged.group_of(&clique.name), clique).is_some();
    let has_fabric = (is_automatic(judged.set) || in_group) && asks_for_gpu(pod);
    let path = path.field("spec").field("podSpec").field("resourceClaims");
    let own = pod.get("resourceClaims").and_then(Value::as_array);
    for (at, entry) in own.into_iter().flatten().enumerate() {
        let Some(name) = entry.get("name").and_then(Value::as_str) else { continue };
        let is_fabric = has_fabric && name == PodClaimName::of_compute_domain().as_str();
        if is_fabric || added.iter().any(|parts| spells(name, parts)) {
            let text = "Grove adds a claim of this name to the pods; choose another one";
            found.invalid(Rule::ClaimName, &path.item(at, name).field("name"), name, text);
        }
    }
}

/// Whether the parts, joined by hyphens, can be this name.
fn spells(name: &str, parts: &[Part<'_>]) -> bool {
    let Some((first, rest)) = parts.split_first() else { return name.is_empty() };
    let after = match first {
        Part::Text(text) => name.strip_prefix(text),
        Part::Index => {
            let after = name.trim_start_matches(|letter: char| letter.is_ascii_digit());
            (after.len() < name.len()).then_some(after)
        }
    };
    match after {
        None => false,
        Some(after) if rest.is_empty() => after.is_empty(),
        Some(after) => after.strip_prefix('-').is_some_and(|after| spells(after, rest)),
    }
}
