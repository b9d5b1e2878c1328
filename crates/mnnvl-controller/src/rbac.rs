//! The permissions of mnnvl-controller, each with its reason. Those on domains are in the file of the child kind. `cargo xtask generate`
//! (`hack/xtask/src/generate.rs`) writes them into the ClusterRole of `deploy/base/mnnvl-controller/rbac.yaml`.

use grove_api_types::compute_domain::ComputeDomain;
use grove_api_types::compute_domain::clique::ComputeDomainClique;
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use grove_controller::terminating_namespaces::TerminatingNamespaces;
use grove_runtime::rbac::{PolicyRule, Verb};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;

use crate::set;

/// The rules of its `ClusterRole`.
pub fn rules() -> Vec<PolicyRule> {
    use Verb::{Get, List, Patch, Update, Watch};
    let mut rules = vec![
        PolicyRule::for_resource::<PodCliqueSet>(
            &[Get, List, Watch],
            "reconcile the sets; get confirms their deletion",
        ),
        PolicyRule::for_resource::<PodCliqueSet>(&[Patch], "update the condition about compute domains").status(),
        PolicyRule::for_resource::<PodCliqueSet>(&[Update], "create domains that block the deletion of their set")
            .subresource("finalizers")
            .implied(),
        PolicyRule::for_resource::<PodClique>(&[List, Watch], "delete a domain after its last clique and pod"),
        PolicyRule::for_resource::<Pod>(&[List, Watch], "delete a domain after its last clique and pod"),
    ];
    rules.extend(set::CHILD_KINDS.rules());
    rules.extend([TerminatingNamespaces::rule(), PolicyRule::lease(), PolicyRule::events()]);
    rules
}

/// The rules to write the state of compute domains, which a component of its own grants.
pub fn rules_of_state_sync() -> Vec<PolicyRule> {
    use Verb::{Create, Delete, Get, List, Patch, Watch};
    vec![
        PolicyRule::for_resource::<ComputeDomain>(&[Patch], "write the summary of a compute domain").status(),
        PolicyRule::for_resource::<DaemonSet>(&[Get, List, Watch], "learn which compute domains have daemons"),
        PolicyRule::for_resource::<DaemonSet>(&[Create, Patch, Delete], "run the daemons of a compute domain")
            .in_system_namespace(),
        PolicyRule::for_resource::<ResourceClaimTemplate>(
            &[Get, List, Watch, Create, Patch, Delete],
            "describe the claims of daemons, and of the pods that use a compute domain",
        ),
        PolicyRule::for_resource::<Node>(&[List, Watch, Patch], "free the nodes of a deleted compute domain"),
        PolicyRule::for_resource::<ComputeDomainClique>(&[List, Watch], "learn the entries of the cliques"),
        PolicyRule::for_resource::<ComputeDomainClique>(&[Create, Patch], "write the entries of the cliques")
            .in_system_namespace(),
        PolicyRule::for_resource::<ComputeDomainClique>(
            &[Delete],
            "make the pods of the daemons owners of their clique",
        )
        .implied()
        .in_system_namespace(),
    ]
}
