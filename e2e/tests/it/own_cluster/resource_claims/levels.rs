//! Claims of all levels and both scopes, with templates within the set, beside it, and in another namespace.

use serde_json::Value;

use super::*;

const SET: &str = "share";
const TEMPLATES: &str = "e2e-claims-templates";
/// The claims of the pods of each clique, in the order of the pods' references.
const FRONT: &str = "share-all-inner share-{set}-distant share-{set}-second share-{set}-front-all-inner \
                     share-{set}-front-all-far share-{set}-front-{index}-outer";
const LEAD: &str = "share-all-inner share-all-far share-{set}-outer share-{set}-g-{group}-outer \
                    share-{set}-g-{group}-distant share-{set}-g-{group}-lead-{index}-distant";
const WORK: &str = "share-all-inner share-all-far share-{set}-outer share-{set}-g-all-inner share-{set}-g-{group}-outer \
                    share-{set}-g-{group}-work-all-second";

/// The set has claims with and without each kind of filter, and at each level claims of both scopes. Its templates are within the set (`inner`,
/// `second`), in its namespace (`outer`), and in another namespace (`distant`, `far`). Its pods also have a claim of their own.
fn set_of_all_levels() -> String {
    let own = "resourceClaims: [{name: mine, resourceClaimTemplateName: outer}], initContainers: [{name: prepare, image: \
               registry.k8s.io/pause:3.10}], ";
    let distant = format!("name: distant, namespace: {TEMPLATES}, scope: PerReplica");
    let far = format!("name: far, namespace: {TEMPLATES}, scope: AllReplicas");
    let front = format!(
        "resourceSharing: [{{name: outer, scope: PerReplica}}, {{name: inner, scope: AllReplicas}}, {{{far}}}], "
    );
    let lead = format!("resourceSharing: [{{{distant}}}], ");
    let work = "resourceSharing: [{name: second, scope: AllReplicas}], ";
    let templates = internal_templates("inner");
    format!(
        "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {{name: {SET}}}
spec:
  replicas: 1
  template:
    resourceClaimTemplates: [{templates}]
    resourceSharing:
    - {{name: inner, scope: AllReplicas}}
    - {{name: outer, scope: PerReplica, filter: {{childScalingGroupNames: [g]}}}}
    - {{{distant}, filter: {{childCliqueNames: [front]}}}}
    - {{name: second, scope: PerReplica, filter: {{childCliqueNames: [front]}}}}
    - {{{far}, filter: {{childScalingGroupNames: [g]}}}}
    cliques:
    - {}
    - {}
    - {}
    podCliqueScalingGroups:
    - name: g
      cliqueNames: [lead, work]
      replicas: 2
      minAvailable: 1
      resourceSharing:
      - {{name: inner, scope: AllReplicas, filter: {{childCliqueNames: [work]}}}}
      - {{name: outer, scope: PerReplica}}
      - {{{distant}, filter: {{childCliqueNames: [lead]}}}}
",
        clique("front", 1, &front, own),
        clique("lead", 1, &lead, ""),
        clique("work", 2, work, own)
    )
}

/// The templates within the set. The claims of the first one get this label.
fn internal_templates(team: &str) -> String {
    let inner = template("inner").replace("templateSpec: {", &format!("templateSpec: {{{}, ", metadata(team)));
    [inner, template("second")].join(", ")
}

/// The metadata of a template. Grove sets the second label itself.
fn metadata(team: &str) -> String {
    format!(
        "metadata: {{labels: {{team: {team}, app.kubernetes.io/part-of: other}}, annotations: {{note: of {team}}}}}"
    )
}

/// The claims of each pod. `sizes` has for each replica of the set the pods of `front` and the replicas of `g`.
fn expected(sizes: &[(usize, usize)]) -> BTreeMap<String, Vec<String>> {
    let mut pods = BTreeMap::new();
    for (set, (fronts, groups)) in sizes.iter().enumerate() {
        let mut add = |clique: String, claims: &str, group: usize, count: usize| {
            for index in 0..count {
                let names = claims.replace("{set}", &set.to_string()).replace("{group}", &group.to_string());
                let names = names.replace("{index}", &index.to_string());
                pods.insert(format!("{clique}/{index}"), names.split(' ').map(str::to_owned).collect());
            }
        };
        add(format!("{SET}-{set}-front"), FRONT, 0, *fronts);
        for group in 0..*groups {
            add(format!("{SET}-{set}-g-{group}-lead"), LEAD, group, 1);
            add(format!("{SET}-{set}-g-{group}-work"), WORK, group, 2);
        }
    }
    pods
}

/// Waits until exactly these pods are ready and exactly their claims exist, and checks the references.
async fn wait_for_sizes(fixture: &Fixture, sizes: &[(usize, usize)]) -> Vec<ResourceClaim> {
    let expected = expected(sizes);
    let state = fixture.ns.wait_for_ready_pods(SET, expected.len()).await;
    assert_eq!(claims_by_pod(state.pods_of(SET)), expected);
    state.cliques.values().for_each(only_the_claim_of_the_user_is_in_the_clique);
    state.pods_of(SET).for_each(each_container_has_all_claims);
    let names: Vec<_> = expected.into_values().flatten().collect();
    let claims = fixture.wait_for_claims(SET, &names).await;
    assert_allocated(&claims, state.pods_of(SET), 1);
    claims
}

/// Shared claims are in pods only.
fn only_the_claim_of_the_user_is_in_the_clique(clique: &PodClique) {
    let pod_spec = json!(clique)["spec"]["podSpec"].clone();
    let entries = pod_spec["resourceClaims"].as_array().cloned().unwrap_or_default();
    assert!(entries.iter().all(|entry| entry["name"] == "mine"), "{}: {pod_spec}", clique.name_any());
    let containers = pod_spec["containers"].as_array().cloned().unwrap_or_default();
    assert!(containers.iter().all(|container| container["resources"]["claims"].is_null()), "{pod_spec}");
}

/// Containers and init containers refer to each entry of the pod, in the order of the entries.
fn each_container_has_all_claims(pod: &Pod) {
    let spec = pod.spec.clone().unwrap_or_default();
    let entries: Vec<_> = spec.resource_claims.into_iter().flatten().map(|claim| claim.name).collect();
    let has_own_claim = entries.iter().any(|name| name == "mine");
    assert_eq!(has_own_claim, !pod_key(pod).contains("lead"), "{}: {entries:?}", pod.name_any());
    let shared: Vec<_> = entries.into_iter().filter(|name| name != "mine").collect();
    for container in spec.containers.iter().chain(spec.init_containers.iter().flatten()) {
        let claims = container.resources.clone().unwrap_or_default().claims.unwrap_or_default();
        let names: Vec<_> = claims.into_iter().map(|claim| claim.name).collect();
        assert_eq!(names, shared, "container {} of {}", container.name, pod.name_any());
    }
}

pub(super) async fn claims_of_each_level_and_scope(cluster: &TestCluster) {
    let fixture = Fixture::create(cluster, "e2e-claims-levels").await;
    let templates = Fixture::create(cluster, TEMPLATES).await;
    create_templates(&fixture, &templates).await;
    fixture.ns.create_yaml::<PodCliqueSet>(&set_of_all_levels()).await;
    let first = wait_for_sizes(&fixture, &[(1, 2)]).await;
    are_as_specified(&fixture, &first).await;
    fixture.ns.wait_for_condition(SET, CONDITION, "AllResourceClaimsExist", "").await;
    the_metrics_count(cluster, &first).await;
    let last = scale_each_level(&fixture).await;
    for stays in
        ["share-all-inner", "share-0-distant", "share-0-g-all-inner", "share-0-g-0-outer", "share-0-front-0-outer"]
    {
        assert_eq!(uid_of(&first, stays), uid_of(&last, stays), "{stays}");
    }
    fixture.delete_last_set(SET).await;
    fixture.check_lifetime().await;
}

/// Creates the external templates.
async fn create_templates(fixture: &Fixture, other: &Fixture) {
    for name in ["distant", "far"] {
        other.create_template(name, 1).await;
    }
    let spec = format!("spec: {{devices: {{requests: [{}]}}}}", request(1));
    let outer = format!("{{metadata: {{name: outer}}, spec: {{{}, {spec}}}}}", metadata("outer"));
    fixture.ns.create_yaml::<ResourceClaimTemplate>(&outer).await;
}

/// Both services count these claims, and those of other sets.
async fn the_metrics_count(cluster: &TestCluster, claims: &[ResourceClaim]) {
    for (service, level, kind) in [
        ("pcs-controller", "set", "PodCliqueSet"),
        ("pcs-controller", "group", "PodCliqueScalingGroup"),
        ("pclq-controller", "clique", "PodClique"),
    ] {
        let is_of_level =
            |claim: &&ResourceClaim| controller_of(&claim.metadata).is_some_and(|owner| owner.kind == kind);
        let count = u32::try_from(claims.iter().filter(is_of_level).count()).expect("a small number");
        let sample = format!("grove_resource_claims{{level=\"{level}\"}}");
        let counted = metrics::scrape(cluster, service).await.get(&sample).copied();
        assert!(
            count > 0 && counted.is_some_and(|counted| counted >= f64::from(count)),
            "{sample}: {counted:?}, {count}"
        );
    }
}

/// Scales the group, the clique and the set, and returns the claims at the end.
async fn scale_each_level(fixture: &Fixture) -> Vec<ResourceClaim> {
    let group = "share-0-g";
    fixture.ns.scale::<PodCliqueScalingGroup>(group, 1).await;
    wait_for_sizes(fixture, &[(1, 1)]).await;
    fixture.ns.scale::<PodCliqueScalingGroup>(group, 3).await;
    wait_for_sizes(fixture, &[(1, 3)]).await;
    fixture.ns.scale::<PodClique>("share-0-front", 2).await;
    wait_for_sizes(fixture, &[(2, 3)]).await;
    new_claims_have_the_changed_metadata(fixture).await;
    fixture.ns.scale::<PodCliqueSet>(SET, 1).await;
    wait_for_sizes(fixture, &[(2, 3)]).await
}

/// The set is scaled out after a change of the metadata of a template. Existing claims and pods stay.
async fn new_claims_have_the_changed_metadata(fixture: &Fixture) {
    let before = pod_uids(fixture.ns.wait_for_ready_pods(SET, 11).await.pods_of(SET));
    let templates: Value = serde_saphyr::from_str(&format!("[{}]", internal_templates("later"))).expect("templates");
    let template = json!({ "spec": { "template": { "resourceClaimTemplates": templates } } });
    fixture.ns.patch::<PodCliqueSet>(SET, template).await;
    let is_updated = |state: &NamespaceState| {
        state.cliques["share-0-front"].annotations().get(RESOURCE_CLAIMS).is_some_and(|claims| claims.contains("later"))
    };
    fixture.ns.wait_for("the clique has the changed template", is_updated).await;
    fixture.ns.scale::<PodCliqueSet>(SET, 2).await;
    let claims = wait_for_sizes(fixture, &[(2, 3), (1, 2)]).await;
    for (name, team) in [
        ("share-all-inner", "inner"),
        ("share-0-g-all-inner", "inner"),
        ("share-1-g-all-inner", "later"),
        ("share-0-front-all-inner", "inner"),
        ("share-1-front-all-inner", "later"),
    ] {
        let claim = claims.iter().find(|claim| claim.name_any() == name).expect("the claim");
        assert_eq!(claim.labels()["team"], team, "{name}");
    }
    let after = fixture.ns.wait_for_ready_pods(SET, 18).await;
    let after = pod_uids(after.pods_of(SET));
    assert!(before.iter().all(|(pod, uid)| after.get(pod) == Some(uid)), "{before:?} {after:?}");
}

/// Owners, labels, annotations and specs of one claim per level and scope.
async fn are_as_specified(fixture: &Fixture, claims: &[ResourceClaim]) {
    let group = json!({ "grove.io/podcliquescalinggroup": "share-0-g" });
    let clique = json!({ "grove.io/podclique": "share-0-front" });
    for (name, owner, labels) in [
        ("share-all-inner", "PodCliqueSet share", vec![]),
        ("share-0-outer", "PodCliqueSet share", vec![json!({ "grove.io/podcliqueset-replica-index": "0" })]),
        ("share-0-g-all-inner", "PodCliqueScalingGroup share-0-g", vec![group.clone()]),
        (
            "share-0-g-1-outer",
            "PodCliqueScalingGroup share-0-g",
            vec![group, json!({ "grove.io/podcliquescalinggroup-replica-index": "1" })],
        ),
        ("share-0-front-all-inner", "PodClique share-0-front", vec![clique.clone()]),
        (
            "share-0-front-0-outer",
            "PodClique share-0-front",
            vec![clique, json!({ "grove.io/podclique-pod-index": "0" })],
        ),
    ] {
        let claim = claims.iter().find(|claim| claim.name_any() == name).expect("the claim");
        let owners: Vec<_> =
            claim.owner_references().iter().map(|owner| format!("{} {}", owner.kind, owner.name)).collect();
        assert_eq!(owners, [owner], "{name}");
        let template = if name.ends_with("outer") { "outer" } else { "inner" };
        let mut expected = json!({ "team": template, "app.kubernetes.io/component": "resource-claim", "app.kubernetes.io/managed-by": "grove-operator",
            "app.kubernetes.io/part-of": SET });
        for labels in labels {
            let labels = labels.as_object().cloned().unwrap_or_default();
            expected.as_object_mut().expect("labels").extend(labels);
        }
        assert_eq!(json!(claim.labels()), expected, "{name}");
        assert_eq!(claim.annotations().get("note"), Some(&format!("of {template}")), "{name}");
    }
    let outer = fixture.ns.api::<ResourceClaimTemplate>().get("outer").await.expect("the template");
    let claim = claims.iter().find(|claim| claim.name_any() == "share-0-outer").expect("the claim");
    assert_eq!(json!(claim.spec), json!(outer)["spec"]["spec"]);
}
