//! The claims of each level, the annotation of cliques, the content of claims, and the references in pods.

use std::collections::BTreeMap;

use expect_test::{Expect, expect};
use grove_api_types::labels::RESOURCE_CLAIMS;
use grove_api_types::names::{
    ClaimOwner, PodCliqueName, PodCliqueScalingGroupName, PodCliqueSetName, ResourceClaimName,
};
use grove_api_types::pod_spec::RawPodSpec;
use grove_api_types::resource_claim::{ClaimTemplate, ResourceClaim, ResourceClaimTemplate, SharingLevel};
use grove_api_types::resource_sharing::claim::{claim_labels, claim_metadata, drift, resource_claim};
use grove_api_types::resource_sharing::claim_source::{
    ExternalTemplate, shares_claims, sources_of_group, sources_of_set,
};
use grove_api_types::resource_sharing::clique_claims::CliqueClaims;
use grove_api_types::resource_sharing::pod_claims::inject;
use grove_api_types::v1alpha1::PodCliqueSet;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const SET: &str = "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: s, namespace: prod, uid: u-set}
spec:
  replicas: 2
  template:
    resourceClaimTemplates:
    - name: inner
      templateSpec:
        metadata: {labels: {team: x}}
        spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu, later: 1}}]}}
    resourceSharing:
    - {name: inner, scope: PerReplica}
    - {name: all, namespace: other, scope: AllReplicas}
    - {name: for-f, scope: AllReplicas, filter: {childCliqueNames: [f]}}
    - {name: for-g, scope: PerReplica, filter: {childScalingGroupNames: [g]}}
    - {name: for-p, scope: AllReplicas, filter: {childCliqueNames: [p]}}
    cliques:
    - {name: f, resourceSharing: [{name: own, scope: PerReplica}], resourceClaimTemplateNames: [inner], spec: {podSpec: {}}}
    - {name: p, resourceSharing: [{name: inner, scope: AllReplicas}], spec: {podSpec: {}}}
    - {name: d, spec: {podSpec: {}}}
    podCliqueScalingGroups:
    - name: g
      cliqueNames: [p, d]
      resourceSharing: [{name: shared, scope: PerReplica}, {name: inner, scope: AllReplicas}]
      resourceClaimTemplateConfigs: [{names: [of-d], cliqueNames: [d]}]
";

fn yaml<K: DeserializeOwned>(text: &str) -> K {
    let value: Value = serde_saphyr::from_str(text).expect("YAML");
    serde_json::from_value(value).expect("an object of the kind")
}

/// The annotation of a clique in replica 1 of the set and in replica 2 of its group.
fn claims_of(set: &PodCliqueSet, clique: &str) -> Option<CliqueClaims> {
    let template = &set.spec.template;
    let clique = template.cliques.iter().find(|other| other.name == clique).expect("a clique");
    let mut groups = template.pod_clique_scaling_groups.iter();
    let group = groups.find(|group| group.clique_names.contains(&clique.name)).map(|group| (group, 2));
    CliqueClaims::of_clique(set, 1, group, clique)
}

#[track_caller]
fn check(clique: &str, expected: &Expect) {
    let claims = claims_of(&yaml(SET), clique).expect("claims");
    expected.assert_eq(&claims.annotation());
}

#[test]
fn a_standalone_clique_has_the_claims_of_the_set_that_apply_to_it_and_its_own() {
    check(
        "f",
        &expect![[
            r#"{"v":1,"references":["s-all-all","s-all-for-f","s-1-inner"],"claims":[{"template":"inner","scope":"AllReplicas","field":"spec.template.cliques[0].resourceClaimTemplateNames[0]"},{"template":"own","scope":"PerReplica","field":"spec.template.cliques[0].resourceSharing[0].name"}]}"#
        ]],
    );
}

#[test]
fn a_clique_of_a_group_has_the_claims_of_all_three_levels_in_the_order_of_the_levels() {
    check(
        "p",
        &expect![[
            r#"{"v":1,"setUid":"u-set","references":["s-all-all","s-all-for-p","s-1-inner","s-1-for-g","s-1-g-all-inner","s-1-g-2-shared"],"claims":[{"template":"inner","scope":"AllReplicas","field":"spec.template.cliques[1].resourceSharing[0].name","templateSpec":{"metadata":{"labels":{"team":"x"}},"spec":{"devices":{"requests":[{"exactly":{"deviceClassName":"gpu","later":1},"name":"gpu"}]}}}}]}"#
        ]],
    );
    check(
        "d",
        &expect![[
            r#"{"v":1,"setUid":"u-set","references":["s-all-all","s-1-inner","s-1-for-g","s-1-g-all-inner","s-1-g-2-shared","s-1-g-2-of-d"]}"#
        ]],
    );
}

#[test]
fn without_clique_names_the_short_form_concerns_all_cliques_of_the_group() {
    let mut set: PodCliqueSet = yaml(SET);
    let names = |set: &PodCliqueSet, clique: &str| {
        let references = claims_of(set, clique).expect("claims").references;
        references.iter().filter(|name| name.as_str().ends_with("-of-d")).count()
    };
    assert_eq!(["f", "p", "d"].map(|clique| names(&set, clique)), [0, 0, 1]);
    set.spec.template.pod_clique_scaling_groups[0].resource_claim_template_configs[0].clique_names.clear();
    assert_eq!(["f", "p", "d"].map(|clique| names(&set, clique)), [0, 1, 1]);
}

#[test]
fn a_set_without_sharing_has_no_claims() {
    let mut set: PodCliqueSet = yaml(SET);
    assert!(shares_claims(&set.spec.template));
    set.spec.template.resource_sharing.clear();
    assert_eq!(claims_of(&set, "d").expect("of the group").references.len(), 3);
    set.spec.template.pod_clique_scaling_groups[0].resource_sharing.clear();
    set.spec.template.pod_clique_scaling_groups[0].resource_claim_template_configs.clear();
    assert_eq!(claims_of(&set, "d"), None);
    assert!(shares_claims(&set.spec.template), "cliques share claims");
    for clique in &mut set.spec.template.cliques {
        clique.resource_sharing.clear();
        clique.resource_claim_template_names.clear();
    }
    assert_eq!((shares_claims(&set.spec.template), claims_of(&set, "f"), claims_of(&set, "p")), (false, None, None));
}

#[test]
fn the_annotation_round_trips_and_a_broken_one_is_an_error() {
    let claims = claims_of(&yaml(SET), "p").expect("claims");
    let read =
        |text: &str| CliqueClaims::from_annotations(&BTreeMap::from([(RESOURCE_CLAIMS.to_owned(), text.to_owned())]));
    assert!(claims.annotation().starts_with(r#"{"v":1,"#), "{}", claims.annotation());
    assert_eq!(read(&claims.annotation().replace(r#""v":1,"#, "")), Ok(Some(claims.clone())), "of an older writer");
    assert_eq!(read(&claims.annotation()), Ok(Some(claims)));
    assert_eq!(CliqueClaims::from_annotations(&BTreeMap::new()), Ok(None));
    assert_eq!(read("{}"), Ok(Some(CliqueClaims::default())));
    let unknown_scope = r#"{"claims":[{"template":"gpus","scope":"PerRack"}]}"#;
    for text in ["", "[", "[]", "{\"references\":7}", "{\"claims\":[{}]}", unknown_scope] {
        let error = read(text).expect_err(text).message("pclq-controller");
        assert!(error.starts_with("annotation grove.io/resource-claims cannot be decoded: "), "{error}");
    }
    assert!(read(r#"{"v":2,"claims":[]}"#).expect_err("a later version").is_of_later_version());
}

#[test]
fn claims_are_named_by_owner_and_replica() {
    let set: PodCliqueSet = yaml(SET);
    let template = &set.spec.template;
    let (set_name, group) = (PodCliqueSetName::new("s"), PodCliqueScalingGroupName::new("s-0-g"));
    let of_set = sources_of_set(template);
    let of_group = sources_of_group(template, &template.pod_clique_scaling_groups[0]);
    let lines = |sources: &[grove_api_types::resource_sharing::claim_source::ClaimSource<'_>],
                 owner: ClaimOwner<'_>| {
        let claims = sources.iter().flat_map(|source| {
            source
                .claims(owner, 2)
                .map(|(replica, name)| format!("{name} {replica:?} {}\n", source.field))
                .collect::<Vec<_>>()
        });
        claims.collect::<String>()
    };
    expect![[r"
        s-0-inner Some(0) spec.template.resourceSharing[0].name
        s-1-inner Some(1) spec.template.resourceSharing[0].name
        s-all-all None spec.template.resourceSharing[1].name
        s-all-for-f None spec.template.resourceSharing[2].name
        s-0-for-g Some(0) spec.template.resourceSharing[3].name
        s-1-for-g Some(1) spec.template.resourceSharing[3].name
        s-all-for-p None spec.template.resourceSharing[4].name
    "]]
    .assert_eq(&lines(&of_set, ClaimOwner::Set(&set_name)));
    expect![[r"
        s-0-g-0-shared Some(0) spec.template.podCliqueScalingGroups[0].resourceSharing[0].name
        s-0-g-1-shared Some(1) spec.template.podCliqueScalingGroups[0].resourceSharing[0].name
        s-0-g-all-inner None spec.template.podCliqueScalingGroups[0].resourceSharing[1].name
        s-0-g-0-of-d Some(0) spec.template.podCliqueScalingGroups[0].resourceClaimTemplateConfigs[0].names[0]
        s-0-g-1-of-d Some(1) spec.template.podCliqueScalingGroups[0].resourceClaimTemplateConfigs[0].names[0]
    "]]
    .assert_eq(&lines(&of_group, ClaimOwner::Group(&group)));
}

#[test]
fn only_the_first_of_two_claims_with_the_same_name_counts() {
    let mut set: PodCliqueSet = yaml(SET);
    let template = &mut set.spec.template;
    let again = template.resource_sharing[1].clone();
    template.resource_sharing.push(again);
    assert_eq!(sources_of_set(template).len(), 5);
}

#[test]
fn a_template_with_an_invalid_name_cannot_exist() {
    for (namespace, name, is_valid) in [
        (None, "a.b", true),
        (Some("prod"), "a", true),
        (None, "", false),
        (None, "../secrets/x", false),
        (Some("a/b"), "a", false),
        (Some(""), "a", false),
    ] {
        assert_eq!(ExternalTemplate { namespace, name }.is_valid(), is_valid, "{namespace:?} {name}");
    }
}

#[test]
fn a_claim_has_the_spec_and_the_metadata_of_its_template_and_the_labels_of_grove_win() {
    let template: ResourceClaimTemplate = yaml(
        "
metadata: {name: t, labels: {of: template}}
spec:
  metadata:
    labels: {team: x, app.kubernetes.io/part-of: mine, grove.io/podclique: mine, app.kubernetes.io/name: of-template}
    annotations: {note: copied, grove.io/note: dropped, kubectl.kubernetes.io/last-applied-configuration: '{}'}
    finalizers: [f]
  spec: {devices: {requests: [{name: gpu}]}, later: {field: [1, null]}}
",
    );
    let (set, owner): (_, PodCliqueSet) = (PodCliqueSetName::new("s"), yaml(SET));
    let name = ResourceClaimName::new("s-1-t");
    let labels = claim_labels(&set, ClaimOwner::Set(&set), Some(1));
    let claim = resource_claim(claim_metadata(&owner, &name, labels), &ClaimTemplate::from(&template));
    expect![[r#"{"metadata":{"annotations":{"note":"copied"},"labels":{"app.kubernetes.io/component":"resource-claim","app.kubernetes.io/managed-by":"grove-operator","app.kubernetes.io/name":"of-template","app.kubernetes.io/part-of":"s","grove.io/podcliqueset-replica-index":"1","team":"x"},"name":"s-1-t","namespace":"prod","ownerReferences":[{"apiVersion":"grove.io/v1alpha1","blockOwnerDeletion":true,"controller":true,"kind":"PodCliqueSet","name":"s","uid":"u-set"}]},"spec":{"devices":{"requests":[{"name":"gpu"}]},"later":{"field":[1,null]}}}"#]]
    .assert_eq(&serde_json::to_string(&claim).expect("JSON"));
    assert_eq!(drift(&claim, &claim.metadata), None);
}

#[test]
fn the_labels_of_a_claim_show_its_level_and_replica() {
    let set = PodCliqueSetName::new("s");
    let (group, clique) = (PodCliqueScalingGroupName::new("s-0-g"), PodCliqueName::new("s-0-f"));
    let mut text = String::new();
    for (owner, level) in [
        (ClaimOwner::Set(&set), SharingLevel::Set),
        (ClaimOwner::Group(&group), SharingLevel::Group),
        (ClaimOwner::Clique(&clique), SharingLevel::Clique),
    ] {
        for replica in [None, Some(3)] {
            let mut claim = ResourceClaim::default();
            claim.metadata.labels = Some(claim_labels(&set, owner, replica));
            assert_eq!(claim.level(), Some(level));
            let own = claim.metadata.labels.iter().flatten().filter(|(key, _)| key.starts_with("grove.io/"));
            let own: Vec<_> = own.map(|(key, value)| format!("{key}={value}")).collect();
            text += format!("{} {replica:?}: {}", level.as_str(), own.join(" ")).trim_end();
            text.push('\n');
        }
    }
    expect![[r"
        set None:
        set Some(3): grove.io/podcliqueset-replica-index=3
        group None: grove.io/podcliquescalinggroup=s-0-g
        group Some(3): grove.io/podcliquescalinggroup=s-0-g grove.io/podcliquescalinggroup-replica-index=3
        clique None: grove.io/podclique=s-0-f
        clique Some(3): grove.io/podclique=s-0-f grove.io/podclique-pod-index=3
    "]]
    .assert_eq(&text);
    assert_eq!(ResourceClaim::default().level(), None);
}

/// An edit of a claim by a user.
type Edit = fn(&mut ResourceClaim);

#[test]
fn lost_labels_and_a_lost_owner_reference_are_restored_and_nothing_else() {
    let (set, owner): (_, PodCliqueSet) = (PodCliqueSetName::new("s"), yaml(SET));
    let metadata =
        claim_metadata(&owner, &ResourceClaimName::new("s-all-t"), claim_labels(&set, ClaimOwner::Set(&set), None));
    let desired = resource_claim(metadata, &ClaimTemplate::default());
    let drift_after = |change: Edit| {
        let mut live = desired.clone();
        change(&mut live);
        drift(&live, &desired.metadata).unwrap_or_default().to_string()
    };
    let mut text = String::new();
    let changes: [(&str, Edit); 5] = [
        ("a foreign label", |live| {
            live.metadata.labels.get_or_insert_default().insert("team".to_owned(), "y".to_owned());
        }),
        ("a lost label", |live| {
            live.metadata.labels.get_or_insert_default().remove("app.kubernetes.io/component");
        }),
        ("an edited label", |live| {
            live.metadata.labels.get_or_insert_default().insert("app.kubernetes.io/part-of".to_owned(), "y".to_owned());
        }),
        ("no owner", |live| live.metadata.owner_references = None),
        ("a reference that is no controller, and one of another owner", |live| {
            let references = live.metadata.owner_references.get_or_insert_default();
            references[0].controller = None;
            let other = k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference {
                uid: "other".to_owned(),
                ..references[0].clone()
            };
            references.push(other);
        }),
    ];
    for (what, change) in changes {
        text.extend([what, ": ", &drift_after(change), "\n"]);
    }
    expect![[r#"
        a foreign label: null
        a lost label: {"metadata":{"labels":{"app.kubernetes.io/component":"resource-claim"}}}
        an edited label: {"metadata":{"labels":{"app.kubernetes.io/part-of":"s"}}}
        no owner: {"metadata":{"ownerReferences":[{"apiVersion":"grove.io/v1alpha1","blockOwnerDeletion":true,"controller":true,"kind":"PodCliqueSet","name":"s","uid":"u-set"}]}}
        a reference that is no controller, and one of another owner: {"metadata":{"ownerReferences":[{"apiVersion":"grove.io/v1alpha1","blockOwnerDeletion":true,"kind":"PodCliqueSet","name":"s","uid":"other"},{"apiVersion":"grove.io/v1alpha1","blockOwnerDeletion":true,"controller":true,"kind":"PodCliqueSet","name":"s","uid":"u-set"}]}}
    "#]].assert_eq(&text);
}

#[test]
fn a_cached_claim_has_no_spec_and_a_foreign_one_only_its_identity_and_owners() {
    let claim = |labels: Value| -> ResourceClaim {
        let metadata = json!({ "name": "c", "uid": "u", "labels": labels, "annotations": { "large": "x" },
            "finalizers": ["resource.kubernetes.io/delete-protection"] });
        let spec = json!({ "devices": {} });
        serde_json::from_value(json!({ "metadata": metadata, "spec": spec, "status": {} })).expect("a claim")
    };
    let own = claim(json!({ "app.kubernetes.io/managed-by": "grove-operator" }));
    assert!(own.is_allocated() && own.spec.is_none() && own.metadata.annotations.is_none());
    let foreign = claim(json!({ "app.kubernetes.io/managed-by": "Helm" }));
    assert_eq!((foreign.metadata.labels, foreign.metadata.finalizers), (None, None));
    assert_eq!(foreign.metadata.uid.as_deref(), Some("u"));
}

#[test]
fn every_container_refers_to_every_claim_beside_the_own_claims_of_the_pod() {
    let mut pod: RawPodSpec = yaml(
        "
resourceClaims: [{name: own, resourceClaimTemplateName: t}, {name: mnnvl-claim, resourceClaimTemplateName: s-0}]
containers:
- {name: a, resources: {limits: {cpu: 1}, claims: [{name: own, request: r}]}}
- {name: b}
- 7
initContainers: [{name: i, resources: null}]
",
    );
    let long = format!("s-all-{}", "x".repeat(80));
    let claims = ["s-all-t", long.as_str(), "s-0-a.b"].map(ResourceClaimName::new);
    inject(&mut pod, &claims);
    expect![[r#"{"containers":[{"name":"a","resources":{"claims":[{"name":"own","request":"r"},{"name":"s-all-t"},{"name":"s-all-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-e3cb2588"},{"name":"s-0-a-b-45df084d"}],"limits":{"cpu":1}}},{"name":"b","resources":{"claims":[{"name":"s-all-t"},{"name":"s-all-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-e3cb2588"},{"name":"s-0-a-b-45df084d"}]}},7],"initContainers":[{"name":"i","resources":{"claims":[{"name":"s-all-t"},{"name":"s-all-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-e3cb2588"},{"name":"s-0-a-b-45df084d"}]}}],"resourceClaims":[{"name":"own","resourceClaimTemplateName":"t"},{"name":"mnnvl-claim","resourceClaimTemplateName":"s-0"},{"name":"s-all-t","resourceClaimName":"s-all-t"},{"name":"s-all-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-e3cb2588","resourceClaimName":"s-all-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"},{"name":"s-0-a-b-45df084d","resourceClaimName":"s-0-a.b"}]}"#]].assert_eq(&serde_json::to_string(&pod).expect("JSON"));
    let once = pod.clone();
    inject(&mut pod, &[]);
    assert_eq!(pod, once);
}

#[test]
fn an_own_claim_with_the_name_of_a_shared_one_stays() {
    let text = "{resourceClaims: [{name: s-all-t, resourceClaimName: mine}], containers: [{name: a}]}";
    let (mut pod, before): (RawPodSpec, RawPodSpec) = (yaml(text), yaml(text));
    inject(&mut pod, &[ResourceClaimName::new("s-all-t")]);
    assert_eq!(pod, before);
}
