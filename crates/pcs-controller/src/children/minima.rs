//! The minima of existing children. If a template omits a minimum, the default is the `replicas` of the template. A change of the
//! template does not change the `replicas` of an existing clique, so it does not change a default minimum either: the minimum could
//! exceed the `replicas`, and the gang could never be complete.
//!
//! webhook-server stores the defaults in the set, so this matters only for sets that were stored without it.

use std::collections::{BTreeMap, BTreeSet};

use grove_api_types::expansion::Clique;
use grove_api_types::names::{PodCliqueName, PodCliqueScalingGroupName};
use grove_api_types::v1alpha1::{AutoScalingConfig, PodClique, PodCliqueSet, PodCliqueSpec};

/// The names of the templates that omit a minimum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OmittedMinima {
    /// Cliques without `minAvailable`.
    min_available: BTreeSet<String>,
    /// Cliques with an autoscaler without `minReplicas`.
    clique_autoscalers: BTreeSet<String>,
    /// Scaling groups with an autoscaler without `minReplicas`.
    group_autoscalers: BTreeSet<String>,
}

impl OmittedMinima {
    /// The minima that the user omitted. The set must be without typed defaults.
    pub(crate) fn of(set: &PodCliqueSet) -> Self {
        let (cliques, groups) = (&set.spec.template.cliques, &set.spec.template.pod_clique_scaling_groups);
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
    pub(crate) fn is_empty(&self) -> bool {
        self.min_available.is_empty() && self.clique_autoscalers.is_empty() && self.group_autoscalers.is_empty()
    }
}

/// The minima that existing children retain, because their template omits them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RetainedMinima {
    /// `minAvailable`, by the name of the `PodClique`.
    min_available: BTreeMap<String, i32>,
    /// `autoScalingConfig.minReplicas`, by the name of the `PodClique`.
    min_replicas: BTreeMap<String, i32>,
    /// The names of the `PodCliqueScalingGroup`s with autoscalers that retain `minReplicas`.
    groups: BTreeSet<String>,
}

impl RetainedMinima {
    /// Retains the minima of an existing clique that its template omits.
    pub(crate) fn retain_clique(&mut self, omitted: &OmittedMinima, desired: &Clique<'_>, existing: &PodClique) {
        let (spec, name, template) = (&existing.spec, desired.name.to_string(), &desired.template.name);
        if omitted.min_available.contains(template) {
            let min_available = spec.min_available.unwrap_or_else(|| spec.replicas.max(1));
            self.min_available.insert(name.clone(), min_available);
        }
        let min_replicas = spec.auto_scaling_config.as_ref().and_then(|scale| scale.min_replicas);
        if let Some(min_replicas) = min_replicas.filter(|_| omitted.clique_autoscalers.contains(template)) {
            self.min_replicas.insert(name, min_replicas);
        }
    }

    /// Retains `minReplicas` of the autoscaler of a scaling group if `config`, its template, omits it.
    pub(crate) fn retain_group(&mut self, omitted: &OmittedMinima, name: &PodCliqueScalingGroupName, config: &str) {
        if omitted.group_autoscalers.contains(config) {
            self.groups.insert(name.to_string());
        }
    }

    /// `minAvailable` of a clique.
    pub(crate) fn min_available(&self, clique: &Clique<'_>) -> i32 {
        let spec = &clique.template.spec;
        self.min_available.get(clique.name.as_str()).copied().or(spec.min_available).unwrap_or(spec.replicas)
    }

    /// `minReplicas` of the autoscaler of a clique. It never exceeds `maxReplicas`, which follows the template.
    pub(crate) fn min_replicas(&self, clique: &PodCliqueName, config: &AutoScalingConfig) -> Option<i32> {
        let retained = self.min_replicas.get(clique.as_str()).map(|retained| config.max_replicas.min(*retained));
        retained.or(config.min_replicas)
    }

    /// Whether the autoscaler of the scaling group retains `minReplicas`.
    pub(crate) fn has_group(&self, group: &PodCliqueScalingGroupName) -> bool {
        self.groups.contains(group.as_str())
    }

    /// The spec of a clique: that of its template with the retained minima.
    pub(crate) fn spec(&self, clique: &Clique<'_>) -> PodCliqueSpec {
        let mut spec = clique.template.spec.clone();
        spec.min_available = Some(self.min_available(clique));
        if let Some(scale) = &mut spec.auto_scaling_config {
            scale.min_replicas = self.min_replicas(&clique.name, scale);
        }
        spec
    }
}
