//! The permissions of webhook-server. `cargo xtask generate` (`hack/xtask/src/generate.rs`) writes them into the
//! ClusterRole of `deploy/base/webhook-server/rbac.yaml`, and those on the kinds of a scheduler into a component of
//! `deploy/components`.

use grove_api_types::scheduler::Scheduler;
use grove_api_types::v1alpha1::{
    ClusterTopology, ClusterTopologyBinding, PodClique, PodCliqueScalingGroup, PodCliqueSet,
};
use grove_runtime::rbac::{PolicyRule, Verb};
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::Secret;

use crate::webhook_configurations::{MUTATING, VALIDATING};
use crate::{gpu_nodes, queues};

/// Default name of the Secret with the certificate.
const SECRET: &str = "grove-webhook-server-cert";

/// The rules of its service account.
pub fn rules() -> Vec<PolicyRule> {
    let read = &[Verb::List, Verb::Watch];
    vec![
        PolicyRule::for_resource::<PodCliqueSet>(read, "find the sets that use a topology or disable the authorizer"),
        PolicyRule::for_resource::<PodCliqueScalingGroup>(read, "validate the scale of a scaling group"),
        PolicyRule::for_resource::<PodClique>(read, "validate the scale of a clique, find sets with scheduled pods"),
        PolicyRule::for_resource::<ClusterTopology>(read, "validate the topology references of sets"),
        PolicyRule::for_resource::<ClusterTopologyBinding>(read, "validate the topology references of sets"),
        gpu_nodes::rule(),
        PolicyRule::for_resource::<MutatingWebhookConfiguration>(read, "read the caBundle"),
        PolicyRule::for_resource::<MutatingWebhookConfiguration>(&[Verb::Patch], "write the caBundle")
            .resource_names(&MUTATING),
        PolicyRule::for_resource::<ValidatingWebhookConfiguration>(read, "read the caBundle"),
        PolicyRule::for_resource::<ValidatingWebhookConfiguration>(&[Verb::Patch], "write the caBundle")
            .resource_names(&VALIDATING),
        PolicyRule::for_resource::<Secret>(
            &[Verb::List, Verb::Watch, Verb::Patch],
            "share the serving certificate and its CA between the replicas",
        )
        .resource_names(&[SECRET])
        .in_system_namespace(),
        PolicyRule::for_resource::<Secret>(&[Verb::Create], "create the first certificate").in_system_namespace(),
        PolicyRule::for_resource::<SubjectAccessReview>(
            &[Verb::Create],
            "ask whether a user may read the claim templates of other namespaces that an object refers to",
        ),
        PolicyRule::lease(),
    ]
}

/// The rules on the kinds of each scheduler.
pub fn rules_of_schedulers() -> Vec<(Scheduler, Vec<PolicyRule>)> {
    queues::rules_of_schedulers()
}
