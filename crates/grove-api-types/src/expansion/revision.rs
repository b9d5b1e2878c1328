//! The versions of the template of a set. Each replica is built from one of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use crate::hash;
use crate::v1alpha1::{
    AutoScalingConfig, PodClique, PodCliqueScalingGroupConfig, PodCliqueSetTemplateSpec, PodCliqueTemplateSpec,
};

/// One version of the template of a set. All replicas that are built from it share it.
#[derive(Debug)]
pub struct Revision {
    /// The template, with Grove's defaults.
    pub template: PodCliqueSetTemplateSpec,
    /// The minima that the user omitted.
    pub(super) omitted: OmittedMinima,
    pub(super) cliques: Vec<Arc<PodCliqueTemplateSpec>>,
    pub(super) groups: Vec<Arc<PodCliqueScalingGroupConfig>>,
    hashes: OnceLock<TemplateHashes>,
}

impl Revision {
    /// The revision of a template with Grove's defaults, of which the user omitted these minima.
    pub fn new(template: PodCliqueSetTemplateSpec, omitted: OmittedMinima) -> Self {
        let cliques = template.cliques.iter().cloned().map(Arc::new).collect();
        let groups = template.pod_clique_scaling_groups.iter().cloned().map(Arc::new).collect();
        Self { template, omitted, cliques, groups, hashes: OnceLock::new() }
    }

    /// This revision with the pods of an earlier template: all fields that the hashes cover. The other fields of a template apply to all replicas
    /// at once.
    #[must_use]
    pub fn with_pods_of(&self, earlier: &PodCliqueSetTemplateSpec) -> Self {
        let mut template = self.template.clone();
        template.priority_class_name.clone_from(&earlier.priority_class_name);
        for clique in &mut template.cliques {
            if let Some(earlier) = earlier.cliques.iter().find(|earlier| earlier.name == clique.name) {
                clique.labels.clone_from(&earlier.labels);
                clique.annotations.clone_from(&earlier.annotations);
                clique.spec.pod_spec.clone_from(&earlier.spec.pod_spec);
            }
        }
        Self::new(template, self.omitted.clone())
    }

    /// The template of the clique of this name.
    pub(super) fn clique(&self, name: &str) -> Option<&Arc<PodCliqueTemplateSpec>> {
        self.cliques.iter().find(|clique| clique.name == name)
    }

    /// The hashes of its templates. The first call computes them.
    pub fn hashes(&self) -> &TemplateHashes {
        self.hashes.get_or_init(|| TemplateHashes::of(&self.template))
    }

    /// Whether the user omitted a minimum, so that existing cliques retain theirs.
    pub fn omits_minima(&self) -> bool {
        !self.omitted.is_empty()
    }

    /// Whether pod 0 of the clique represents its replica of the set: autoscalers of the set count one pod for each replica. It is that of
    /// the first clique of the template that has pods. `group_replica` is the index of the replica of the clique's scaling group.
    pub fn represents_set_replica(&self, clique: &PodCliqueTemplateSpec, group_replica: Option<i32>) -> bool {
        let cliques = &self.template.cliques;
        let first = cliques.iter().find(|clique| clique.spec.replicas > 0).or_else(|| cliques.first());
        first.is_some_and(|first| first.name == clique.name) && group_replica.unwrap_or(0) == 0
    }
}

/// The hashes of the templates of a revision.
#[derive(Clone, Debug)]
pub struct TemplateHashes {
    /// The hash of the whole template.
    pub generation_hash: String,
    by_clique: BTreeMap<String, String>,
}

impl TemplateHashes {
    fn of(template: &PodCliqueSetTemplateSpec) -> Self {
        let hash = |clique: &PodCliqueTemplateSpec| hash::pod_template(clique, &template.priority_class_name);
        let by_clique = template.cliques.iter().map(|clique| (clique.name.clone(), hash(clique))).collect();
        Self { generation_hash: hash::generation(template), by_clique }
    }

    /// The hash of the pod template of one clique; empty if the template has no clique of that name.
    pub fn pod_template(&self, clique: &str) -> &str {
        self.by_clique.get(clique).map(String::as_str).unwrap_or_default()
    }
}

/// The names of the templates that omit a minimum. The default of a minimum is the `replicas` of the template. A change of the template does
/// not change the `replicas` of an existing clique, so it does not change a default minimum either: the minimum could exceed the `replicas`,
/// and the gang could never be complete. So an existing clique retains its minimum.
///
/// webhook-server stores the defaults in the set, so this matters only for sets that were stored without it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OmittedMinima {
    /// Cliques without `minAvailable`.
    min_available: BTreeSet<String>,
    /// Cliques with an autoscaler without `minReplicas`.
    clique_autoscalers: BTreeSet<String>,
    /// Scaling groups with an autoscaler without `minReplicas`.
    group_autoscalers: BTreeSet<String>,
}

impl OmittedMinima {
    /// The minima that a template without Grove's defaults omits.
    pub fn of(template: &PodCliqueSetTemplateSpec) -> Self {
        let (cliques, groups) = (&template.cliques, &template.pod_clique_scaling_groups);
        let without_min_available = cliques.iter().filter(|clique| clique.spec.min_available.is_none());
        let omits = |scale: Option<&AutoScalingConfig>| scale.is_some_and(|scale| scale.min_replicas.is_none());
        let autoscaled_cliques = cliques.iter().filter(|clique| omits(clique.spec.auto_scaling_config.as_ref()));
        let autoscaled_groups = groups.iter().filter(|group| omits(group.scale_config.as_ref()));
        Self {
            min_available: without_min_available.map(|clique| clique.name.clone()).collect(),
            clique_autoscalers: autoscaled_cliques.map(|clique| clique.name.clone()).collect(),
            group_autoscalers: autoscaled_groups.map(|group| group.name.clone()).collect(),
        }
    }

    /// Whether the user set all minima, as in each set that webhook-server has defaulted.
    fn is_empty(&self) -> bool {
        self.min_available.is_empty() && self.clique_autoscalers.is_empty() && self.group_autoscalers.is_empty()
    }

    /// `minAvailable` of a clique of this template.
    pub(super) fn min_available(&self, template: &PodCliqueTemplateSpec, existing: Option<Minima>) -> i32 {
        let existing = existing.filter(|_| self.min_available.contains(&template.name));
        let of_template = || template.spec.min_available.unwrap_or(template.spec.replicas);
        existing.map_or_else(of_template, |existing| existing.min_available)
    }

    /// `minReplicas` of the autoscaler of a clique of this template. It never exceeds `maxReplicas`, which follows the template.
    pub(super) fn min_replicas(&self, template: &PodCliqueTemplateSpec, existing: Option<Minima>) -> Option<i32> {
        let config = template.spec.auto_scaling_config.as_ref()?;
        let existing = existing.filter(|_| self.clique_autoscalers.contains(&template.name));
        let existing = existing.and_then(|existing| existing.min_replicas);
        existing.map(|existing| existing.min(config.max_replicas)).or(config.min_replicas)
    }

    /// Whether the existing autoscaler of a scaling group of this template retains `minReplicas`.
    pub(super) fn retains_min_replicas(&self, config: &PodCliqueScalingGroupConfig) -> bool {
        self.group_autoscalers.contains(&config.name)
    }
}

/// The minima of an existing clique.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Minima {
    min_available: i32,
    min_replicas: Option<i32>,
}

impl Minima {
    pub(super) fn of(clique: &PodClique) -> Self {
        let spec = &clique.spec;
        Self {
            min_available: spec.min_available.unwrap_or_else(|| spec.replicas.max(1)),
            min_replicas: spec.auto_scaling_config.as_ref().and_then(|scale| scale.min_replicas),
        }
    }
}
