//! The startup dependencies of a clique: the names of the `PodClique`s that must have ready pods before its pods start.
//!
//! In a base gang, the cliques of all replicas of a scaling group wait for the same `PodClique`s. They share one list of names, because
//! the lists of all replicas have a total length that is quadratic in the number of replicas.

use std::sync::Arc;

use super::ReplicaExpander;
use crate::names::{PodCliqueName, PodCliqueScalingGroupName};
use crate::v1alpha1::{PodCliqueScalingGroupConfig, PodCliqueTemplateSpec};

/// A clique of a scaling group, and its startup dependencies.
pub(super) struct Member<'r> {
    pub(super) template: &'r Arc<PodCliqueTemplateSpec>,
    /// Its dependencies in the base gang; empty if the base gang contains no replica of the group.
    pub(super) in_base_gang: Arc<[PodCliqueName]>,
    /// Its parents in the same group, by their names in the template.
    parents: &'r [&'r str],
}

impl Member<'_> {
    /// The dependencies in a replica of the group with a scaled gang: only cliques of the same replica, because the base gang already
    /// runs.
    pub(super) fn in_scaled_replica(&self, group: &PodCliqueScalingGroupName, index: i32) -> Arc<[PodCliqueName]> {
        self.parents.iter().map(|parent| PodCliqueName::member(group, index, parent)).collect()
    }
}

impl<'r> ReplicaExpander<'r> {
    /// The cliques of a scaling group with this number of replicas in the base gang.
    pub(super) fn members(&self, group: &PodCliqueScalingGroupConfig, in_base_gang: i32) -> Vec<Member<'r>> {
        let of = self.of;
        let member = |template: &'r Arc<PodCliqueTemplateSpec>| Member {
            template,
            in_base_gang: if in_base_gang > 0 { self.in_base_gang(&template.name) } else { Arc::default() },
            parents: of.template.parents_in_group(&template.name, &group.name),
        };
        let templates = group.clique_names.iter().filter_map(|name| of.cliques.get(name.as_str()).copied());
        templates.map(member).collect()
    }

    /// The dependencies of a clique of this name that is in the base gang.
    pub(super) fn in_base_gang(&self, clique: &str) -> Arc<[PodCliqueName]> {
        self.of.template.parents(clique).iter().flat_map(|parent| self.cliques_in_base_gang(parent)).collect()
    }

    /// The `PodClique`s of a parent: for a clique of a scaling group, one per replica of the group in the base gang.
    fn cliques_in_base_gang(&self, parent: &str) -> Vec<PodCliqueName> {
        let Some(config) = self.of.template.group_of(parent) else {
            return vec![PodCliqueName::standalone(self.name, self.index, parent)];
        };
        let group = self.group_name(config);
        let replicas = config.min_available().min(self.live.group(&group, config.replicas()));
        (0..replicas).map(|index| PodCliqueName::member(&group, index, parent)).collect()
    }
}
