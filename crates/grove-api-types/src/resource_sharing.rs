//! Shared resource claims of sets, scaling groups and cliques. The short forms are converted to the long form.

pub mod claim;
pub mod claim_source;
pub mod clique_claims;
pub mod pod_claims;
pub mod template_access;

use crate::v1alpha1::{
    PcsResourceSharingSpec, PcsgResourceSharingSpec, PodCliqueScalingGroupConfig, PodCliqueSetTemplateSpec,
    PodCliqueTemplateSpec, ResourceSharingScope,
};

/// The most claim templates that a set, a scaling group or a clique shares, and that one reconcile reads. A template costs each pod an entry
/// of its spec, and its owner a live read.
pub const MAX_REFERENCES: usize = 64;

/// One claim template that pods of one level share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedClaim<'a> {
    /// The name of the template.
    pub template: &'a str,
    /// The namespace of the `ResourceClaimTemplate`; `None` for the namespace of the set and for a template of the set.
    pub namespace: Option<&'a str>,
    /// The scope of one claim.
    pub scope: ResourceSharingScope,
    /// The cliques that share the claims. If `cliques` and `groups` are both empty, all cliques of the level share them.
    pub cliques: &'a [String],
    /// The scaling groups that share the claims with all their cliques; only at the level of the set.
    pub groups: &'a [String],
    /// Whether the user wrote a short form, which never refers to a template of the set.
    pub is_short: bool,
    /// The field with the name, relative to the object of the level.
    pub field: String,
}

impl<'a> SharedClaim<'a> {
    fn long_form(template: &'a str, namespace: Option<&'a String>, scope: ResourceSharingScope, at: usize) -> Self {
        let namespace = namespace.map(String::as_str).filter(|namespace| !namespace.is_empty());
        let field = format!("resourceSharing[{at}].name");
        Self { template, namespace, scope, cliques: &[], groups: &[], is_short: false, field }
    }

    fn short_form(template: &'a str, scope: ResourceSharingScope, field: String) -> Self {
        Self { template, namespace: None, scope, cliques: &[], groups: &[], is_short: true, field }
    }

    /// Whether the pods of a clique share the claims. `group` is the scaling group of the clique.
    pub fn applies_to(&self, clique: &str, group: Option<&str>) -> bool {
        let named = |names: &[String], name: &str| names.iter().any(|listed| listed == name);
        let all = self.cliques.is_empty() && self.groups.is_empty();
        all || named(self.cliques, clique) || group.is_some_and(|group| named(self.groups, group))
    }
}

/// The shared claims of a set.
pub fn of_set<'a>(template: &'a PodCliqueSetTemplateSpec) -> Vec<SharedClaim<'a>> {
    let share = |(at, spec): (usize, &'a PcsResourceSharingSpec)| {
        let (cliques, groups) = match &spec.filter {
            Some(filter) => (&filter.child_clique_names[..], &filter.child_scaling_group_names[..]),
            None => (&[][..], &[][..]),
        };
        let share = SharedClaim::long_form(&spec.name, spec.namespace.as_ref(), spec.scope, at);
        SharedClaim { cliques, groups, ..share }
    };
    template.resource_sharing.iter().enumerate().map(share).collect()
}

/// The shared claims of a scaling group.
pub fn of_group<'a>(group: &'a PodCliqueScalingGroupConfig) -> Vec<SharedClaim<'a>> {
    let long = |(at, spec): (usize, &'a PcsgResourceSharingSpec)| {
        let cliques = spec.filter.as_ref().map_or(&[][..], |filter| &filter.child_clique_names);
        SharedClaim { cliques, ..SharedClaim::long_form(&spec.name, spec.namespace.as_ref(), spec.scope, at) }
    };
    let long = group.resource_sharing.iter().enumerate().map(long);
    let short = group.resource_claim_template_configs.iter().enumerate().flat_map(|(at, config)| {
        config.names.iter().enumerate().map(move |(name_at, name)| {
            let field = format!("resourceClaimTemplateConfigs[{at}].names[{name_at}]");
            SharedClaim {
                cliques: &config.clique_names,
                ..SharedClaim::short_form(name, ResourceSharingScope::PerReplica, field)
            }
        })
    });
    long.chain(short).collect()
}

/// The shared claims of a clique.
pub fn of_clique(clique: &PodCliqueTemplateSpec) -> Vec<SharedClaim<'_>> {
    let long = clique.resource_sharing.iter().enumerate();
    let long = long.map(|(at, spec)| SharedClaim::long_form(&spec.name, spec.namespace.as_ref(), spec.scope, at));
    let short = clique.resource_claim_template_names.iter().enumerate().map(|(at, name)| {
        let field = format!("resourceClaimTemplateNames[{at}]");
        SharedClaim::short_form(name, ResourceSharingScope::AllReplicas, field)
    });
    long.chain(short).collect()
}
