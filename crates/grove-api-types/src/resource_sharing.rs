//! Resource claims that pods share, whichever way they are written: the short forms become what they are short for.

use crate::v1alpha1::{
    PcsResourceSharingSpec, PcsgResourceSharingSpec, PodCliqueScalingGroupConfig, PodCliqueSetTemplateSpec,
    PodCliqueTemplateSpec, ResourceSharingScope,
};

/// One template whose claims are shared at one level of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedClaim<'a> {
    /// The template.
    pub template: &'a str,
    /// The namespace of its `ResourceClaimTemplate`; absent means the set's, or a template within the set.
    pub namespace: Option<&'a str>,
    /// For how many one claim is made.
    pub scope: ResourceSharingScope,
    /// The cliques that share; empty together with `groups` means all of the level.
    pub cliques: &'a [String],
    /// The scaling groups that share, with all their cliques; only at the level of the set.
    pub groups: &'a [String],
    /// Whether a short form was used; those never mean a template within the set.
    pub is_short: bool,
    /// The field it is written in, from the object of its level on.
    pub field: String,
}

impl<'a> SharedClaim<'a> {
    fn written(template: &'a str, namespace: Option<&'a String>, scope: ResourceSharingScope, at: usize) -> Self {
        let namespace = namespace.map(String::as_str).filter(|namespace| !namespace.is_empty());
        let field = format!("resourceSharing[{at}].name");
        Self { template, namespace, scope, cliques: &[], groups: &[], is_short: false, field }
    }

    fn short(template: &'a str, scope: ResourceSharingScope, field: String) -> Self {
        Self { template, namespace: None, scope, cliques: &[], groups: &[], is_short: true, field }
    }

    /// Whether the pods of a clique share, given the scaling group that the clique is in.
    pub fn applies_to(&self, clique: &str, group: Option<&str>) -> bool {
        let named = |names: &[String], name: &str| names.iter().any(|listed| listed == name);
        let all = self.cliques.is_empty() && self.groups.is_empty();
        all || named(self.cliques, clique) || group.is_some_and(|group| named(self.groups, group))
    }
}

/// What pods across a set share.
pub fn of_set<'a>(template: &'a PodCliqueSetTemplateSpec) -> Vec<SharedClaim<'a>> {
    let share = |(at, spec): (usize, &'a PcsResourceSharingSpec)| {
        let (cliques, groups) = match &spec.filter {
            Some(filter) => (&filter.child_clique_names[..], &filter.child_scaling_group_names[..]),
            None => (&[][..], &[][..]),
        };
        let share = SharedClaim::written(&spec.name, spec.namespace.as_ref(), spec.scope, at);
        SharedClaim { cliques, groups, ..share }
    };
    template.resource_sharing.iter().enumerate().map(share).collect()
}

/// What the cliques of a scaling group share.
pub fn of_group<'a>(group: &'a PodCliqueScalingGroupConfig) -> Vec<SharedClaim<'a>> {
    let long = |(at, spec): (usize, &'a PcsgResourceSharingSpec)| {
        let cliques = spec.filter.as_ref().map_or(&[][..], |filter| &filter.child_clique_names);
        SharedClaim { cliques, ..SharedClaim::written(&spec.name, spec.namespace.as_ref(), spec.scope, at) }
    };
    let long = group.resource_sharing.iter().enumerate().map(long);
    let short = group.resource_claim_template_configs.iter().enumerate().flat_map(|(at, config)| {
        config.names.iter().enumerate().map(move |(name_at, name)| {
            let field = format!("resourceClaimTemplateConfigs[{at}].names[{name_at}]");
            SharedClaim {
                cliques: &config.clique_names,
                ..SharedClaim::short(name, ResourceSharingScope::PerReplica, field)
            }
        })
    });
    long.chain(short).collect()
}

/// What the pods of a clique share.
pub fn of_clique(clique: &PodCliqueTemplateSpec) -> Vec<SharedClaim<'_>> {
    let long = clique.resource_sharing.iter().enumerate();
    let long = long.map(|(at, spec)| SharedClaim::written(&spec.name, spec.namespace.as_ref(), spec.scope, at));
    let short = clique.resource_claim_template_names.iter().enumerate().map(|(at, name)| {
        let field = format!("resourceClaimTemplateNames[{at}]");
        SharedClaim::short(name, ResourceSharingScope::AllReplicas, field)
    });
    long.chain(short).collect()
}
