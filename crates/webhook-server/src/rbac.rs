//! What webhook-server may do: exactly what it does.

use grove_api_types::v1alpha1::{
    ClusterTopology, ClusterTopologyBinding, PodClique, PodCliqueScalingGroup, PodCliqueSet,
};
use grove_runtime::rbac::{Rule, Verb};
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::Secret;

use crate::registration::{MUTATING, VALIDATING};

/// The Secret with the certificate, unless the configuration names another.
const SECRET: &str = "grove-webhook-server-cert";

/// The rules its account is granted.
pub fn rules() -> Vec<Rule> {
    let follow = &[Verb::List, Verb::Watch];
    vec![
        Rule::on::<PodCliqueSet>(follow, "which sets refer to a topology, and which are open to everybody"),
        Rule::on::<PodCliqueScalingGroup>(follow, "what a scaling group may be scaled to"),
        Rule::on::<PodClique>(follow, "what a clique may be scaled to, and whether pods of a set are scheduled"),
        Rule::on::<ClusterTopology>(follow, "the topologies that sets may refer to"),
        Rule::on::<ClusterTopologyBinding>(follow, "the same, of the other kind"),
        Rule::named("scheduling.volcano.sh", "queues", follow, "the queues that sets may name, where Volcano is used"),
        Rule::on::<MutatingWebhookConfiguration>(follow, "whether the API server is told whom to trust"),
        Rule::on::<MutatingWebhookConfiguration>(&[Verb::Patch], "to tell it").only(&MUTATING),
        Rule::on::<ValidatingWebhookConfiguration>(follow, "whether the API server is told whom to trust"),
        Rule::on::<ValidatingWebhookConfiguration>(&[Verb::Patch], "to tell it").only(&VALIDATING),
        Rule::on::<Secret>(&[Verb::List, Verb::Watch, Verb::Patch], "the certificate, which its replicas share")
            .only(&[SECRET])
            .in_system_namespace(),
        Rule::on::<Secret>(&[Verb::Create], "to begin with one").in_system_namespace(),
        Rule::lease(),
    ]
}
