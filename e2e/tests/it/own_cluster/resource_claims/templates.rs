//! `ResourceClaimTemplate`s that are missing, created later, deleted, and replaced.

use super::*;

const NOT_FOUND: &str = "ResourceClaimTemplateNotFound";

/// The clique `front` has a claim of its own, and `back` one of the set. `other` has none.
fn set_of_missing_templates() -> String {
    format!(
        "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {{name: llm}}
spec:
  replicas: 1
  template:
    resourceSharing:
    - {{name: disks, scope: AllReplicas, filter: {{childCliqueNames: [back]}}}}
    cliques:
    - {}
    - {}
    - {}
",
        clique("front", 1, "resourceClaimTemplateNames: [gpus], ", ""),
        clique("back", 1, "", ""),
        clique("other", 1, "", "")
    )
}

fn clique_is_ready(state: &NamespaceState, clique: &str) -> bool {
    state.pods.values().any(|pod| is_ready(pod) && pod_key(pod).starts_with(clique))
}

pub(super) async fn a_template_is_missing_changed_and_deleted(cluster: &TestCluster) {
    let fixture = Fixture::create(cluster, "e2e-claims-missing").await;
    fixture.ns.create_yaml::<PodCliqueSet>(&set_of_missing_templates()).await;
    missing_templates_are_reported(&fixture).await;
    fixture.create_template("gpus", 1).await;
    fixture.create_template("disks", 1).await;
    let before = fixture.ns.wait_for_ready_pods("llm", 3).await;
    let claims = fixture.wait_for_claims("llm", &["llm-all-disks", "llm-0-front-all-gpus"]).await;
    fixture.ns.wait_for_condition("llm-0-front", CONDITION, "AllResourceClaimsExist", "").await;
    a_new_claim_has_the_content_of_the_new_template(&fixture, &claims, &before).await;
    fixture.delete_last_set("llm").await;
    fixture.check_lifetime().await;
}

/// The messages and the events name the template, its namespace, and the field of the set. The third clique does not wait.
async fn missing_templates_are_reported(fixture: &Fixture) {
    for (owner, template, field) in [
        ("llm-0-front", "gpus", "spec.template.cliques[0].resourceClaimTemplateNames[0]"),
        ("llm", "disks", "spec.template.resourceSharing[0].name"),
    ] {
        for text in [template, &fixture.ns.name, field] {
            fixture.ns.wait_for_condition(owner, CONDITION, NOT_FOUND, text).await;
            events::wait_for_note(&fixture.ns, owner, NOT_FOUND, text).await;
        }
    }
    fixture.ns.wait_for_condition("llm-0-back", CONDITION, "ResourceClaimsPending", "llm-all-disks").await;
    let state = fixture.ns.wait_for_ready_pods("llm", 1).await;
    assert!(clique_is_ready(&state, "llm-0-other"), "{state}");
}

/// Existing claims and their pods stay.
async fn a_new_claim_has_the_content_of_the_new_template(
    fixture: &Fixture,
    claims: &[ResourceClaim],
    before: &NamespaceState,
) {
    fixture.ns.delete_object::<ResourceClaimTemplate>("gpus").await;
    fixture.ns.scale::<PodCliqueSet>("llm", 2).await;
    fixture.ns.wait_for_condition("llm-1-front", CONDITION, NOT_FOUND, "gpus").await;
    fixture.ns.wait_for_ready_pods("llm", 5).await;
    fixture.create_template("gpus", 2).await;
    let after = fixture.ns.wait_for_ready_pods("llm", 6).await;
    let names = ["llm-all-disks", "llm-0-front-all-gpus", "llm-1-front-all-gpus"];
    let claims_after = fixture.wait_for_claims("llm", &names).await;
    for claim in claims {
        let name = claim.name_any();
        assert_eq!(uid_of(&claims_after, &name), claim.uid(), "{name}");
    }
    let counts =
        |name: &str| claims_after.iter().find(|claim| claim.name_any() == name).map(|claim| devices(claim).len());
    assert_eq!(names.map(counts), [Some(1), Some(1), Some(2)]);
    let (before, after) = (pod_uids(before.pods_of("llm")), pod_uids(after.pods_of("llm")));
    assert!(before.iter().all(|(pod, uid)| after.get(pod) == Some(uid)), "{before:?} {after:?}");
}
