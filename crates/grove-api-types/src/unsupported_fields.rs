//! Fields of a set that Grove stores and that no service supports yet. The condition `UnsupportedFields` lists them, so that users do
//! not rely on them.

use crate::admission::default;
use crate::duration::GoDuration;
use crate::scheduler::{Scheduler, TopologySupport};
use crate::text::join_names;
use crate::v1alpha1::{PodCliqueScalingGroupConfig, PodCliqueSet, PodCliqueSetTemplateSpec, PodCliqueTemplateSpec};

/// The default of Dynamo's operator for `terminationDelay`.
const DYNAMO_TERMINATION_DELAY: &str = "15m";

/// A message contains at most this many fields, and counts the others.
const MAX_NAMED: usize = 20;

/// The paths of the unsupported fields of `set`, whose pods have this scheduler. `has_pod_groups` is whether its gangs have `PodGroup`s of
/// the workload API. The set must be without typed defaults, so that the list contains only fields that the user set.
pub fn fields(set: &PodCliqueSet, scheduler: Scheduler, has_pod_groups: bool) -> Vec<String> {
    let has_topology = match scheduler.topology_support() {
        TopologySupport::Supported => true,
        TopologySupport::WithPodGroups => has_pod_groups,
        TopologySupport::Denied(_) => false,
    };
    let mut unsupported = UnsupportedFields { paths: Vec::new(), has_topology };
    unsupported.of_template(&set.spec.template);
    unsupported.paths
}

/// The message of the condition; `None` if there are no such fields.
pub fn message(fields: &[String]) -> Option<String> {
    let list = join_names(fields, MAX_NAMED);
    (!fields.is_empty()).then(|| {
        format!("not supported by this version: {list}; remove these fields, or run a version that supports them")
    })
}

struct UnsupportedFields {
    paths: Vec<String>,
    /// Whether the scheduler packs pods by topology.
    has_topology: bool,
}

impl UnsupportedFields {
    fn add(&mut self, is_set: bool, parent: &str, field: &str) {
        if is_set {
            self.paths.push([parent, field].join("."));
        }
    }

    fn of_template(&mut self, template: &PodCliqueSetTemplateSpec) {
        let path = "spec.template";
        self.add(template.cluster_topology_name.is_some() && !self.has_topology, path, "clusterTopologyName");
        self.add(template.topology_constraint.is_some() && !self.has_topology, path, "topologyConstraint");
        // The webhook sets a default, and Dynamo's operator another one, so these values are not a choice of the user.
        let defaults =
            [default::TERMINATION_DELAY, DYNAMO_TERMINATION_DELAY].map(|delay| GoDuration::new(delay).value());
        let is_set = template.termination_delay.as_ref().is_some_and(|delay| !defaults.contains(&delay.value()));
        self.add(is_set, path, "terminationDelay");
        for (index, clique) in template.cliques.iter().enumerate() {
            self.of_clique(clique, &format!("{path}.cliques[{index}]"));
        }
        for (index, group) in template.pod_clique_scaling_groups.iter().enumerate() {
            self.of_group(group, &format!("{path}.podCliqueScalingGroups[{index}]"));
        }
    }

    fn of_clique(&mut self, clique: &PodCliqueTemplateSpec, path: &str) {
        self.add(clique.topology_constraint.is_some() && !self.has_topology, path, "topologyConstraint");
        let group = clique.spec.pod_spec.get("schedulingGroup").filter(|group| !group.is_null());
        self.add(group.is_some(), &format!("{path}.spec.podSpec"), "schedulingGroup");
    }

    fn of_group(&mut self, group: &PodCliqueScalingGroupConfig, path: &str) {
        self.add(group.topology_constraint.is_some() && !self.has_topology, path, "topologyConstraint");
    }
}
