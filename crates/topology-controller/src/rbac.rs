//! The permissions of topology-controller, each with its reason. `cargo xtask generate` (`hack/xtask/src/generate.rs`) writes them into the
//! ClusterRole of `deploy/base/topology-controller/rbac.yaml`, and those on the kinds of a scheduler into a component of
//! `deploy/components`.

use grove_api_types::scheduler::Scheduler;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::PodClique;
use grove_controller::terminating_namespaces::TerminatingNamespaces;
use grove_runtime::rbac::{PolicyRule, Verb};

use crate::pod_groups;

/// The rules of its `ClusterRole`.
pub fn rules() -> Vec<PolicyRule> {
    use Verb::{Get, List, Patch, Update, Watch};
    vec![
        PolicyRule::for_resource::<PodGang>(&[Get, List, Watch], "reconcile the gangs; get confirms their deletion"),
        PolicyRule::for_resource::<PodGang>(&[Patch], "update the conditions about scheduling").status(),
        PolicyRule::for_resource::<PodGang>(&[Update], "create PodGroups that block the deletion of their gang")
            .subresource("finalizers")
            .implied(),
        PolicyRule::for_resource::<PodClique>(&[List, Watch], "read the scheduled pods and the queue of each clique"),
        TerminatingNamespaces::rule(),
        PolicyRule::lease(),
        PolicyRule::events(),
    ]
}

/// The rules on the `PodGroup`s of each scheduler that has its own.
pub fn rules_of_schedulers() -> Vec<(Scheduler, Vec<PolicyRule>)> {
    pod_groups::rules_of_schedulers()
}
