//! The expansion of a set: its replicas, and the cliques, scaling groups, gangs, autoscalers and the Service of each replica,
//! with their names.
//!
//! Each replica is built from a [`Revision`] of the template. The template contains the initial replicas of
//! cliques and scaling groups. Clients then change the replicas of the existing objects through the scale subresource, so an expansion also
//! needs the current scale.
//!
//! The indices of replicas begin at 0. So a scale-in of a set or a scaling group removes the replicas with the highest indices: the
//! reconcilers delete each child that is no longer in the expansion (`children/child_kinds.rs` of grove-controller).

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use kube::ResourceExt;

use crate::deletion::is_terminating;
use crate::names::{
    AutoscalerName, HeadlessServiceName, Hostname, PodCliqueName, PodCliqueScalingGroupName, PodCliqueSetName,
    PodGangName, TopologyGroupName,
};
use crate::v1alpha1::{
    AutoScalingConfig, PodClique, PodCliqueScalingGroup, PodCliqueScalingGroupConfig, PodCliqueTemplateSpec,
};

pub mod dependency_count;
pub mod object_count;
mod recorded_scale;
mod revision;
pub mod size_limit;
mod startup;
mod template_index;

pub use recorded_scale::RecordedScale;
use revision::Minima;
pub use revision::{OmittedMinima, Revision, TemplateHashes};
use startup::Member;
use template_index::TemplateIndex;

/// The replicas and the minima of the existing cliques and scaling groups, by name, and the recorded replicas of those that were deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CurrentScale {
    cliques: BTreeMap<String, i32>,
    groups: BTreeMap<String, i32>,
    minima: BTreeMap<String, Minima>,
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
        Self { cliques, groups, ..Self::default() }
    }

    /// Adds the minima of these cliques, which they retain if their templates omit them. A terminating clique retains none.
    #[must_use]
    pub fn with_minima_of<'a>(mut self, cliques: impl IntoIterator<Item = &'a PodClique>) -> Self {
        let active = cliques.into_iter().filter(|clique| !is_terminating(*clique));
        self.minima.extend(active.map(|clique| (clique.name_any(), Minima::of(clique))));
        self
    }

    /// Adds what base gangs or a group record. It applies to cliques and groups that do not exist.
    #[must_use]
    pub fn with_recorded(self, recorded: RecordedScale) -> Self {
        Self { recorded, ..self }
    }

    /// What base gangs or a group record.
    pub fn recorded(&self) -> &RecordedScale {
        &self.recorded
    }

    /// Whether all cliques and groups of the replica exist.
    pub fn has_all_of(&self, replica: &SetReplica) -> bool {
        let has_clique = |clique: &Clique| self.cliques.contains_key(clique.name.as_str());
        let has_group = |group: &ScalingGroup| self.groups.contains_key(group.name.as_str());
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
#[derive(Clone, Debug)]
pub struct SetReplica {
    /// The index of the replica, from 0.
    pub index: i32,
    /// The template that it is built from.
    pub revision: Arc<Revision>,
    /// The name of the headless Service of its pods.
    pub service_name: HeadlessServiceName,
    /// The gang of its standalone cliques and of the first `minAvailable` replicas of its scaling groups.
    pub base_gang: PodGangName,
    /// Its standalone cliques, in the order of the template.
    pub cliques: Vec<Clique>,
    /// Its scaling groups, in the order of the template.
    pub groups: Vec<ScalingGroup>,
}

/// One scaling group of one replica of a set.
#[derive(Clone, Debug)]
pub struct ScalingGroup {
    /// The name of its `PodCliqueScalingGroup`.
    pub name: PodCliqueScalingGroupName,
    /// Its template.
    pub config: Arc<PodCliqueScalingGroupConfig>,
    /// Whether its existing autoscaler retains `minReplicas`, because the template omits it.
    pub retains_min_replicas: bool,
    /// The number of replicas: that of the existing object, otherwise that of the template.
    pub replica_count: i32,
    /// The number of pods of one replica, by the template.
    pub template_pods: i32,
    /// Its replicas.
    pub replicas: Vec<GroupReplica>,
}

/// One replica of a scaling group.
#[derive(Clone, Debug)]
pub struct GroupReplica {
    /// The index of the replica, from 0.
    pub index: i32,
    /// Its gang: the base gang for an index below `minAvailable`, otherwise a scaled gang.
    pub gang: PodGangName,
    /// The base gang, if the replica has a scaled gang.
    pub base_gang: Option<PodGangName>,
    /// Its name in the topology constraints of the base gang.
    pub topology_group: TopologyGroupName,
    /// The template that it is built from.
    pub revision: Arc<Revision>,
    /// Its cliques, in the order of `cliqueNames`.
    pub cliques: Vec<Clique>,
}

impl GroupReplica {
    /// The same replica, built from another revision.
    #[must_use]
    pub fn built_from(self, revision: &Arc<Revision>) -> Self {
        let cliques = self.cliques.into_iter().map(|clique| clique.built_from(revision)).collect();
        Self { revision: Arc::clone(revision), cliques, ..self }
    }

    /// The index of the first pod of a clique among the pods of the replica, by the replicas of the templates.
    pub fn first_pod_index(&self, clique: &PodCliqueName) -> i32 {
        let before = self.cliques.iter().take_while(|other| other.name != *clique);
        before.map(|other| other.template.spec.replicas.max(0)).fold(0, i32::saturating_add)
    }
}

/// One clique of one replica of a set or of a scaling group.
#[derive(Clone, Debug)]
pub struct Clique {
    /// The name of its `PodClique`.
    pub name: PodCliqueName,
    /// Its template.
    pub template: Arc<PodCliqueTemplateSpec>,
    /// The number of pods: that of the existing object, otherwise that of the template.
    pub replicas: i32,
    /// The number of pods that its gang requires: that of the template; if the template omits it, that of the existing object.
    pub min_available: i32,
    /// The minimum of its autoscaler; `None` without one.
    pub min_replicas: Option<i32>,
    /// The cliques that must have ready pods before its pods start. The cliques of the base gang with the same template share the names.
    pub starts_after: Arc<[PodCliqueName]>,
}

impl Clique {
    fn built_from(self, revision: &Revision) -> Self {
        let template = revision.clique(&self.template.name).cloned();
        Self { template: template.unwrap_or(self.template), ..self }
    }
}

/// A gang: pods that the scheduler places together or not at all.
#[derive(Clone, Debug)]
pub struct Gang<'r> {
    /// The name of its `PodGang`.
    pub name: &'r PodGangName,
    /// The base gang, which is scheduled first; absent for a base gang.
    pub base: Option<&'r PodGangName>,
    /// The scaling group of the replica; absent for a base gang.
    pub group: Option<&'r ScalingGroup>,
    /// Its cliques, in the order of its podgroups.
    pub cliques: Vec<&'r Clique>,
}

/// An autoscaler that the template configures.
#[derive(Clone, Debug)]
pub struct ConfiguredAutoscaler<'r> {
    /// The name of its `HorizontalPodAutoscaler`.
    pub name: AutoscalerName,
    /// The object that it scales.
    pub target: AutoscalerTarget<'r>,
    /// Its bounds and metrics.
    pub config: &'r AutoScalingConfig,
    /// Its minimum.
    pub min_replicas: Option<i32>,
    /// Whether it retains its minimum if it exists, because the template omits it.
    pub retains_min_replicas: bool,
}

/// The object that an autoscaler scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoscalerTarget<'r> {
    /// A standalone clique.
    Clique(&'r PodCliqueName),
    /// A scaling group.
    Group(&'r PodCliqueScalingGroupName),
}

impl SetReplica {
    /// The same replica, built from another revision.
    #[must_use]
    pub fn built_from(self, revision: &Arc<Revision>) -> Self {
        let group = |group: ScalingGroup| {
            let replicas = group.replicas.into_iter().map(|replica| replica.built_from(revision)).collect();
            ScalingGroup { replicas, ..group }
        };
        Self {
            revision: Arc::clone(revision),
            cliques: self.cliques.into_iter().map(|clique| clique.built_from(revision)).collect(),
            groups: self.groups.into_iter().map(group).collect(),
            ..self
        }
    }

    /// All cliques: the standalone ones first, then those of the scaling groups.
    pub fn all_cliques(&self) -> impl Iterator<Item = &Clique> {
        let of_groups = self.groups.iter().flat_map(|group| &group.replicas).flat_map(|replica| &replica.cliques);
        self.cliques.iter().chain(of_groups)
    }

    /// The base gang, then the scaled gangs.
    pub fn gangs(&self) -> Vec<Gang<'_>> {
        let replicas = self.groups.iter().flat_map(|group| &group.replicas);
        let in_base = replicas.filter(|replica| replica.base_gang.is_none());
        let cliques = self.cliques.iter().chain(in_base.flat_map(|replica| &replica.cliques)).collect();
        let base = Gang { name: &self.base_gang, base: None, group: None, cliques };
        std::iter::once(base).chain(self.groups.iter().flat_map(ScalingGroup::gangs)).collect()
    }

    /// The autoscalers that the template configures. A clique of a scaling group has none, because it scales with its group.
    pub fn autoscalers(&self) -> Vec<ConfiguredAutoscaler<'_>> {
        let cliques = self.cliques.iter().filter_map(|clique| {
            let name = AutoscalerName::of_clique(&clique.name);
            let config = clique.template.spec.auto_scaling_config.as_ref()?;
            let (target, min_replicas) = (AutoscalerTarget::Clique(&clique.name), clique.min_replicas);
            Some(ConfiguredAutoscaler { name, target, config, min_replicas, retains_min_replicas: false })
        });
        let groups = self.groups.iter().filter_map(|group| {
            let name = AutoscalerName::of_group(&group.name);
            let config = group.config.scale_config.as_ref()?;
            let (target, min_replicas) = (AutoscalerTarget::Group(&group.name), config.min_replicas);
            let retains_min_replicas = group.retains_min_replicas;
            Some(ConfiguredAutoscaler { name, target, config, min_replicas, retains_min_replicas })
        });
        cliques.chain(groups).collect()
    }
}

impl ScalingGroup {
    /// The indices of the replicas in the base gang: the first `minAvailable`, or all if a user scaled the group below
    /// `minAvailable`.
    pub fn in_base_gang(&self) -> Range<i32> {
        0..self.config.min_available().min(self.replica_count)
    }

    /// The scaled gangs: one per replica with an index of at least `minAvailable`.
    pub fn gangs(&self) -> impl Iterator<Item = Gang<'_>> {
        self.replicas.iter().filter_map(|replica| {
            let cliques = replica.cliques.iter().collect();
            Some(Gang { name: &replica.gang, base: Some(replica.base_gang.as_ref()?), group: Some(self), cliques })
        })
    }
}

/// The first `replicas` replicas of the set of this name, all built from this revision.
pub fn expand(set: &PodCliqueSetName, replicas: i32, revision: &Arc<Revision>, live: &CurrentScale) -> Vec<SetReplica> {
    let of = &Expander::new(revision);
    (0..replicas).map(|index| ReplicaExpander { of, name: set, index, live }.replica()).collect()
}

/// One replica of the set of this name.
pub fn replica(set: &PodCliqueSetName, index: i32, revision: &Arc<Revision>, live: &CurrentScale) -> SetReplica {
    ReplicaExpander { of: &Expander::new(revision), name: set, index, live }.replica()
}

/// The hostnames of a clique with this number of replicas, by pod index.
pub fn hostnames(clique: &PodCliqueName, replicas: i32) -> impl Iterator<Item = (i32, Hostname)> {
    (0..replicas).map(move |index| (index, Hostname::of_pod(clique, index)))
}

/// Expands replicas that are built from one revision.
struct Expander<'r> {
    revision: &'r Arc<Revision>,
    template: TemplateIndex<'r>,
    /// The first clique of each name.
    cliques: BTreeMap<&'r str, &'r Arc<PodCliqueTemplateSpec>>,
}

impl<'r> Expander<'r> {
    fn new(revision: &'r Arc<Revision>) -> Self {
        let by_name = revision.cliques.iter().rev().map(|clique| (clique.name.as_str(), clique));
        Self { revision, template: TemplateIndex::of(&revision.template), cliques: by_name.collect() }
    }
}

/// Expands one replica of a set.
struct ReplicaExpander<'r> {
    of: &'r Expander<'r>,
    name: &'r PodCliqueSetName,
    index: i32,
    live: &'r CurrentScale,
}

impl ReplicaExpander<'_> {
    fn replica(&self) -> SetReplica {
        SetReplica {
            index: self.index,
            revision: Arc::clone(self.of.revision),
            service_name: HeadlessServiceName::of_replica(self.name, self.index),
            base_gang: PodGangName::base(self.name, self.index),
            cliques: self.standalone_cliques(),
            groups: self.of.revision.groups.iter().map(|config| self.group(config)).collect(),
        }
    }

    fn standalone_cliques(&self) -> Vec<Clique> {
        let cliques = self.of.revision.cliques.iter();
        let standalone = cliques.filter(|template| self.of.template.group_of(&template.name).is_none());
        let clique = |template: &Arc<PodCliqueTemplateSpec>| {
            let name = PodCliqueName::standalone(self.name, self.index, &template.name);
            self.clique(name, template, self.in_base_gang(&template.name))
        };
        standalone.map(clique).collect()
    }

    fn clique(
        &self,
        name: PodCliqueName,
        template: &Arc<PodCliqueTemplateSpec>,
        starts_after: Arc<[PodCliqueName]>,
    ) -> Clique {
        let (omitted, existing) = (&self.of.revision.omitted, self.live.minima.get(name.as_str()).copied());
        Clique {
            replicas: self.live.clique(&name, template.spec.replicas),
            min_available: omitted.min_available(template, existing),
            min_replicas: omitted.min_replicas(template, existing),
            template: Arc::clone(template),
            name,
            starts_after,
        }
    }

    fn group_name(&self, config: &PodCliqueScalingGroupConfig) -> PodCliqueScalingGroupName {
        PodCliqueScalingGroupName::of_replica(self.name, self.index, &config.name)
    }

    fn group(&self, config: &Arc<PodCliqueScalingGroupConfig>) -> ScalingGroup {
        let name = self.group_name(config);
        let replica_count = self.live.group(&name, config.replicas());
        let members = self.members(config, config.min_available().min(replica_count));
        let replicas = (0..replica_count).map(|index| self.group_replica(&name, config, index, &members)).collect();
        let template_pods = members.iter().map(|member| member.template.spec.replicas).sum();
        let retains_min_replicas = self.of.revision.omitted.retains_min_replicas(config);
        ScalingGroup { name, config: Arc::clone(config), retains_min_replicas, replica_count, template_pods, replicas }
    }

    fn group_replica(
        &self,
        group: &PodCliqueScalingGroupName,
        config: &PodCliqueScalingGroupConfig,
        index: i32,
        members: &[Member<'_>],
    ) -> GroupReplica {
        let base = PodGangName::base(self.name, self.index);
        let beyond = index.saturating_sub(config.min_available());
        let (gang, base_gang) =
            if beyond < 0 { (base, None) } else { (PodGangName::scaled(group, beyond), Some(base)) };
        let clique = |member: &Member<'_>| {
            let name = PodCliqueName::member(group, index, &member.template.name);
            let starts_after = match &base_gang {
                None => Arc::clone(&member.in_base_gang),
                Some(_) => member.in_scaled_replica(group, index),
            };
            self.clique(name, member.template, starts_after)
        };
        let cliques = members.iter().map(clique).collect();
        let topology_group = TopologyGroupName::of_replica(group, index);
        GroupReplica { index, gang, base_gang, topology_group, revision: Arc::clone(self.of.revision), cliques }
    }
}
