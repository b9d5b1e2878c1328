//! The annotation of cliques with the claims of their pods.

use expect_test::expect;
use grove_api_types::labels::RESOURCE_CLAIMS;
use grove_api_types::resource_sharing::clique_claims::CliqueClaims;
use grove_api_types::v1alpha1::PodClique;
use kube::ResourceExt;

use super::claims::{SHARING, complete};
use super::{change, child, executed, new, plan};
use crate::set::observed::Observed;

#[test]
fn cliques_carry_their_claims_which_are_restored_and_change_no_hash() {
    let mut observed = complete();
    let claims = |observed: &Observed, name: &str| {
        child::<PodClique>(observed, name).annotations().get(RESOURCE_CLAIMS).cloned()
    };
    expect![[r#"
        {"v":1,"references":["llm-all-outer","llm-0-inner"]}
        {"v":1,"references":["llm-all-outer","llm-1-inner"]}"#]]
    .assert_eq(&["llm-0-a", "llm-1-a"].map(|name| claims(&observed, name).unwrap_or_default()).join("\n"));
    let without = executed(new(&SHARING.replace("    resourceSharing: ", "    # ")));
    assert_eq!(claims(&without, "llm-0-a"), None);
    let hash = |observed: &Observed| {
        let clique = child::<PodClique>(observed, "llm-0-a");
        (
            clique.labels().get("grove.io/pod-template-hash").cloned(),
            clique.annotations().get("grove.io/podcliqueset-generation-hash").cloned(),
        )
    };
    assert_eq!(hash(&observed), hash(&without));
    change::<PodClique>(&mut observed, "llm-0-a", |clique| {
        clique.annotations_mut().insert(RESOURCE_CLAIMS.to_owned(), CliqueClaims::default().annotation());
    });
    expect![[r#"
        cliques: patch PodClique llm-0-a {"metadata":{"annotations":{"grove.io/resource-claims":"{\"v\":1,\"references\":[\"llm-all-outer\",\"llm-0-inner\"]}"}}}
    "#]].assert_eq(&plan(&observed).to_string());
}

/// The claims exist. A claim that is created later has the new metadata.
#[test]
fn changed_metadata_of_a_template_changes_only_the_annotation_of_the_cliques_with_own_claims() {
    let set = SHARING.replace(", {name: outer, namespace: shared, scope: AllReplicas}", "");
    let set = set.replace("{name: a, spec", "{name: a, resourceSharing: [{name: inner, scope: PerReplica}], spec");
    let mut observed = executed(new(&set));
    observed.set = new(&set.replace("templateSpec: {", "templateSpec: {metadata: {labels: {team: ml}}, ")).set;
    expect![[r#"
        cliques: patch PodClique llm-0-a {"metadata":{"annotations":{"grove.io/resource-claims":"{\"v\":1,\"references\":[\"llm-0-inner\"],\"claims\":[{\"template\":\"inner\",\"scope\":\"PerReplica\",\"field\":\"spec.template.cliques[0].resourceSharing[0].name\",\"templateSpec\":{\"metadata\":{\"labels\":{\"team\":\"ml\"}},\"spec\":{\"devices\":{\"requests\":[{\"name\":\"gpu\"}]}}}}]}"}}}
        cliques: patch PodClique llm-1-a {"metadata":{"annotations":{"grove.io/resource-claims":"{\"v\":1,\"references\":[\"llm-1-inner\"],\"claims\":[{\"template\":\"inner\",\"scope\":\"PerReplica\",\"field\":\"spec.template.cliques[0].resourceSharing[0].name\",\"templateSpec\":{\"metadata\":{\"labels\":{\"team\":\"ml\"}},\"spec\":{\"devices\":{\"requests\":[{\"name\":\"gpu\"}]}}}}]}"}}}
    "#]].assert_eq(&plan(&observed).to_string());
}

#[test]
fn a_template_cannot_set_the_claims_of_a_clique() {
    let own = "{name: a, annotations: {grove.io/resource-claims: '{\"references\":[\"x\"]}'}, spec:";
    let observed = executed(new(&super::SET.replace("{name: decode, spec:", &own.replace("name: a", "name: decode"))));
    assert_eq!(child::<PodClique>(&observed, "llm-0-decode").annotations().get(RESOURCE_CLAIMS), None);
}
