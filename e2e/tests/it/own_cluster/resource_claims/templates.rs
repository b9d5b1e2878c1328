//! `ResourceClaimTemplate`s that are missing, created later, deleted, and replaced.

use super::*;

const NOT_FOUND: &str = "ResourceClaimTemplateNotFound";

/// The clique `front` has a claim of its own, `back` one of the set, and `work` one of its scaling group. `other` has none.
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
    - {}
    podCliqueScalingGroups:
    - {{name: g, cliqueNames: [work], resourceSharing: [{{name: nets, scope: AllReplicas}}]}}
",
        clique("front", 1, "resourceClaimTemplateNames: [gpus], ", ""),
        clique("back", 1, "", ""),
        clique("work", 1, "", ""),
        clique("other", 1, "", "")
    )
}

fn clique_is_ready(state: &NamespaceState, clique: &str) -> bool {
    state.pods.values().any(|pod| is_ready(pod) && pod_key(pod).starts_with(clique))
}

/// A user changes templates, while a service is stopped, if any.
pub(super) async fn a_template_is_missing_changed_and_deleted(cluster: &TestCluster, stopped: Option<&str>) {
    let fixture = Fixture::create(cluster, &format!("e2e-claims-missing-{}", stopped.unwrap_or("none"))).await;
    fixture.ns.create_yaml::<PodCliqueSet>(&set_of_missing_templates()).await;
    missing_templates_are_reported(&fixture, stopped).await;
    let create = async {
        for template in ["gpus", "disks", "nets"] {
            fixture.create_template(template, 1).await;
        }
    };
    change(cluster, stopped, create).await;
    let before = fixture.ns.wait_for_ready_pods("llm", 4).await;
    let claims = fixture.wait_for_claims("llm", &["llm-all-disks", "llm-0-front-all-gpus", "llm-0-g-all-nets"]).await;
    for owner in ["llm", "llm-0-g", "llm-0-front"] {
        fixture.ns.wait_for_condition(owner, CONDITION, "AllResourceClaimsExist", "").await;
    }
    a_new_claim_has_the_content_of_the_new_template(&fixture, (&claims, &before), (cluster, stopped)).await;
    fixture.delete_last_set("llm").await;
    fixture.check_lifetime().await;
}

/// The messages and the events name the template, its namespace, and the field of the set. The clique without claims does not wait.
async fn missing_templates_are_reported(fixture: &Fixture, stopped: Option<&str>) {
    for (owner, template, field) in [
        ("llm-0-front", "gpus", "spec.template.cliques[0].resourceClaimTemplateNames[0]"),
        ("llm", "disks", "spec.template.resourceSharing[0].name"),
        ("llm-0-g", "nets", "spec.template.podCliqueScalingGroups[0].resourceSharing[0].name"),
    ] {
        for text in [template, &fixture.ns.name, field] {
            fixture.ns.wait_for_condition(owner, CONDITION, NOT_FOUND, text).await;
            // A service drops the events that it cannot publish within three seconds after SIGTERM.
            if stopped.is_none() {
                events::wait_for_note(&fixture.ns, owner, NOT_FOUND, text).await;
            }
        }
    }
    for (clique, claim) in [("llm-0-back", "llm-all-disks"), ("llm-0-g-0-work", "llm-0-g-all-nets")] {
        fixture.ns.wait_for_condition(clique, CONDITION, "ResourceClaimsPending", claim).await;
    }
    let state = fixture.ns.wait_for_ready_pods("llm", 1).await;
    assert!(clique_is_ready(&state, "llm-0-other"), "{state}");
}

/// Existing claims and their pods stay.
async fn a_new_claim_has_the_content_of_the_new_template(
    fixture: &Fixture,
    (claims, before): (&[ResourceClaim], &NamespaceState),
    (cluster, stopped): (&TestCluster, Option<&str>),
) {
    let delete = async {
        fixture.ns.delete_object::<ResourceClaimTemplate>("gpus").await;
        fixture.ns.scale::<PodCliqueSet>("llm", 2).await;
    };
    change(cluster, stopped, delete).await;
    fixture.ns.wait_for_condition("llm-1-front", CONDITION, NOT_FOUND, "gpus").await;
    fixture.ns.wait_for_ready_pods("llm", 7).await;
    change(cluster, stopped, fixture.create_template("gpus", 2)).await;
    let after = fixture.ns.wait_for_ready_pods("llm", 8).await;
    let names =
        ["llm-all-disks", "llm-0-g-all-nets", "llm-1-g-all-nets", "llm-0-front-all-gpus", "llm-1-front-all-gpus"];
    let claims_after = fixture.wait_for_claims("llm", &names).await;
    for claim in claims {
        let name = claim.name_any();
        assert_eq!(uid_of(&claims_after, &name), claim.uid(), "{name}");
    }
    let counts =
        |name: &str| claims_after.iter().find(|claim| claim.name_any() == name).map(|claim| devices(claim).len());
    assert_eq!(names.map(counts), [1, 1, 1, 1, 2].map(Some));
    let (before, after) = (pod_uids(before.pods_of("llm")), pod_uids(after.pods_of("llm")));
    assert!(before.iter().all(|(pod, uid)| after.get(pod) == Some(uid)), "{before:?} {after:?}");
}
