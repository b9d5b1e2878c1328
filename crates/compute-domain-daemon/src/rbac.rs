//! The permissions of the daemons, each with its reason. `cargo xtask generate` writes them into
//! `deploy/components/compute-domain-state/daemon.yaml`.

use grove_api_types::compute_domain::ComputeDomain;
use grove_api_types::compute_domain::clique::ComputeDomainClique;
use grove_process::rbac::{PolicyRule, Verb};
use k8s_openapi::api::core::v1::Pod;

/// The rules of the account of the daemons. The strategy `controller-clique` needs only those on pods, and to read cliques.
pub fn rules() -> Vec<PolicyRule> {
    use Verb::{Create, Delete, Get, List, Patch, Update, Watch};
    vec![
        PolicyRule::for_resource::<Pod>(&[List, Watch], "learn whether the own pod is ready").in_system_namespace(),
        PolicyRule::for_resource::<Pod>(&[Patch], "label the own pod with its clique, and write its index to it")
            .in_system_namespace(),
        PolicyRule::for_resource::<ComputeDomainClique>(&[List, Watch], "learn the peers").in_system_namespace(),
        PolicyRule::for_resource::<ComputeDomainClique>(&[Get], "confirm the own index with controller-clique")
            .in_system_namespace(),
        PolicyRule::for_resource::<ComputeDomainClique>(
            &[Create, Update, Patch],
            "write the own entry with rmw-clique or ssa-clique",
        )
        .in_system_namespace(),
        PolicyRule::for_resource::<ComputeDomainClique>(
            &[Delete],
            "make the own pod an owner of the clique with rmw-clique or ssa-clique",
        )
        .implied()
        .in_system_namespace(),
        PolicyRule::for_resource::<ComputeDomain>(&[List, Watch], "learn the peers with rmw-status or ssa-status"),
        PolicyRule::for_resource::<ComputeDomain>(
            &[Update, Patch],
            "write the own entry with rmw-status or ssa-status",
        )
        .status(),
    ]
}
