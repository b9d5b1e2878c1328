//! The permissions of webhook-server.

use grove_api_types::v1alpha1::{
    ClusterTopology, ClusterTopologyBinding, PodClique, PodCliqueScalingGroup, PodCliqueSet,
};
use grove_runtime::rbac::{Rule, Verb};
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Secret;

use crate::registration::{MUTATING, VALIDATING};

/// Default name of the Secret with the certificate.
const SECRET: &str = "grove-webhook-server-cert";

/// The rules of its service account.
pub fn rules() -> Vec<Rule> {
    let read = &[Verb::List, Verb::Watch];
    vec![
        Rule::on::<PodCliqueSet>(read, "find the sets that use a topology or disable the authorizer"),
        Rule::on::<PodCliqueScalingGroup>(read, "validate the scale of a scaling group"),
        Rule::on::<PodClique>(read, "validate the scale of a clique, find sets with scheduled pods"),
        Rule::on::<ClusterTopology>(read, "validate the topology references of sets"),
        Rule::on::<ClusterTopologyBinding>(read, "validate the topology references of sets"),
        Rule::named(
            "scheduling.volcano.sh",
            "queues",
            read,
            "validate the queue names of sets, if Volcano is configured",
        ),
        Rule::on::<MutatingWebhookConfiguration>(read, "read the caBundle"),
        Rule::on::<MutatingWebhookConfiguration>(&[Verb::Patch], "write the caBundle").only(&MUTATING),
        Rule::on::<ValidatingWebhookConfiguration>(read, "read the caBundle"),
        Rule::on::<ValidatingWebhookConfiguration>(&[Verb::Patch], "write the caBundle").only(&VALIDATING),
        Rule::on::<Secret>(
            &[Verb::List, Verb::Watch, Verb::Patch],
            "share the serving certificate and its CA between the replicas",
        )
        .only(&[SECRET])
        .in_system_namespace(),
        Rule::on::<Secret>(&[Verb::Create], "create the first certificate").in_system_namespace(),
        Rule::lease(),
    ]
}
