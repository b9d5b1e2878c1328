//! The expansion of a set: its replicas, and the cliques, scaling groups, gangs, autoscalers and the Service of each replica,
//! with their names.
//!
//! The template contains the initial replicas of cliques and scaling groups. Clients then change the replicas of the existing
//! objects through the scale subresource, so an expansion also needs the current scale.
//!
//! The indices of replicas begin at 0. So a scale-in of a set or a scaling group removes the replicas with the highest indices: the
//! reconcilers delete each child that is no longer in the expansion (`children/child_plan.rs` of grove-controller).

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use kube::ResourceExt;

use crate::names::{
    AutoscalerName, HeadlessServiceName, Hostname, PodCliqueName, PodCliqueScalingGroupName, PodCliqueSetName,
    PodGangName, TopologyGroupName,
};
use crate::v1alpha1::{
    AutoScalingConfig, PodClique, PodCliqueScalingGroup, PodCliqueScalingGroupConfig, PodCliqueSet,
    PodCliqueTemplateSpec,
};

pub mod dependency_count;
pub mod object_count;
mod recorded_scale;
pub mod size_limit;
mod startup;
mod template_index;

pub use recorded_scale::RecordedScale;
use startup::Member;
use template_index::TemplateIndex;

/// The replicas of the existing cliques and scaling groups, by name, and the recorded ones of those that were deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CurrentScale {
    cliques: BTreeMap<String, i32>,
    groups: BTreeMap<String, i32>,
    recorded: RecordedScale,
}

impl CurrentScale {
    /// The current scale of these objects.
    pub fn of<'a>(
        groups: impl IntoIterator<Item = &'a PodCliqueScalingGroup>,
        cliques: impl IntoIterator<Item = &'a PodClique>,
    ) -> Self {
        let groups = groups.into_iter().map(|group| (group.name_any(), group.spec.replicas)).collect();
        let cliques = cliques.into_iter().map(|clique| (clique.name_any(), clique.spec.replicas)).collect();
        Self { cliques, groups, recorded: RecordedScale::default() }
    }

    /// Adds what base gangs or a group record. It applies to cliques and groups that do not exist.
    #[must_use]
    pub fn with_recorded(self, recorded: RecordedScale) -> Self {
        Self { recorded, ..self }
    }

    /// What base gangs or a group record.
    pub fn into_recorded(self) -> RecordedScale {
        self.recorded
    }

    /// Whether all cliques and groups of the replica exist.
    pub fn has_all_of(&self, replica: &SetReplica<'_>) -> bool {
        let has_clique = |clique: &Clique<'_>| self.cliques.contains_key(clique.name.as_str());
        let has_group = |group: &ScalingGroup<'_>| self.groups.contains_key(group.name.as_str());
        replica.cliques.iter().all(has_clique) && replica.groups.iter().all(has_group)
    }

    fn clique(&self, name: &PodCliqueName, template: i32) -> i32 {
        let name = name.as_str();
        self.cliques.get(name).copied().or_else(|| self.recorded.clique(name, template)).unwrap_or(template)
    }

    fn group(&self, name: &PodCliqueScalingGroupName, template: i32) -> i32 {
        let name = name.as_str();
        self.groups.get(name).copied().or_else(|| self.recorded.group(name, template)).unwrap_or(template)
    }
}

/// One replica of a set, and its parts.
#[derive(Clone, Debug, PartialEq)]
pub struct SetReplica<'a> {
    /// The index of the replica, from 0.
    pub index: i32,
    /// The name of the headless Service of its pods.
    pub service_name: HeadlessServiceName,
    /// The gang of its standalone cliques and of the first `minAvailable` replicas of its scaling groups.
    pub base_gang: PodGangName,
    /// Its standalone cliques, in the order of the template.
    pub cliques: Vec<Clique<'a>>,
    /// Its scaling groups, in the order of the template.
    pub groups: Vec<ScalingGroup<'a>>,
}

/// One scaling group of one replica of a set.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalingGroup<'a> {
    /// The name of its `PodCliqueScalingGroup`.
    pub name: PodCliqueScalingGroupName,
    /// Its template.
    pub config: &'a PodCliqueScalingGroupConfig,
    /// The number of replicas: that of the existing object, otherwise that of the template.
    pub replica_count: i32,
    /// The number of pods of one replica, by the template.
    pub template_pods: i32,
    /// Its replicas.
    pub replicas: Vec<GroupReplica<'a>>,
}

/// One replica of a scaling group.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupReplica<'a> {
    /// The index of the replica, from 0.
    pub index: i32,
    /// Its gang: the base gang for an index below `minAvailable`, otherwise a scaled gang.
    pub gang: PodGangName,
    /// The base gang, if the replica has a scaled gang.
    pub base_gang: Option<PodGangName>,
    /// Its name in the topology constraints of the base gang.
    pub topology_group: TopologyGroupName,
    /// Its cliques, in the order of `cliqueNames`.
    pub cliques: Vec<Clique<'a>>,
}

impl GroupReplica<'_> {
    /// The index of the first pod of a clique among the pods of the replica, by the replicas of the templates.
    pub fn first_pod_index(&self, clique: &PodCliqueName) -> i32 {
        let before = self.cliques.iter().take_while(|other| other.name != *clique);
        before.map(|other| other.template.spec.replicas.max(0)).fold(0, i32::saturating_add)
    }
}

/// Whether the pod 0 of the clique represents its replica of the set: autoscalers of the set count one pod for each replica. It is that of
/// the first clique of the template that has pods. `group_replica` is the index of the replica of the clique's scaling group.
pub fn represents_set_replica(set: &PodCliqueSet, clique: &PodCliqueTemplateSpec, group_replica: Option<i32>) -> bool {
    let cliques = &set.spec.template.cliques;
    let first = cliques.iter().find(|clique| clique.spec.replicas > 0).or_else(|| cliques.first());
    first.is_some_and(|first| first.name == clique.name) && group_replica.unwrap_or(0) == 0
}

/// One clique of one replica of a set or of a scaling group.
#[derive(Clone, Debug, PartialEq)]
pub struct Clique<'a> {
    /// The name of its `PodClique`.
    pub name: PodCliqueName,
    /// Its template.
    pub template: &'a PodCliqueTemplateSpec,
    /// The number of pods: that of the existing object, otherwise that of the template.
    pub replicas: i32,
    /// The cliques that must have ready pods before its pods start. The cliques of the base gang with the same template share the names.
    pub starts_after: Arc<[PodCliqueName]>,
}

/// A gang: pods that the scheduler places together or not at all.
#[derive(Clone, Debug, PartialEq)]
pub struct Gang<'r, 'a> {
    /// The name of its `PodGang`.
    pub name: &'r PodGangName,
    /// The base gang, which is scheduled first; absent for a base gang.
    pub base: Option<&'r PodGangName>,
    /// The scaling group of the replica; absent for a base gang.
    pub group: Option<&'r ScalingGroup<'a>>,
    /// Its cliques, in the order of its podgroups.
    pub cliques: Vec<&'r Clique<'a>>,
}

/// An autoscaler that the template configures.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfiguredAutoscaler<'r, 'a> {
    /// The name of its `HorizontalPodAutoscaler`.
    pub name: AutoscalerName,
    /// The object that it scales.
    pub target: AutoscalerTarget<'r>,
    /// Its bounds and metrics.
    pub config: &'a AutoScalingConfig,
}

/// The object that an autoscaler scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoscalerTarget<'r> {
    /// A standalone clique.
    Clique(&'r PodCliqueName),
    /// A scaling group.
    Group(&'r PodCliqueScalingGroupName),
}

impl<'a> SetReplica<'a> {
    /// All cliques: the standalone ones first, then those of the scaling groups.
    pub fn all_cliques(&self) -> impl Iterator<Item = &Clique<'a>> {
        let of_groups = self.groups.iter().flat_map(|group| &group.replicas).flat_map(|replica| &replica.cliques);
        self.cliques.iter().chain(of_groups)
    }

    /// The base gang, then the scaled gangs.
    pub fn gangs(&self) -> Vec<Gang<'_, 'a>> {
        let replicas = self.groups.iter().flat_map(|group| &group.replicas);
        let in_base = replicas.filter(|replica| replica.base_gang.is_none());
        let cliques = self.cliques.iter().chain(in_base.flat_map(|replica| &replica.cliques)).collect();
        let base = Gang { name: &self.base_gang, base: None, group: None, cliques };
        std::iter::once(base).chain(self.groups.iter().flat_map(ScalingGroup::gangs)).collect()
    }

    /// The autoscalers that the template configures. A clique of a scaling group has none, because it scales with its group.
    pub fn autoscalers(&self) -> Vec<ConfiguredAutoscaler<'_, 'a>> {
        let cliques = self.cliques.iter().filter_map(|clique| {
            let name = AutoscalerName::of_clique(&clique.name);
            let config = clique.template.spec.auto_scaling_config.as_ref()?;
            Some(ConfiguredAutoscaler { name, target: AutoscalerTarget::Clique(&clique.name), config })
        });
        let groups = self.groups.iter().filter_map(|group| {
            let name = AutoscalerName::of_group(&group.name);
            let config = group.config.scale_config.as_ref()?;
            Some(ConfiguredAutoscaler { name, target: AutoscalerTarget::Group(&group.name), config })
        });
        cliques.chain(groups).collect()
    }
}

impl<'a> ScalingGroup<'a> {
    /// The indices of the replicas in the base gang: the first `minAvailable`, or all if a user scaled the group below
    /// `minAvailable`.
    pub fn in_base_gang(&self) -> Range<i32> {
        0..self.config.min_available().min(self.replica_count)
    }

    /// The scaled gangs: one per replica with an index of at least `minAvailable`.
    pub fn gangs(&self) -> impl Iterator<Item = Gang<'_, 'a>> {
        self.replicas.iter().filter_map(|replica| {
            let cliques = replica.cliques.iter().collect();
            Some(Gang { name: &replica.gang, base: Some(replica.base_gang.as_ref()?), group: Some(self), cliques })
        })
    }
}

/// All replicas of `set`, with the current scale of scaling groups and cliques.
pub fn expand<'a>(set: &'a PodCliqueSet, live: &CurrentScale) -> Vec<SetReplica<'a>> {
    let template = TemplateIndex::of(&set.spec.template);
    (0..set.spec.replicas).map(|index| ReplicaExpander::new(set, &template, index, live).replica()).collect()
}

/// One replica of `set`; the index may exceed the replicas of the set.
pub fn replica<'a>(set: &'a PodCliqueSet, index: i32, live: &CurrentScale) -> SetReplica<'a> {
    ReplicaExpander::new(set, &TemplateIndex::of(&set.spec.template), index, live).replica()
}

/// The hostnames of a clique with this number of replicas, by pod index.
pub fn hostnames(clique: &PodCliqueName, replicas: i32) -> impl Iterator<Item = (i32, Hostname)> {
    (0..replicas).map(move |index| (index, Hostname::of_pod(clique, index)))
}

/// Expands one replica of a set.
struct ReplicaExpander<'a, 'l> {
    template: &'l TemplateIndex<'a>,
    name: PodCliqueSetName,
    index: i32,
    live: &'l CurrentScale,
}

impl<'a, 'l> ReplicaExpander<'a, 'l> {
    fn new(set: &PodCliqueSet, template: &'l TemplateIndex<'a>, index: i32, live: &'l CurrentScale) -> Self {
        Self { template, name: PodCliqueSetName::new(set.name_any()), index, live }
    }
}

impl<'a> ReplicaExpander<'a, '_> {
    fn replica(&self) -> SetReplica<'a> {
        SetReplica {
            index: self.index,
            service_name: HeadlessServiceName::of_replica(&self.name, self.index),
            base_gang: PodGangName::base(&self.name, self.index),
            cliques: self.standalone_cliques(),
            groups: self.template.groups().map(|config| self.group(config)).collect(),
        }
    }

    fn standalone_cliques(&self) -> Vec<Clique<'a>> {
        let clique = |template: &'a PodCliqueTemplateSpec| {
            let name = PodCliqueName::standalone(&self.name, self.index, &template.name);
            self.clique(name, template, self.in_base_gang(&template.name))
        };
        self.template.standalone_cliques().map(clique).collect()
    }

    fn clique(
        &self,
        name: PodCliqueName,
        template: &'a PodCliqueTemplateSpec,
        starts_after: Arc<[PodCliqueName]>,
    ) -> Clique<'a> {
        let replicas = self.live.clique(&name, template.spec.replicas);
        Clique { name, template, replicas, starts_after }
    }

    fn group_name(&self, config: &PodCliqueScalingGroupConfig) -> PodCliqueScalingGroupName {
        PodCliqueScalingGroupName::of_replica(&self.name, self.index, &config.name)
    }

    fn group(&self, config: &'a PodCliqueScalingGroupConfig) -> ScalingGroup<'a> {
        let name = self.group_name(config);
        let replica_count = self.live.group(&name, config.replicas());
        let members = self.members(config, config.min_available().min(replica_count));
        let replicas = (0..replica_count).map(|index| self.group_replica(&name, config, index, &members)).collect();
        let template_pods = members.iter().map(|member| member.template.spec.replicas).sum();
        ScalingGroup { name, config, replica_count, template_pods, replicas }
    }

    fn group_replica(
        &self,
        group: &PodCliqueScalingGroupName,
        config: &PodCliqueScalingGroupConfig,
        index: i32,
        members: &[Member<'a, '_>],
    ) -> GroupReplica<'a> {
        let base = PodGangName::base(&self.name, self.index);
        let beyond = index.saturating_sub(config.min_available());
        let (gang, base_gang) =
            if beyond < 0 { (base, None) } else { (PodGangName::scaled(group, beyond), Some(base)) };
        let clique = |member: &Member<'a, '_>| {
            let name = PodCliqueName::member(group, index, &member.template.name);
            let starts_after = match &base_gang {
                None => Arc::clone(&member.in_base_gang),
                Some(_) => member.in_scaled_replica(group, index),
            };
            self.clique(name, member.template, starts_after)
        };
        let cliques = members.iter().map(clique).collect();
        let topology_group = TopologyGroupName::of_replica(group, index);
        GroupReplica { index, gang, base_gang, topology_group, cliques }
    }
}
