//! Fields of a set that are accepted and kept, and that no service acts on yet. A user who writes one of them is told by
//! the condition `UnsupportedFields`, so that nobody relies on what does not happen.

use kube::ResourceExt;

use crate::admission::default;
use crate::duration::Duration;
use crate::labels::{AUTO_MNNVL, AUTO_MNNVL_DISABLED, MNNVL_GROUP, NO_MNNVL_GROUP};
use crate::scheduler::Scheduler;
use crate::v1alpha1::{
    CliqueStartupType, PodCliqueScalingGroupConfig, PodCliqueSet, PodCliqueSetTemplateSpec, PodCliqueTemplateSpec,
};

/// As many fields are named in a message; the others are counted.
const NAMED: usize = 20;

/// The paths of such fields that `set` has, as it was stored: our defaults would look like the user's words.
pub fn fields(set: &PodCliqueSet) -> Vec<String> {
    let mut found = Found::default();
    let annotation = |key: &str| set.annotations().get(key);
    found.add(
        annotation(AUTO_MNNVL).is_some_and(|value| value != AUTO_MNNVL_DISABLED),
        "metadata.annotations",
        AUTO_MNNVL,
    );
    found.add(
        annotation(MNNVL_GROUP).is_some_and(|group| group != NO_MNNVL_GROUP),
        "metadata.annotations",
        MNNVL_GROUP,
    );
    found.add(set.spec.update_strategy.is_some(), "spec", "updateStrategy");
    found.of_template(&set.spec.template);
    found.0
}

/// A sentence that names them, for a condition; `None` if there is none.
pub fn message(fields: &[String]) -> Option<String> {
    let named = fields.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = fields.len().saturating_sub(NAMED);
    let named = match (fields.len(), more) {
        (0, _) => return None,
        (_, 0) => named,
        _ => format!("{named} and {more} more"),
    };
    Some(format!("not supported by this version: {named}; remove these fields, or run a version that supports them"))
}

#[derive(Default)]
struct Found(Vec<String>);

impl Found {
    fn add(&mut self, is_written: bool, parent: &str, field: &str) {
        if is_written {
            // The key of an annotation has dots of its own.
            let path = if field.contains('/') { format!("{parent}[{field}]") } else { [parent, field].join(".") };
            self.0.push(path);
        }
    }

    fn of_template(&mut self, template: &PodCliqueSetTemplateSpec) {
        let path = "spec.template";
        self.add(template.clique_startup_type != CliqueStartupType::AnyOrder, path, "cliqueStartupType");
        self.add(template.cluster_topology_name.is_some(), path, "clusterTopologyName");
        self.add(template.topology_constraint.is_some(), path, "topologyConstraint");
        // What admission fills in is not the user's word.
        let default = Duration::new(default::TERMINATION_DELAY).value();
        let is_written = template.termination_delay.as_ref().is_some_and(|delay| delay.value() != default);
        self.add(is_written, path, "terminationDelay");
        self.add(!template.resource_claim_templates.is_empty(), path, "resourceClaimTemplates");
        self.add(!template.resource_sharing.is_empty(), path, "resourceSharing");
        for (index, clique) in template.cliques.iter().enumerate() {
            self.of_clique(clique, &format!("{path}.cliques[{index}]"));
        }
        for (index, group) in template.pod_clique_scaling_groups.iter().enumerate() {
            self.of_group(group, &format!("{path}.podCliqueScalingGroups[{index}]"));
        }
    }

    fn of_clique(&mut self, clique: &PodCliqueTemplateSpec, path: &str) {
        let group = clique.annotations.get(MNNVL_GROUP);
        self.add(group.is_some_and(|group| group != NO_MNNVL_GROUP), &format!("{path}.annotations"), MNNVL_GROUP);
        self.add(clique.topology_constraint.is_some(), path, "topologyConstraint");
        self.add(!clique.resource_sharing.is_empty(), path, "resourceSharing");
        self.add(!clique.resource_claim_template_names.is_empty(), path, "resourceClaimTemplateNames");
        self.add(!clique.spec.starts_after.is_empty(), &format!("{path}.spec"), "startsAfter");
        // Pods carry the name, but the scheduler is not told of their gang.
        let named = clique.spec.pod_spec.text("schedulerName");
        let waits = named.and_then(Scheduler::named).is_some_and(Scheduler::has_own_pod_groups);
        self.add(waits, &format!("{path}.spec.podSpec"), "schedulerName");
    }

    fn of_group(&mut self, group: &PodCliqueScalingGroupConfig, path: &str) {
        let fabric = group.annotations.get(MNNVL_GROUP);
        self.add(fabric.is_some_and(|group| group != NO_MNNVL_GROUP), &format!("{path}.annotations"), MNNVL_GROUP);
        self.add(group.topology_constraint.is_some(), path, "topologyConstraint");
        self.add(!group.resource_sharing.is_empty(), path, "resourceSharing");
        self.add(!group.resource_claim_template_configs.is_empty(), path, "resourceClaimTemplateConfigs");
    }
}
