//! The cliques and scaling groups of a template by name, and the parents of each clique. Without the index, each clique would be searched
//! among all cliques of the template.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::v1alpha1::{
    CliqueStartupType, PodCliqueScalingGroupConfig, PodCliqueSetTemplateSpec, PodCliqueTemplateSpec,
};

/// The index of a template. Of several cliques with the same name it has the first one. A clique that several scaling groups name belongs
/// to the first one.
#[derive(Debug)]
pub(super) struct TemplateIndex<'a> {
    cliques: Vec<&'a PodCliqueTemplateSpec>,
    groups: Vec<&'a PodCliqueScalingGroupConfig>,
    by_name: BTreeMap<&'a str, &'a PodCliqueTemplateSpec>,
    /// The scaling group of each clique, by the name of the clique.
    by_member: BTreeMap<&'a str, &'a PodCliqueScalingGroupConfig>,
    /// The parents of each clique that has any, by the name of the clique.
    parents: BTreeMap<&'a str, Parents<'a>>,
}

/// The parents of a clique, by the names in the template: the cliques that must have ready pods before its pods start.
#[derive(Debug, Default)]
pub(super) struct Parents<'a> {
    /// All parents, in their order.
    pub(super) all: Vec<&'a str>,
    /// The number of those that are in no scaling group.
    pub(super) standalone: usize,
    /// Those in scaling groups, by the name of their group.
    pub(super) by_group: BTreeMap<&'a str, Vec<&'a str>>,
}

impl<'a> TemplateIndex<'a> {
    pub(super) fn of(template: &'a PodCliqueSetTemplateSpec) -> Self {
        let (cliques, groups) = (&template.cliques, &template.pod_clique_scaling_groups);
        Self::new(template.clique_startup_type, cliques.iter(), groups.iter())
    }

    fn new(
        startup_type: CliqueStartupType,
        cliques: impl Iterator<Item = &'a PodCliqueTemplateSpec>,
        groups: impl Iterator<Item = &'a PodCliqueScalingGroupConfig>,
    ) -> Self {
        let (cliques, groups): (Vec<_>, Vec<_>) = (cliques.collect(), groups.collect());
        let (mut by_name, mut by_member, mut parents) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for group in groups.iter().copied() {
            for name in &group.clique_names {
                by_member.entry(name.as_str()).or_insert(group);
            }
        }
        let mut previous: Option<&'a str> = None;
        for clique in cliques.iter().copied() {
            let name = clique.name.as_str();
            if let Entry::Vacant(entry) = by_name.entry(name) {
                entry.insert(clique);
                let names = parent_names(startup_type, clique, previous);
                if !names.is_empty() {
                    parents.insert(name, Parents::new(names, &by_member));
                }
            }
            previous = Some(name);
        }
        Self { cliques, groups, by_name, by_member, parents }
    }

    /// The scaling groups, in the order of the template.
    pub(super) fn groups(&self) -> impl Iterator<Item = &'a PodCliqueScalingGroupConfig> {
        self.groups.iter().copied()
    }

    /// The cliques that are in no scaling group, in the order of the template.
    pub(super) fn standalone_cliques(&self) -> impl Iterator<Item = &'a PodCliqueTemplateSpec> {
        self.cliques.iter().copied().filter(move |clique| self.group_of(&clique.name).is_none())
    }

    /// The cliques of the scaling group, in the order of `cliqueNames`.
    pub(super) fn members(
        &self,
        group: &'a PodCliqueScalingGroupConfig,
    ) -> impl Iterator<Item = &'a PodCliqueTemplateSpec> {
        group.clique_names.iter().filter_map(move |name| self.by_name.get(name.as_str()).copied())
    }

    /// The scaling group of the clique.
    pub(super) fn group_of(&self, clique: &str) -> Option<&'a PodCliqueScalingGroupConfig> {
        self.by_member.get(clique).copied()
    }

    /// The cliques that have parents, by name.
    pub(super) fn with_parents(&self) -> &BTreeMap<&'a str, Parents<'a>> {
        &self.parents
    }

    /// The parents of the clique.
    pub(super) fn parents(&self, clique: &str) -> &[&'a str] {
        self.parents.get(clique).map(|parents| parents.all.as_slice()).unwrap_or_default()
    }

    /// The parents of the clique that are in this scaling group.
    pub(super) fn parents_in_group(&self, clique: &str, group: &str) -> &[&'a str] {
        let in_group = self.parents.get(clique).and_then(|parents| parents.by_group.get(group));
        in_group.map(Vec::as_slice).unwrap_or_default()
    }
}

impl<'a> Parents<'a> {
    fn new(all: Vec<&'a str>, by_member: &BTreeMap<&'a str, &'a PodCliqueScalingGroupConfig>) -> Self {
        let mut parents = Self::default();
        for parent in all.iter().copied() {
            match by_member.get(parent) {
                Some(group) => parents.by_group.entry(group.name.as_str()).or_default().push(parent),
                None => parents.standalone += 1,
            }
        }
        Self { all, ..parents }
    }
}

/// The names of the parents of a clique in the template. `previous` is the clique before it.
fn parent_names<'a>(
    startup_type: CliqueStartupType,
    clique: &'a PodCliqueTemplateSpec,
    previous: Option<&'a str>,
) -> Vec<&'a str> {
    match startup_type {
        CliqueStartupType::AnyOrder => Vec::new(),
        CliqueStartupType::Explicit => clique.spec.starts_after.iter().map(String::as_str).collect(),
        CliqueStartupType::InOrder => previous.into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::json;

    use super::*;

    /// `f-0` to `f-999`. `f-500` and the cliques after it are in groups of ten, `g-50` to `g-99`.
    fn template(startup_type: CliqueStartupType) -> PodCliqueSetTemplateSpec {
        let starts_after = |index: u32| if index == 505 { json!(["f-1", "f-509", "f-500"]) } else { json!([]) };
        let clique = |index: u32| {
            let spec = json!({ "replicas": 1, "podSpec": { "containers": [] }, "startsAfter": starts_after(index) });
            json!({ "name": format!("f-{index}"), "spec": spec })
        };
        let group = |index: u32| {
            let names: Vec<_> = (index * 10..index * 10 + 10).map(|clique| format!("f-{clique}")).collect();
            json!({ "name": format!("g-{index}"), "cliqueNames": names })
        };
        let template = json!({
            "cliqueStartupType": startup_type,
            "cliques": (0..1000).map(clique).collect::<Vec<_>>(),
            "podCliqueScalingGroups": (50..100).map(group).collect::<Vec<_>>(),
        });
        serde_json::from_value(template).expect("a template")
    }

    #[test]
    fn an_index_reads_each_clique_and_each_group_of_the_template_once() {
        let template = template(CliqueStartupType::InOrder);
        let (cliques, groups) = (Cell::new(0), Cell::new(0));
        let index = TemplateIndex::new(
            CliqueStartupType::InOrder,
            template.cliques.iter().inspect(|_| cliques.set(cliques.get() + 1)),
            template.pod_clique_scaling_groups.iter().inspect(|_| groups.set(groups.get() + 1)),
        );
        let members: usize = index.groups().map(|group| index.members(group).count()).sum();
        assert_eq!((index.standalone_cliques().count(), members), (500, 500));
        let parents: usize = template.cliques.iter().map(|clique| index.parents(&clique.name).len()).sum();
        assert_eq!((parents, cliques.get(), groups.get()), (999, 1000, 50));
    }

    #[test]
    fn with_in_order_the_parent_is_the_previous_clique() {
        let template = template(CliqueStartupType::InOrder);
        let index = TemplateIndex::of(&template);
        assert!(index.parents("f-0").is_empty() && index.parents("none").is_empty());
        assert_eq!(index.parents("f-505"), ["f-504"]);
        assert_eq!(index.parents_in_group("f-505", "g-50"), ["f-504"]);
        assert!(index.parents_in_group("f-510", "g-51").is_empty(), "the parent is in another group");
    }

    #[test]
    fn with_explicit_startup_the_order_of_the_parents_stays() {
        let template = template(CliqueStartupType::Explicit);
        let index = TemplateIndex::of(&template);
        assert_eq!(index.parents("f-505"), ["f-1", "f-509", "f-500"]);
        assert_eq!(index.parents_in_group("f-505", "g-50"), ["f-509", "f-500"]);
        let standalone: Vec<_> = index.with_parents().values().map(|parents| parents.standalone).collect();
        assert_eq!(standalone, [1]);
    }
}
