//! The names of generated claims: they are valid, no two claims have the same name, and no pod has an own claim with the name of a
//! generated one.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kube::ResourceExt;
use serde_json::Value;

use super::name_collisions::{NamePart, collisions};
use super::{ValidationContext, template_path};
use crate::admission::error_collector::ErrorCollector;
use crate::admission::{FieldPath, Rule};
use crate::mnnvl::{is_auto_mnnvl, mnnvl_group, requests_gpu};
use crate::names::PodClaimName;
use crate::resource_sharing::{self, SharedClaim};
use crate::syntax::{MAX_LABEL_LENGTH, MAX_NAME_LENGTH, dns_subdomain};
use crate::v1alpha1::{PodCliqueTemplateSpec, ResourceSharingScope};

/// The number of digits of the largest index in the name of a claim.
const MAX_INDEX_DIGITS: usize = 5;

/// The object with the `resourceSharing` entry.
#[derive(Clone, Copy)]
enum SharingObject<'a> {
    Set,
    Group(&'a str),
    Clique(&'a str),
}

impl fmt::Display for SharingObject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set => f.write_str("the PodCliqueSet"),
            Self::Group(name) => write!(f, "PodCliqueScalingGroup '{name}'"),
            Self::Clique(name) => write!(f, "PodClique '{name}'"),
        }
    }
}

/// The field that shares the claims of a template.
struct ClaimSource<'a> {
    field: FieldPath,
    template: &'a str,
    shared_by: SharingObject<'a>,
}

/// An index of the claims that one level shares, by template. A lookup finds the template at the end of a claim's name.
struct SharedClaims<'a> {
    owner: Vec<NamePart<'a>>,
    by_template: BTreeMap<&'a str, FilteredClaim<'a>>,
}

/// The first shared claim of a template, with its filters as sets.
struct FilteredClaim<'a> {
    share: SharedClaim<'a>,
    cliques: BTreeSet<&'a str>,
    groups: BTreeSet<&'a str>,
}

impl<'a> SharedClaims<'a> {
    fn new(owner: &[NamePart<'a>], shares: Vec<SharedClaim<'a>>) -> Self {
        let mut by_template = BTreeMap::new();
        for share in shares {
            by_template.entry(share.template).or_insert_with(|| FilteredClaim {
                cliques: share.cliques.iter().map(String::as_str).collect(),
                groups: share.groups.iter().map(String::as_str).collect(),
                share,
            });
        }
        Self { owner: owner.to_vec(), by_template }
    }

    /// Whether the pods of the clique get a generated claim of this name.
    fn adds(&self, name: &str, clique: &str, group: Option<&str>) -> bool {
        let ends = name.match_indices('-').map(|(at, _)| &name[at + 1..]);
        ends.filter_map(|end| self.by_template.get(end)).any(|filtered| {
            let applies = (filtered.cliques.is_empty() && filtered.groups.is_empty())
                || filtered.cliques.contains(clique)
                || group.is_some_and(|group| filtered.groups.contains(group));
            applies && matches(name, &claim(&self.owner, &filtered.share))
        })
    }
}

pub(super) fn check(context: &ValidationContext<'_>, errors: &mut ErrorCollector) {
    let set = context.set.name_any();
    let mut claims = vec![];
    let of_set = resource_sharing::of_set(context.template());
    let at_set = [NamePart::Text(&set)];
    claims.extend(check_names((&template_path(), SharingObject::Set), &at_set, &of_set, errors));
    let of_set = SharedClaims::new(&at_set, of_set);
    let mut of_groups = BTreeMap::new();
    for (path, group) in context.groups() {
        let at_group = [NamePart::Text(&set), NamePart::Index, NamePart::Text(&group.name)];
        let of_group = resource_sharing::of_group(group);
        let named = check_names((&path, SharingObject::Group(&group.name)), &at_group, &of_group, errors);
        // Only the first of two groups with the same name counts; another rule denies the duplicate.
        if let Entry::Vacant(entry) = of_groups.entry(group.name.as_str()) {
            entry.insert(SharedClaims::new(&at_group, of_group));
            claims.extend(named);
        }
    }
    let mut seen = BTreeSet::new();
    for (path, clique) in context.cliques() {
        let group = context.group_of(&clique.name).map(|group| group.name.as_str());
        let at_clique = match group {
            Some(group) => {
                vec![
                    NamePart::Text(&set),
                    NamePart::Index,
                    NamePart::Text(group),
                    NamePart::Index,
                    NamePart::Text(&clique.name),
                ]
            }
            None => vec![NamePart::Text(&set), NamePart::Index, NamePart::Text(&clique.name)],
        };
        let of_clique = resource_sharing::of_clique(clique);
        let named = check_names((&path, SharingObject::Clique(&clique.name)), &at_clique, &of_clique, errors);
        if seen.insert(clique.name.as_str()) {
            claims.extend(named);
        }
        if clique.spec.pod_spec.get("resourceClaims").is_some() {
            let of_clique = SharedClaims::new(&at_clique, of_clique);
            let of_group = group.and_then(|group| of_groups.get(group));
            let adds = |name: &str| {
                let by_group = of_group.is_some_and(|shared| shared.adds(name, &clique.name, None));
                of_set.adds(name, &clique.name, group) || by_group || of_clique.adds(name, &clique.name, None)
            };
            check_own_claims(context, (&path, clique), adds, errors);
        }
    }
    check_unique_names(&claims, errors);
}

fn claim<'a>(owner: &[NamePart<'a>], share: &SharedClaim<'a>) -> Vec<NamePart<'a>> {
    let of = match share.scope {
        ResourceSharingScope::AllReplicas => NamePart::Text("all"),
        ResourceSharingScope::PerReplica => NamePart::Index,
    };
    owner.iter().copied().chain([of, NamePart::Text(share.template)]).collect()
}

/// Checks the names of the templates and of their claims, and returns the claims with valid names.
fn check_names<'a>(
    (path, shared_by): (&FieldPath, SharingObject<'a>),
    at: &[NamePart<'a>],
    shares: &[SharedClaim<'a>],
    errors: &mut ErrorCollector,
) -> Vec<(Vec<NamePart<'a>>, ClaimSource<'a>)> {
    let (mut claims, mut seen) = (vec![], BTreeSet::new());
    for share in shares {
        let (field, template) = (path.key(&share.field), share.template);
        if template.trim().is_empty() || !seen.insert(template) {
            continue;
        }
        if let Err(error) = dns_subdomain(template) {
            errors.invalid(Rule::ClaimName, &field, template, error);
            continue;
        }
        let name = claim(at, share);
        let length = max_length(&name);
        if length <= MAX_NAME_LENGTH {
            claims.push((name, ClaimSource { field, template, shared_by }));
            continue;
        }
        let text = format!(
            "the name of the claim would have up to {length} characters; at most {MAX_NAME_LENGTH} are allowed; \
             shorten the name of the template"
        );
        errors.invalid(Rule::ClaimName, &field, template, text);
    }
    claims
}

/// No two claims of any level may have the same name.
fn check_unique_names(claims: &[(Vec<NamePart<'_>>, ClaimSource<'_>)], errors: &mut ErrorCollector) {
    for (shares, first) in collisions(claims) {
        let (template, shared_by) = (first.template, first.shared_by);
        let text = format!(
            "would get a ResourceClaim of the same name as template '{template}' that {shared_by} shares; rename one of the \
             templates or one of the objects that share them"
        );
        errors.invalid(Rule::ClaimName, &shares.field, shares.template, text);
    }
}

fn max_length(name: &[NamePart<'_>]) -> usize {
    let length = |part: &NamePart<'_>| match part {
        NamePart::Text(text) => text.len(),
        NamePart::Index => MAX_INDEX_DIGITS,
    };
    name.iter().map(length).sum::<usize>() + name.len().saturating_sub(1)
}

/// An own claim of the pod may not have the name of a generated claim.
fn check_own_claims(
    context: &ValidationContext<'_>,
    (path, clique): (&FieldPath, &PodCliqueTemplateSpec),
    adds: impl Fn(&str) -> bool,
    errors: &mut ErrorCollector,
) {
    let pod = &clique.spec.pod_spec;
    let in_group = mnnvl_group(context.set, context.group_of(&clique.name), clique).is_some();
    let has_compute_domain = (is_auto_mnnvl(context.set) || in_group) && requests_gpu(pod);
    let path = path.field("spec").field("podSpec").field("resourceClaims");
    let own = pod.get("resourceClaims");
    for (at, entry) in own.as_ref().and_then(Value::as_array).into_iter().flatten().enumerate() {
        let Some(name) = entry.get("name").and_then(Value::as_str) else { continue };
        let is_compute_domain = has_compute_domain && name == PodClaimName::of_compute_domain().as_str();
        // Kubernetes denies a longer name.
        if is_compute_domain || (name.len() <= MAX_LABEL_LENGTH && adds(name)) {
            let text = "Grove adds a claim of this name to the pods; choose another name";
            errors.invalid(Rule::ClaimName, &path.item(at, name).field("name"), name, text);
        }
    }
}

/// Whether the parts, joined by hyphens, can result in this name.
fn matches(name: &str, parts: &[NamePart<'_>]) -> bool {
    let Some((first, rest)) = parts.split_first() else { return name.is_empty() };
    let after = match first {
        NamePart::Text(text) => name.strip_prefix(text),
        NamePart::Index => {
            let after = name.trim_start_matches(|letter: char| letter.is_ascii_digit());
            (after.len() < name.len()).then_some(after)
        }
    };
    match after {
        None => false,
        Some(after) if rest.is_empty() => after.is_empty(),
        Some(after) => after.strip_prefix('-').is_some_and(|after| matches(after, rest)),
    }
}
