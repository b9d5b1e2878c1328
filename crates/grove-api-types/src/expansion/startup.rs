//! The names of the `PodClique`s that must have ready pods before the pods of a clique start.

use super::ReplicaExpander;
use crate::names::{PodCliqueName, PodCliqueScalingGroupName};
use crate::v1alpha1::{CliqueStartupType, PodCliqueScalingGroupConfig, PodCliqueTemplateSpec};

/// A replica of a scaling group with a scaled gang. Its cliques wait only for each other, because the base gang already runs.
#[derive(Clone, Copy)]
pub(super) struct ScaledReplica<'e> {
    pub(super) group: &'e PodCliqueScalingGroupName,
    pub(super) config: &'e PodCliqueScalingGroupConfig,
    pub(super) index: i32,
}

impl ReplicaExpander<'_, '_> {
    /// The parents of a clique with this template: in the same replica of the group if it has a scaled gang, otherwise in the
    /// base gang.
    pub(super) fn parents(
        &self,
        template: &PodCliqueTemplateSpec,
        scaled: Option<ScaledReplica<'_>>,
    ) -> Vec<PodCliqueName> {
        let named = self.named_parents(template);
        let parents = named.iter().flat_map(|parent| match scaled {
            Some(replica) => in_scaled_replica(parent, replica),
            None => self.in_base_gang(parent),
        });
        parents.collect()
    }

    /// The names of the parents in the template.
    fn named_parents(&self, template: &PodCliqueTemplateSpec) -> Vec<String> {
        match self.set.spec.template.clique_startup_type {
            CliqueStartupType::AnyOrder => Vec::new(),
            CliqueStartupType::Explicit => template.spec.starts_after.clone(),
            CliqueStartupType::InOrder => {
                let before = self.templates().iter().take_while(|other| other.name != template.name);
                before.last().map(|parent| parent.name.clone()).into_iter().collect()
            }
        }
    }

    /// The `PodClique`s of a parent: for a clique of a scaling group, one per replica of the group in the base gang.
    fn in_base_gang(&self, parent: &str) -> Vec<PodCliqueName> {
        let Some(config) = self.group_of(parent) else {
            return vec![PodCliqueName::standalone(&self.name, self.index, parent)];
        };
        let group = self.group_name(config);
        let replicas = config.min_available().min(self.live.group(&group, config.replicas()));
        (0..replicas).map(|index| PodCliqueName::member(&group, index, parent)).collect()
    }
}

fn in_scaled_replica(parent: &str, replica: ScaledReplica<'_>) -> Vec<PodCliqueName> {
    let is_member = replica.config.clique_names.iter().any(|name| name == parent);
    is_member.then(|| PodCliqueName::member(replica.group, replica.index, parent)).into_iter().collect()
}
