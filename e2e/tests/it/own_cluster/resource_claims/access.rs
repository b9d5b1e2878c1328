//! Without the webhook that checks the users of `ResourceClaimTemplate`s of other namespaces, no claim is created from them.

use grove_api_types::resource_sharing::template_access::REVIEWING_WEBHOOK;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;

use super::*;

/// A set with a claim at each level from a template of this namespace.
fn set_with_templates_of(namespace: &str) -> String {
    let share = format!("resourceSharing: [{{name: gpus, namespace: {namespace}, scope: AllReplicas}}]");
    format!(
        "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {{name: llm}}
spec:
  replicas: 1
  template:
    {share}
    cliques:
    - {}
    - {}
    podCliqueScalingGroups:
    - {{name: g, cliqueNames: [work], {share}}}
",
        clique("front", 1, &format!("{share}, "), ""),
        clique("work", 1, "", "")
    )
}

pub(super) async fn templates_of_other_namespaces_need_a_review(cluster: &TestCluster) {
    let templates = Fixture::create(cluster, "e2e-claims-reviewed-templates").await;
    templates.create_template("gpus", 1).await;
    let fixture = Fixture::create(cluster, "e2e-claims-reviewed").await;
    let webhooks = Api::<ValidatingWebhookConfiguration>::all(cluster.client().await);
    let mut webhook = webhooks.get(REVIEWING_WEBHOOK).await.expect("the webhook configuration");
    webhooks.delete(REVIEWING_WEBHOOK, &DeleteParams::default()).await.expect("it is deleted");
    no_claim_is_created(cluster, &fixture, &set_with_templates_of(&templates.ns.name)).await;

    (webhook.metadata.resource_version, webhook.metadata.uid) = (None, None);
    webhooks.create(&PostParams::default(), &webhook).await.expect("it is created again");
    fixture.wait_for_claims("llm", &["llm-all-gpus", "llm-0-g-all-gpus", "llm-0-front-all-gpus"]).await;
    fixture.ns.wait_for_ready_pods("llm", 2).await;
    fixture.delete_last_set("llm").await;
}

async fn no_claim_is_created(cluster: &TestCluster, fixture: &Fixture, set: &str) {
    for service in SERVICES {
        let count = r#"grove_cache_objects{kind="ValidatingWebhookConfiguration"}"#;
        poll_until(async || (metrics::scrape(cluster, service).await.get(count) == Some(&0.0)).then_some(())).await;
    }
    fixture.ns.create_yaml::<PodCliqueSet>(set).await;
    for owner in ["llm", "llm-0-g", "llm-0-front"] {
        fixture.ns.wait_for_condition(owner, CONDITION, "ResourceClaimsForbidden", REVIEWING_WEBHOOK).await;
    }
    assert_eq!(fixture.claims_of("llm").await.map(|claims| claims.len()), Some(0));
}
