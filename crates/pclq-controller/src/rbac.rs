//! The permissions of pclq-controller, each with its reason. `cargo xtask generate` (`hack/xtask/src/generate.rs`) writes them into the
//! ClusterRole of `deploy/base/pclq-controller/rbac.yaml`.

use grove_api_types::resource_claim::SlimResourceClaimTemplate;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::PodClique;
use grove_controller::template_access::TemplateAccess;
use grove_controller::terminating_namespaces::TerminatingNamespaces;
use grove_runtime::rbac::{PolicyRule, Verb};
use k8s_openapi::api::core::v1::Pod;

use crate::claims::CLAIM_KINDS;

/// The rules of its `ClusterRole`.
pub fn rules() -> Vec<PolicyRule> {
    use Verb::{Create, Delete, Get, List, Patch, Update, Watch};
    let mut rules = vec![
        PolicyRule::for_resource::<PodClique>(
            &[Get, List, Watch, Patch],
            "reconcile the cliques; get confirms their deletion and reads the owner before an adoption; patch removes the \
             finalizer of the Go operator",
        ),
        PolicyRule::for_resource::<PodClique>(&[Patch], "update the status").status(),
        PolicyRule::for_resource::<PodClique>(
            &[Update],
            "create pods and claims that block the deletion of their clique",
        )
        .subresource("finalizers")
        .implied(),
        PolicyRule::for_resource::<Pod>(
            &[Get, List, Watch, Create, Patch, Delete],
            "manage the pods of a clique; get reads the live pod after a name conflict and before an adoption",
        ),
        PolicyRule::for_resource::<PodGang>(
            &[List, Watch, Patch],
            "read the gang and the base gang of a clique; patch the pod references in the pod group of a clique",
        ),
        PolicyRule::for_resource::<SlimResourceClaimTemplate>(
            &[Get, List, Watch],
            "find the templates of claims; get reads the content of a template when a claim is created from it",
        ),
        TemplateAccess::rule(),
        TerminatingNamespaces::rule(),
        PolicyRule::lease(),
        PolicyRule::events(),
    ];
    rules.extend(CLAIM_KINDS.rules());
    rules
}
