//! What triggers a reconcile: created templates and deleted cliques. Which claims cliques refer to.

use std::sync::Arc;

use grove_api_types::labels::RESOURCE_CLAIMS;
use grove_runtime::caches::Delta;
use grove_test_support::check_watched_kind;
use serde_json::json;

use super::*;
use crate::tests::yaml;

#[test]
fn an_edited_claim_or_template_affects_no_other_object() {
    let spec = json!({ "devices": { "requests": [{ "name": "gpu", "exactly": { "deviceClassName": "gpu" } }] } });
    let status = json!({ "reservedFor": [{ "resource": "pods", "name": "p", "uid": "u" }], "allocation": {} });
    check_watched_kind!(ResourceClaim, json!({ "spec": spec, "status": status }));
    check_watched_kind!(SlimResourceClaimTemplate, json!({ "spec": { "metadata": { "labels": {} }, "spec": spec } }));
}

#[test]
fn a_set_is_found_by_the_external_templates_of_its_own_level_and_of_its_groups() {
    let set: PodCliqueSet = yaml(
        "
metadata: {name: llm, namespace: prod}
spec:
  template:
    resourceSharing: [{name: a, scope: AllReplicas}, {name: b, namespace: other, scope: PerReplica}]
    cliques: [{name: c, resourceClaimTemplateNames: [d], spec: {podSpec: {}}}]
    podCliqueScalingGroups: [{name: g, cliqueNames: [c], resourceClaimTemplateConfigs: [{names: [e]}]}]
",
    );
    assert_eq!(templates_of_set(&set), ["prod/a", "other/b", "prod/e"]);
}

fn template(uid: &str) -> Arc<SlimResourceClaimTemplate> {
    let mut template: SlimResourceClaimTemplate = yaml("metadata: {name: t, namespace: prod}");
    template.metadata.uid = Some(uid.to_owned());
    Arc::new(template)
}

#[test]
fn only_a_created_template_triggers_sets() {
    for (old, new, created) in [
        (None, Some(template("1")), true),
        (Some(template("1")), Some(template("2")), true),
        (Some(template("1")), Some(template("1")), false),
        (Some(template("1")), None, false),
    ] {
        let expected = created.then(|| "prod/t".to_owned());
        assert_eq!(created_template(&Delta { old, new }), expected);
    }
}

#[test]
fn the_deletion_of_a_clique_of_a_group_with_claims_triggers_its_set() {
    let clique = |labels: &[(&str, &str)], claims: Option<&str>| {
        let mut clique: PodClique = yaml("{metadata: {name: c, namespace: prod}, spec: {replicas: 1, podSpec: {}}}");
        clique.metadata.labels = Some(labels::of(labels.iter().copied()));
        clique.metadata.annotations = claims.map(|claims| labels::of([(RESOURCE_CLAIMS, claims)]));
        Some(Arc::new(clique))
    };
    let of_group = [(labels::PART_OF, "llm"), (labels::SCALING_GROUP, "llm-0-g")];
    for (old, new, set) in [
        (clique(&of_group, Some("{}")), None, Some("llm")),
        (clique(&of_group, Some("{}")), clique(&of_group, Some("{}")), None),
        (clique(&of_group, None), None, None),
        // The set controls the clique, so its deletion triggers the set in any case.
        (clique(&of_group[..1], Some("{}")), None, None),
    ] {
        let triggered = set_of_deleted_clique(&Delta { old, new }).map(|set| (set.name, set.namespace));
        assert_eq!(triggered, set.map(|set| (set.to_owned(), Some("prod".to_owned()))));
    }
}

#[test]
fn a_cache_that_is_complete_makes_claims_available() {
    let access = TemplateAccess::new(Some(Cache::from_objects([])));
    let claims = ClaimCaches { claims: Cache::from_objects([]), templates: Cache::from_objects([]), access };
    let inputs = claims.inputs(&[], BTreeSet::new());
    assert_eq!((inputs.unavailable, inputs.unavailable_templates), (None, None));
}
