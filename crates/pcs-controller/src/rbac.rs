//! The permissions of pcs-controller, each with its reason. Those on children are in the files of the child kinds.
//! `cargo xtask generate` (`hack/xtask/src/generate.rs`) writes them into the
//! ClusterRole of `deploy/base/pcs-controller/rbac.yaml`, and those for a scheduler into a component of `deploy/components`.

use grove_api_types::scheduler::Scheduler;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodCliqueScalingGroup, PodCliqueSet};
use grove_controller::terminating_namespaces::TerminatingNamespaces;
use grove_runtime::rbac::{PolicyRule, Verb};

use crate::{claims, compute_domains, native_gangs, scaling_group, set, startup, topology};

/// The rules of its `ClusterRole`.
pub fn rules() -> Vec<PolicyRule> {
    let read_and_patch = &[Verb::Get, Verb::List, Verb::Watch, Verb::Patch];
    let mut rules = vec![
        PolicyRule::for_resource::<PodCliqueSet>(
            read_and_patch,
            "reconcile the sets; get confirms their deletion; patch removes the finalizer of the Go operator",
        ),
        PolicyRule::for_resource::<PodCliqueSet>(&[Verb::Patch], "update the status").status(),
        PolicyRule::for_resource::<PodCliqueSet>(
            &[Verb::Update],
            "create children that block the deletion of their set",
        )
        .subresource("finalizers")
        .implied(),
        PolicyRule::for_resource::<PodCliqueScalingGroup>(&[Verb::Patch], "update the status").status(),
        PolicyRule::for_resource::<PodCliqueScalingGroup>(
            &[Verb::Update],
            "create cliques that block the deletion of their group",
        )
        .subresource("finalizers")
        .implied(),
        PolicyRule::for_resource::<PodGang>(&[Verb::Patch], "update the status").status(),
    ];
    // Sets and groups both manage cliques and claims, with the same rules.
    for rule in set::CHILD_KINDS.rules().into_iter().chain(scaling_group::CHILD_KINDS.rules()) {
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    rules.extend(topology::rules());
    rules.extend(compute_domains::rules());
    rules.extend(claims::rules());
    rules.extend(startup::rules());
    rules.extend([TerminatingNamespaces::rule(), PolicyRule::lease(), PolicyRule::events()]);
    rules
}

/// The rules for each scheduler that needs some.
pub fn rules_of_schedulers() -> Vec<(Scheduler, Vec<PolicyRule>)> {
    native_gangs::rules_of_schedulers()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{scaling_group, set};

    #[test]
    fn no_two_rows_of_a_table_of_child_kinds_have_the_same_kind() {
        for kinds in [set::CHILD_KINDS.kinds().collect::<Vec<_>>(), scaling_group::CHILD_KINDS.kinds().collect()] {
            assert_eq!(kinds.iter().collect::<BTreeSet<_>>().len(), kinds.len(), "{kinds:?}");
        }
    }
}
