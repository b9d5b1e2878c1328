//! The permissions of topology-controller, each with its reason. `cargo xtask generate` (`hack/xtask/src/generate.rs`) writes them into the
//! ClusterRole of `deploy/base/topology-controller/rbac.yaml`, and those on the kinds of a scheduler into a component of
//! `deploy/components`.

use grove_api_types::scheduler::Scheduler;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{ClusterTopology, ClusterTopologyBinding, PodClique, PodCliqueSet};
use grove_controller::terminating_namespaces::TerminatingNamespaces;
use grove_runtime::rbac::{PolicyRule, Verb};
use k8s_openapi::api::core::v1::Node;

use crate::{pod_groups, scheduler_topologies};

/// The rules of its `ClusterRole`.
pub fn rules() -> Vec<PolicyRule> {
    use Verb::{Create, Get, List, Patch, Update, Watch};
    vec![
        PolicyRule::for_resource::<PodGang>(&[Get, List, Watch], "reconcile the gangs; get confirms their deletion"),
        PolicyRule::for_resource::<PodGang>(&[Patch], "update the conditions about scheduling").status(),
        PolicyRule::for_resource::<PodGang>(&[Update], "create PodGroups that block the deletion of their gang")
            .subresource("finalizers")
            .implied(),
        PolicyRule::for_resource::<PodClique>(&[List, Watch], "read the scheduled pods and the queue of each clique"),
        PolicyRule::for_resource::<ClusterTopology>(
            &[Get, List, Watch, Create, Patch],
            "create and restore the default topology, and set the finalizer; get confirms deletions",
        ),
        PolicyRule::for_resource::<ClusterTopology>(&[Patch], "report sets, nodes and topology objects").status(),
        PolicyRule::for_resource::<ClusterTopology>(&[Update], "create topology objects that block the deletion")
            .subresource("finalizers")
            .implied(),
        PolicyRule::for_resource::<ClusterTopologyBinding>(
            &[Get, List, Watch, Create, Patch],
            "create and restore the binding of the default topology; get confirms deletions",
        ),
        PolicyRule::for_resource::<ClusterTopologyBinding>(&[Patch], "report topology objects").status(),
        PolicyRule::for_resource::<ClusterTopologyBinding>(
            &[Update],
            "create topology objects that block the deletion",
        )
        .subresource("finalizers")
        .implied(),
        PolicyRule::for_resource::<PodCliqueSet>(&[List, Watch], "find the sets that refer to a topology"),
        PolicyRule::for_resource::<Node>(&[List, Watch], "count the nodes without the label of a level"),
        TerminatingNamespaces::rule(),
        PolicyRule::lease(),
        PolicyRule::events(),
    ]
}

/// The rules on the kinds of each scheduler: its `PodGroup`s, and its topologies.
pub fn rules_of_schedulers() -> Vec<(Scheduler, Vec<PolicyRule>)> {
    let mut rules = pod_groups::rules_of_schedulers();
    for (scheduler, of_topologies) in scheduler_topologies::rules_of_schedulers() {
        match rules.iter_mut().find(|(other, _)| *other == scheduler) {
            Some((_, of_scheduler)) => of_scheduler.extend(of_topologies),
            None => rules.push((scheduler, of_topologies)),
        }
    }
    rules
}
