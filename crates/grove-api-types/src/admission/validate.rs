//! The rules of a `PodCliqueSet`, on creation and on update.

use std::collections::BTreeMap;

use kube::ResourceExt;

use super::default::Counterparts;
use super::findings::Findings;
use super::{Facts, FieldPath, Verdict, default};
use crate::deletion::is_terminating;
use crate::labels::{AUTO_MNNVL, KAI_QUEUE, MNNVL_GROUP, TOPOLOGY_NAME, VOLCANO_QUEUE};
use crate::topology::{resolve_topology_name, resolve_topology_name_on_create, resolve_topology_name_on_update};
use crate::v1alpha1::{PodCliqueScalingGroupConfig, PodCliqueSet, PodCliqueSetTemplateSpec, PodCliqueTemplateSpec};

mod claims;
mod cliques;
mod groups;
mod mnnvl;
mod names;
mod namesakes;
mod object_count;
mod pods;
mod scaling;
mod schedulers;
mod sharing;
mod startup;
mod topology;
mod update;

/// Labels and annotations of a set that rules are about.
pub const RULED: [&str; 5] = [AUTO_MNNVL, MNNVL_GROUP, TOPOLOGY_NAME, KAI_QUEUE, VOLCANO_QUEUE];

/// Judges a set that is created.
pub fn validate_create(set: &PodCliqueSet, facts: &Facts) -> Verdict {
    if is_terminating(set) {
        return Verdict::default();
    }
    let set = default::pod_clique_set(set);
    let reference = resolve_topology_name_on_create(&set, &facts.topology.name);
    let judged = Judged::new(&set, facts, reference);
    let mut findings = Findings::default();
    judged.at_any_time(&mut findings);
    cliques::at_creation(&judged, &mut findings);
    pods::placement(&judged, &mut findings);
    mnnvl::at_creation(&judged, &mut findings);
    findings.verdict()
}

/// Judges what a set is changed to. Not judged are sets that are being deleted, changes of what no rule is about, and
/// mistakes that were stored already: they must not keep anybody from changing something else.
pub fn validate_update(new: &PodCliqueSet, old: &PodCliqueSet, facts: &Facts) -> Verdict {
    if is_terminating(new) {
        return Verdict::default();
    }
    let (new, old) = (default::pod_clique_set_after(new, old), default::pod_clique_set(old));
    if new.spec == old.spec && RULED.iter().all(|key| is_kept(&new, &old, key)) {
        return Verdict::default();
    }
    let default = &facts.topology.name;
    let mut stored = Findings::of_stored();
    Judged::new(&old, facts, resolve_topology_name(&old, default)).at_any_time(&mut stored);
    let judged = Judged::new(&new, facts, resolve_topology_name_on_update(&new, &old, default));
    let mut findings = stored.of_change();
    judged.at_any_time(&mut findings);
    pods::moved(&judged, &old, &mut findings);
    update::check(&judged, &old, &mut findings);
    mnnvl::on_update(&judged, &old, &mut findings);
    topology::on_update(&judged, &old, &mut findings);
    findings.verdict()
}

/// What is told about a set as it stands.
pub(super) fn warnings(set: &PodCliqueSet, facts: &Facts) -> Vec<String> {
    let set = default::pod_clique_set(set);
    let mut findings = Findings::default();
    Judged::new(&set, facts, resolve_topology_name(&set, &facts.topology.name)).at_any_time(&mut findings);
    findings.verdict().warnings
}

fn is_kept(new: &PodCliqueSet, old: &PodCliqueSet, key: &str) -> bool {
    new.labels().get(key) == old.labels().get(key) && new.annotations().get(key) == old.annotations().get(key)
}

/// A set with its defaults, and what is known about the cluster.
struct Judged<'a> {
    set: &'a PodCliqueSet,
    facts: &'a Facts,
    /// The topology that the set refers to.
    reference: Option<&'a str>,
    /// The cliques by name, the first of each.
    by_name: BTreeMap<&'a str, &'a PodCliqueTemplateSpec>,
    /// The scaling groups by the names of their cliques, the first of each.
    by_member: BTreeMap<&'a str, &'a PodCliqueScalingGroupConfig>,
}

impl<'a> Judged<'a> {
    fn new(set: &'a PodCliqueSet, facts: &'a Facts, reference: Option<&'a str>) -> Self {
        let template = &set.spec.template;
        let (mut by_name, mut by_member) = (BTreeMap::new(), BTreeMap::new());
        for clique in &template.cliques {
            by_name.entry(clique.name.as_str()).or_insert(clique);
        }
        for group in &template.pod_clique_scaling_groups {
            for name in &group.clique_names {
                by_member.entry(name.as_str()).or_insert(group);
            }
        }
        Self { set, facts, reference, by_name, by_member }
    }

    /// The rules that hold at any time.
    fn at_any_time(&self, found: &mut Findings) {
        names::check(self, found);
        object_count::check(self, found);
        cliques::check(self, found);
        startup::check(self, found);
        pods::check(self, found);
        groups::check(self, found);
        scaling::check(self, found);
        sharing::check(self, found);
        claims::check(self, found);
        topology::check(self, found);
        mnnvl::check(self, found);
        schedulers::check(self, found);
    }

    fn template(&self) -> &'a PodCliqueSetTemplateSpec {
        &self.set.spec.template
    }

    fn cliques(&self) -> impl Iterator<Item = (FieldPath, &'a PodCliqueTemplateSpec)> {
        let path = template_path().field("cliques");
        self.template().cliques.iter().enumerate().map(move |(at, clique)| (path.item(at, &clique.name), clique))
    }

    fn groups(&self) -> impl Iterator<Item = (FieldPath, &'a PodCliqueScalingGroupConfig)> {
        let path = template_path().field("podCliqueScalingGroups");
        let groups = self.template().pod_clique_scaling_groups.iter().enumerate();
        groups.map(move |(at, group)| (path.item(at, &group.name), group))
    }

    /// The cliques, each with what it was before.
    fn cliques_since(
        &self,
        before: &'a [PodCliqueTemplateSpec],
    ) -> impl Iterator<Item = (FieldPath, &'a PodCliqueTemplateSpec, Option<&'a PodCliqueTemplateSpec>)> {
        let stored = Counterparts::new(before, |clique| &clique.name);
        self.cliques().enumerate().map(move |(at, (path, clique))| (path, clique, stored.of(at, &clique.name)))
    }

    /// The scaling groups, each with what it was before.
    fn groups_since(
        &self,
        before: &'a [PodCliqueScalingGroupConfig],
    ) -> impl Iterator<Item = (FieldPath, &'a PodCliqueScalingGroupConfig, Option<&'a PodCliqueScalingGroupConfig>)>
    {
        let stored = Counterparts::new(before, |group| &group.name);
        self.groups().enumerate().map(move |(at, (path, group))| (path, group, stored.of(at, &group.name)))
    }

    fn clique(&self, name: &str) -> Option<&'a PodCliqueTemplateSpec> {
        self.by_name.get(name).copied()
    }

    fn group_of(&self, clique: &str) -> Option<&'a PodCliqueScalingGroupConfig> {
        self.by_member.get(clique).copied()
    }

    /// `namespace/name`
    fn full_name(&self) -> String {
        let namespace = self.set.namespace().unwrap_or_else(|| "default".to_owned());
        [namespace, self.set.name_any()].join("/")
    }
}

fn template_path() -> FieldPath {
    FieldPath::new("spec.template")
}
