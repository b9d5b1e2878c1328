//! The claims of a scaling group, and those that its cliques carry.

use std::collections::BTreeMap;
use std::sync::Arc;

use expect_test::{Expect, expect};
use grove_api_types::conditions::RESOURCE_CLAIMS_CREATED;
use grove_api_types::labels::RESOURCE_CLAIMS;
use grove_api_types::resource_claim::{ClaimTemplate, ResourceClaim};
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use grove_controller::conditions::find_status_condition;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use serde_json::json;

use super::{change, executed, new, plan, status_of};
use crate::claims::{ReadTemplate, TemplateKey};
use crate::scaling_group::observed::Observed;
use crate::tests::{GROUPED, yaml};

/// The group of two replicas: one claim for all of them, and one per replica that only `d` uses. All cliques use a claim of the set.
fn sharing() -> Observed {
    let mut set: PodCliqueSet = yaml(GROUPED);
    let template = &mut set.spec.template;
    template.resource_sharing = serde_json::from_value(json!([{ "name": "of-set", "scope": "AllReplicas" }])).unwrap();
    let group = &mut template.pod_clique_scaling_groups[0];
    group.resource_sharing = serde_json::from_value(json!([{ "name": "all", "scope": "AllReplicas" }])).unwrap();
    let of_d = json!([{ "names": ["of-d"], "cliqueNames": ["d"] }]);
    group.resource_claim_template_configs = serde_json::from_value(of_d).unwrap();
    let mut observed = new(2);
    observed.set = Some(grove_api_types::admission::default::pod_clique_set(&set));
    observed
}

fn found() -> Observed {
    let mut observed = sharing();
    let read = |name: &str| {
        let key = TemplateKey { namespace: "prod".to_owned(), name: name.to_owned() };
        (key, ReadTemplate::Found(Arc::new(ClaimTemplate::default())))
    };
    observed.claims.templates = BTreeMap::from([read("all"), read("of-d")]);
    observed
}

#[track_caller]
fn check_condition(observed: &Observed, expected: &Expect) {
    let status = status_of(observed, Timestamp::UNIX_EPOCH);
    let condition = find_status_condition(&status.conditions, RESOURCE_CLAIMS_CREATED);
    let text = condition.map_or("none".to_owned(), |it| format!("{} {}: {}", it.status, it.reason, it.message));
    expected.assert_eq(&text);
}

#[test]
fn claims_are_created_before_cliques_and_only_those_of_the_group() {
    let observed = found();
    expect![[r"
        resource-claims: create ResourceClaim m-0-g-all-all
        resource-claims: create ResourceClaim m-0-g-0-of-d
        resource-claims: create ResourceClaim m-0-g-1-of-d
        cliques: create PodClique m-0-g-0-p
        cliques: create PodClique m-0-g-0-d
        cliques: create PodClique m-0-g-1-p
        cliques: create PodClique m-0-g-1-d
    "]]
    .assert_eq(&plan(&observed).to_string());
    let complete = executed(observed);
    assert_eq!(plan(&complete).to_string(), "nothing to do\n");
    check_condition(&complete, &expect!["True AllResourceClaimsExist: all 3 ResourceClaims of this level exist"]);
}

#[test]
fn claims_have_the_labels_of_their_group_and_replica() {
    let complete = executed(found());
    let line = |claim: &Arc<ResourceClaim>| {
        let labels: Vec<_> = claim.labels().iter().map(|(key, value)| format!("{key}={value}")).collect();
        format!("{} of {}: {}\n", claim.name_any(), claim.owner_references()[0].name, labels.join(" "))
    };
    expect![[r"
        m-0-g-0-of-d of m-0-g: app.kubernetes.io/component=resource-claim app.kubernetes.io/managed-by=grove-operator app.kubernetes.io/part-of=m grove.io/podcliquescalinggroup=m-0-g grove.io/podcliquescalinggroup-replica-index=0
        m-0-g-1-of-d of m-0-g: app.kubernetes.io/component=resource-claim app.kubernetes.io/managed-by=grove-operator app.kubernetes.io/part-of=m grove.io/podcliquescalinggroup=m-0-g grove.io/podcliquescalinggroup-replica-index=1
        m-0-g-all-all of m-0-g: app.kubernetes.io/component=resource-claim app.kubernetes.io/managed-by=grove-operator app.kubernetes.io/part-of=m grove.io/podcliquescalinggroup=m-0-g
    "]].assert_eq(&complete.children.of_kind::<ResourceClaim>().map(line).collect::<String>());
}

#[test]
fn the_cliques_of_a_group_refer_to_the_claims_of_the_set_and_of_the_group() {
    let complete = executed(found());
    let line = |clique: &Arc<PodClique>| {
        format!("{}: {}\n", clique.name_any(), clique.annotations().get(RESOURCE_CLAIMS).cloned().unwrap_or_default())
    };
    expect![[r#"
        m-0-g-0-d: {"v":1,"setUid":"u-set","references":["m-all-of-set","m-0-g-all-all","m-0-g-0-of-d"]}
        m-0-g-0-p: {"v":1,"setUid":"u-set","references":["m-all-of-set","m-0-g-all-all"]}
        m-0-g-1-d: {"v":1,"setUid":"u-set","references":["m-all-of-set","m-0-g-all-all","m-0-g-1-of-d"]}
        m-0-g-1-p: {"v":1,"setUid":"u-set","references":["m-all-of-set","m-0-g-all-all"]}
    "#]]
    .assert_eq(&complete.children.of_kind::<PodClique>().map(line).collect::<String>());
}

/// The set was replaced by another one, or an older version of pcs-controller created the clique.
#[test]
fn the_uid_of_the_set_is_written_into_existing_cliques() {
    let mut complete = executed(found());
    change(&mut complete, "m-0-g-0-p", |clique| {
        let claims = "{\"references\":[\"m-all-of-set\",\"m-0-g-all-all\"]}";
        clique.annotations_mut().insert(RESOURCE_CLAIMS.to_owned(), claims.to_owned());
    });
    expect![[r#"
        cliques: patch PodClique m-0-g-0-p {"metadata":{"annotations":{"grove.io/resource-claims":"{\"v\":1,\"setUid\":\"u-set\",\"references\":[\"m-all-of-set\",\"m-0-g-all-all\"]}"}}}
    "#]].assert_eq(&plan(&complete).to_string());
}

#[test]
fn a_scale_in_deletes_the_claims_of_the_removed_replica() {
    let mut complete = executed(found());
    complete.group.spec.replicas = 1;
    let mut scaled = super::resized(complete);
    scaled.claims.referenced.insert("m-0-g-1-of-d".to_owned());
    let deletes = |observed: &Observed| plan(observed).to_string().matches("delete ResourceClaim").count();
    assert_eq!(deletes(&scaled), 0, "it is not allocated, and a clique refers to it");
    let claim = scaled.children.by_name_mut::<ResourceClaim>().get_mut("m-0-g-1-of-d").unwrap();
    let protection = vec!["resource.kubernetes.io/delete-protection".to_owned()];
    Arc::make_mut(claim).metadata.finalizers = Some(protection);
    expect![[r"
        scale-in: delete PodClique m-0-g-1-d
        scale-in: delete PodClique m-0-g-1-p
        scale-in: delete ResourceClaim m-0-g-1-of-d
    "]]
    .assert_eq(&plan(&scaled).to_string());
}

#[test]
fn missing_templates_are_read_and_reported_with_their_fields() {
    let mut observed = super::expanded(&sharing());
    let keys = observed.templates_to_read();
    assert_eq!(keys.keys().map(ToString::to_string).collect::<Vec<_>>(), ["prod/all", "prod/of-d"]);
    observed.claims.templates = keys.into_keys().map(|key| (key, ReadTemplate::NotFound)).collect();
    expect![[r"
        cliques: create PodClique m-0-g-0-p
        cliques: create PodClique m-0-g-0-d
        cliques: create PodClique m-0-g-1-p
        cliques: create PodClique m-0-g-1-d
        wait: ResourceClaimTemplateNotFound ResourceClaimTemplate prod/all of spec.template.podCliqueScalingGroups[0].resourceSharing[0].name does not exist; create it
        wait: ResourceClaimTemplateNotFound ResourceClaimTemplate prod/of-d of spec.template.podCliqueScalingGroups[0].resourceClaimTemplateConfigs[0].names[0] does not exist; create it
        warn: ResourceClaimTemplateNotFound ResourceClaimTemplate prod/all of spec.template.podCliqueScalingGroups[0].resourceSharing[0].name does not exist; create it; ResourceClaimTemplate prod/of-d of spec.template.podCliqueScalingGroups[0].resourceClaimTemplateConfigs[0].names[0] does not exist; create it
    "]].assert_eq(&plan(&observed).to_string());
    check_condition(
        &observed,
        &expect![
            "False ResourceClaimTemplateNotFound: 0 of 3 ResourceClaims exist; ResourceClaimTemplate prod/all of spec.template.podCliqueScalingGroups[0].resourceSharing[0].name does not exist; create it; ResourceClaimTemplate prod/of-d of spec.template.podCliqueScalingGroups[0].resourceClaimTemplateConfigs[0].names[0] does not exist; create it"
        ],
    );
}

#[test]
fn a_group_without_own_claims_reports_its_cliques_and_one_without_sharing_nothing() {
    check_condition(&new(2), &expect!["none"]);
    let mut observed = new(2);
    if let Some(set) = &mut observed.set {
        set.spec.template.cliques[1].resource_claim_template_names = vec!["t".to_owned()];
    }
    let mut observed = executed(observed);
    check_condition(
        &observed,
        &expect![
            "True AllResourceClaimsExist: no ResourceClaim belongs to this object itself; the objects that it controls report no problem"
        ],
    );
    change(&mut observed, "m-0-g-0-p", |clique| {
        let conditions = json!([{ "type": "ResourceClaimsCreated", "status": "False", "message": "prod/t",
            "reason": "ResourceClaimTemplateNotFound", "lastTransitionTime": "2026-01-01T00:00:00Z" }]);
        clique.status = serde_json::from_value(json!({ "conditions": conditions })).ok();
    });
    check_condition(
        &observed,
        &expect!["False ResourceClaimTemplateNotFound: 0 of 0 ResourceClaims exist; PodClique m-0-g-0-p: prod/t"],
    );
}
