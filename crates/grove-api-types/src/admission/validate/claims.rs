//! The names of the claims that Grove makes: that they are names, that no two become the same, and that no pod uses them for
//! claims of its own.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kube::ResourceExt;
use serde_json::Value;

use super::namesakes::{Part, namesakes};
use super::{Judged, template_path};
use crate::admission::findings::Findings;
use crate::admission::{FieldPath, Rule};
use crate::mnnvl::{asks_for_gpu, group_of, is_automatic};
use crate::names::PodClaimName;
use crate::resource_sharing::{self, SharedClaim};
use crate::syntax::{LONGEST_LABEL, LONGEST_NAME, dns_subdomain};
use crate::v1alpha1::{PodCliqueTemplateSpec, ResourceSharingScope};

/// The largest numbers that the name of a claim may contain take so many letters each.
const LONGEST_INDEX: usize = 5;

/// Whose pods share claims.
#[derive(Clone, Copy)]
enum Owner<'a> {
    Set,
    Group(&'a str),
    Clique(&'a str),
}

impl fmt::Display for Owner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set => f.write_str("the PodCliqueSet"),
            Self::Group(name) => write!(f, "PodCliqueScalingGroup '{name}'"),
            Self::Clique(name) => write!(f, "PodClique '{name}'"),
        }
    }
}

/// A template whose claims are shared, and the field that says so.
struct Shares<'a> {
    field: FieldPath,
    template: &'a str,
    owner: Owner<'a>,
}

/// The templates that a level shares, the first share of each, for looking up by the end of a claim's name.
struct Shared<'a> {
    owner: Vec<Part<'a>>,
    by_template: BTreeMap<&'a str, Sharers<'a>>,
}

/// Who shares, for looking up.
struct Sharers<'a> {
    share: SharedClaim<'a>,
    cliques: BTreeSet<&'a str>,
    groups: BTreeSet<&'a str>,
}

impl<'a> Shared<'a> {
    fn new(owner: &[Part<'a>], shares: Vec<SharedClaim<'a>>) -> Self {
        let mut by_template = BTreeMap::new();
        for share in shares {
            by_template.entry(share.template).or_insert_with(|| Sharers {
                cliques: share.cliques.iter().map(String::as_str).collect(),
                groups: share.groups.iter().map(String::as_str).collect(),
                share,
            });
        }
        Self { owner: owner.to_vec(), by_template }
    }

    /// Whether pods of the clique get a claim of this name.
    fn adds(&self, name: &str, clique: &str, group: Option<&str>) -> bool {
        let ends = name.match_indices('-').map(|(at, _)| &name[at + 1..]);
        ends.filter_map(|end| self.by_template.get(end)).any(|sharers| {
            let is_shared = (sharers.cliques.is_empty() && sharers.groups.is_empty())
                || sharers.cliques.contains(clique)
                || group.is_some_and(|group| sharers.groups.contains(group));
            is_shared && spells(name, &claim(&self.owner, &sharers.share))
        })
    }
}

pub(super) fn check(judged: &Judged<'_>, found: &mut Findings) {
    let set = judged.set.name_any();
    let mut claims = vec![];
    let of_set = resource_sharing::of_set(judged.template());
    let at_set = [Part::Text(&set)];
    claims.extend(names((&template_path(), Owner::Set), &at_set, &of_set, found));
    let of_set = Shared::new(&at_set, of_set);
    let mut of_groups = BTreeMap::new();
    for (path, group) in judged.groups() {
        let at_group = [Part::Text(&set), Part::Index, Part::Text(&group.name)];
        let of_group = resource_sharing::of_group(group);
        let named = names((&path, Owner::Group(&group.name)), &at_group, &of_group, found);
        // Of two groups of one name only the first counts; that is told elsewhere.
        if let Entry::Vacant(entry) = of_groups.entry(group.name.as_str()) {
            entry.insert(Shared::new(&at_group, of_group));
            claims.extend(named);
        }
    }
    let mut seen = BTreeSet::new();
    for (path, clique) in judged.cliques() {
        let group = judged.group_of(&clique.name).map(|group| group.name.as_str());
        let at_clique = match group {
            Some(group) => {
                vec![Part::Text(&set), Part::Index, Part::Text(group), Part::Index, Part::Text(&clique.name)]
            }
            None => vec![Part::Text(&set), Part::Index, Part::Text(&clique.name)],
        };
        let of_clique = resource_sharing::of_clique(clique);
        let named = names((&path, Owner::Clique(&clique.name)), &at_clique, &of_clique, found);
        if seen.insert(clique.name.as_str()) {
            claims.extend(named);
        }
        if clique.spec.pod_spec.get("resourceClaims").is_some() {
            let of_clique = Shared::new(&at_clique, of_clique);
            let of_group = group.and_then(|group| of_groups.get(group));
            let adds = |name: &str| {
                let by_group = of_group.is_some_and(|shared| shared.adds(name, &clique.name, None));
                of_set.adds(name, &clique.name, group) || by_group || of_clique.adds(name, &clique.name, None)
            };
            clashes(judged, (&path, clique), adds, found);
        }
    }
    twice(&claims, found);
}

fn claim<'a>(owner: &[Part<'a>], share: &SharedClaim<'a>) -> Vec<Part<'a>> {
    let of = match share.scope {
        ResourceSharingScope::AllReplicas => Part::Text("all"),
        ResourceSharingScope::PerReplica => Part::Index,
    };
    owner.iter().copied().chain([of, Part::Text(share.template)]).collect()
}

/// The name of a template is that of an object, and the names of its claims are, too. Those that are so far.
fn names<'a>(
    (path, owner): (&FieldPath, Owner<'a>),
    at: &[Part<'a>],
    shares: &[SharedClaim<'a>],
    found: &mut Findings,
) -> Vec<(Vec<Part<'a>>, Shares<'a>)> {
    let (mut claims, mut seen) = (vec![], BTreeSet::new());
    for share in shares {
        let (field, template) = (path.key(&share.field), share.template);
        if template.trim().is_empty() || !seen.insert(template) {
            continue;
        }
        if let Err(said) = dns_subdomain(template) {
            found.invalid(Rule::ClaimName, &field, template, said);
            continue;
        }
        let name = claim(at, share);
        let length = longest(&name);
        if length <= LONGEST_NAME {
            claims.push((name, Shares { field, template, owner }));
            continue;
        }
        let text = format!(
            "the claim's name would have up to {length} characters, and {LONGEST_NAME} is the most; shorten the \
             template's name"
        );
        found.invalid(Rule::ClaimName, &field, template, text);
    }
    claims
}

/// Claims, of whatever level, that would have one name.
fn twice(claims: &[(Vec<Part<'_>>, Shares<'_>)], found: &mut Findings) {
    for (shares, first) in namesakes(claims) {
        let (template, owner) = (first.template, first.owner);
        let text = format!(
            "would get a ResourceClaim of the same name as template '{template}' that {owner} shares; rename one of the \
             templates or of those who share them"
        );
        found.invalid(Rule::ClaimName, &shares.field, shares.template, text);
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
    adds: impl Fn(&str) -> bool,
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
        // Kubernetes takes no longer one.
        if is_fabric || (name.len() <= LONGEST_LABEL && adds(name)) {
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
