//! `NVLink` between nodes: the two annotations by which sets, scaling groups and cliques ask for fabrics.

use kube::ResourceExt;

use super::Judged;
use crate::admission::findings::{Excess, Findings};
use crate::admission::{FieldPath, Rule};
use crate::labels::{AUTO_MNNVL, AUTO_MNNVL_DISABLED, AUTO_MNNVL_ENABLED, MNNVL_GROUP, NO_MNNVL_GROUP};
use crate::mnnvl::{asks_for_gpu, is_automatic};
use crate::names::{ComputeDomainName, PodCliqueSetName};
use crate::syntax::{LONGEST_LABEL, dns_label};
use crate::v1alpha1::PodCliqueSet;

/// An object that may carry an annotation, and what the annotation says there now and said before.
struct Annotated<'a> {
    path: FieldPath,
    now: Option<&'a str>,
    before: Option<&'a str>,
}

/// Everything of the set that may carry the annotation, and the same of the set before.
fn annotated<'a>(judged: &Judged<'a>, old: &'a PodCliqueSet, key: &'a str) -> Vec<Annotated<'a>> {
    let text = |value: Option<&'a String>| value.map(String::as_str);
    let mut all = vec![Annotated {
        path: FieldPath::new("metadata.annotations").key(key),
        now: text(judged.set.annotations().get(key)),
        before: text(old.annotations().get(key)),
    }];
    for (path, clique, before) in judged.cliques_since(&old.spec.template.cliques) {
        let Some(before) = before else { continue };
        let path = path.field("annotations").key(key);
        let (now, before) = (text(clique.annotations.get(key)), text(before.annotations.get(key)));
        all.push(Annotated { path, now, before });
    }
    for (path, group, before) in judged.groups_since(&old.spec.template.pod_clique_scaling_groups) {
        let Some(before) = before else { continue };
        let path = path.field("annotations").key(key);
        let (now, before) = (text(group.annotations.get(key)), text(before.annotations.get(key)));
        all.push(Annotated { path, now, before });
    }
    all
}

/// What the annotation says at the set, its cliques and its groups, where it says something.
fn written<'a>(judged: &Judged<'a>, key: &'a str) -> impl Iterator<Item = (FieldPath, &'a str)> {
    let here = annotated(judged, judged.set, key).into_iter();
    here.filter_map(|annotated| Some((annotated.path, annotated.now?)))
}

pub(super) fn check(judged: &Judged<'_>, found: &mut Findings) {
    form(judged, found);
    lengths(judged, found);
    let has_gpu = judged.template().cliques.iter().any(|clique| asks_for_gpu(&clique.spec.pod_spec));
    let automatic = is_automatic(judged.set).then(|| FieldPath::new("metadata.annotations").field(AUTO_MNNVL));
    let grouped = || written(judged, MNNVL_GROUP).find(|(_, group)| *group != NO_MNNVL_GROUP).map(|(path, _)| path);
    if let Some(path) = automatic.or_else(grouped).filter(|_| !has_gpu) {
        found.warn(&path, "asks for a fabric, and no container asks for nvidia.com/gpu");
    }
    for (path, _) in written(judged, AUTO_MNNVL).filter(|(path, _)| path.is_within_spec()) {
        found.warn(&path, format!("has no effect here; {AUTO_MNNVL} is read on the PodCliqueSet only"));
    }
}

/// One form or the other.
fn form(judged: &Judged<'_>, found: &mut Findings) {
    if !is_automatic(judged.set) {
        return;
    }
    for (path, group) in written(judged, MNNVL_GROUP) {
        let text =
            format!("a set has either {AUTO_MNNVL}: {AUTO_MNNVL_ENABLED} or groups; remove one of the annotations");
        found.invalid(Rule::MnnvlForm, &path, group, text);
    }
}

/// The name of a `ComputeDomain` is the value of a label of its own, too.
fn lengths(judged: &Judged<'_>, found: &mut Findings) {
    let set = PodCliqueSetName::new(judged.set.name_any());
    let last = judged.set.spec.replicas.max(1).saturating_sub(1);
    for (path, group) in written(judged, MNNVL_GROUP).filter(|(_, group)| dns_label(group).is_ok()) {
        let domain = ComputeDomainName::of_group(&set, last, group);
        let length = domain.as_str().len();
        if length > LONGEST_LABEL {
            let text = format!(
                "ComputeDomain '{domain}' of the last replica would have a name of {length} characters, and \
                 {LONGEST_LABEL} is the most; shorten the names or lower the number of replicas"
            );
            found.exceeds((Rule::ClaimName, &path), group, Excess::of_length(&path, group, length), text);
        }
    }
}

/// The values, and whether the feature is on: asked at creation, since neither can change after.
pub(super) fn at_creation(judged: &Judged<'_>, found: &mut Findings) {
    let off = |key: &str| {
        format!(
            "MNNVL is not enabled in the operator configuration. Either enable MNNVL globally or remove the {key} \
             annotation"
        )
    };
    let path = FieldPath::new("metadata.annotations").field(AUTO_MNNVL);
    match judged.set.annotations().get(AUTO_MNNVL).map(String::as_str) {
        None | Some(AUTO_MNNVL_DISABLED) => {}
        Some(AUTO_MNNVL_ENABLED) if judged.facts.mnnvl_enabled => {}
        Some(AUTO_MNNVL_ENABLED) => {
            found.invalid(Rule::MnnvlEnabled, &path, AUTO_MNNVL_ENABLED, off(AUTO_MNNVL));
        }
        Some(other) => found.invalid(Rule::AutoMnnvl, &path, other, r#"must be "enabled" or "disabled""#),
    }
    for (path, group) in written(judged, MNNVL_GROUP) {
        if group == NO_MNNVL_GROUP {
            continue;
        }
        if group.is_empty() {
            found.invalid(Rule::MnnvlGroup, &path, group, "mnnvl-group value must not be empty");
        } else if let Err(said) = dns_label(group) {
            let text = format!("mnnvl-group value {group:?} is not a valid DNS-1123 label: {said}");
            found.invalid(Rule::MnnvlGroup, &path, group, text);
        }
        if !judged.facts.mnnvl_enabled {
            found.invalid(Rule::MnnvlEnabled, &path, group, off(MNNVL_GROUP));
        }
    }
}

pub(super) fn on_update(judged: &Judged<'_>, old: &PodCliqueSet, found: &mut Findings) {
    for (key, when) in [(MNNVL_GROUP, "after creation"), (AUTO_MNNVL, "after PodCliqueSet creation")] {
        for Annotated { path, now, before } in annotated(judged, old, key) {
            let is_read = key == MNNVL_GROUP || !path.is_within_spec();
            if now == before || !is_read {
                continue;
            }
            match (before, now) {
                (Some(before), Some(now)) => {
                    let text =
                        format!("annotation {key} is immutable and cannot be changed from {before:?} to {now:?}");
                    found.invalid(Rule::MnnvlImmutable, &path, now, text);
                }
                (None, _) => {
                    let text = format!("annotation {key} cannot be added {when}");
                    found.forbidden(Rule::MnnvlImmutable, &path, text);
                }
                (Some(_), None) => {
                    let text = format!("annotation {key} cannot be removed {when}");
                    found.forbidden(Rule::MnnvlImmutable, &path, text);
                }
            }
        }
    }
}
