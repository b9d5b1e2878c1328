//! A tenant whose set refers to very many claim templates that do not exist.

use e2e::Namespace;
use grove_api_types::resource_sharing::MAX_REFERENCES;
use grove_api_types::v1alpha1::PodCliqueSet;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

const SET: &str = "hostile";
/// The scaling groups of the set, each with one clique. Admission limits the references of each clique and group.
const GROUPS: usize = 30;

/// The references of the set.
pub(super) const fn references() -> usize {
    2 * GROUPS * MAX_REFERENCES
}

/// Creates the set, and waits until its groups report a missing template.
pub(super) async fn create(ns: &Namespace) {
    let names = || (0..GROUPS).map(|at| format!("c{at}"));
    let sharing = |owner: &str| -> Vec<Value> {
        (0..MAX_REFERENCES).map(|at| json!({ "name": format!("{owner}-{at}"), "scope": "AllReplicas" })).collect()
    };
    let clique = |name: String| {
        let pod_spec = json!({ "containers": [{ "name": "main", "image": "pause" }] });
        json!({ "name": name, "resourceSharing": sharing(&name), "spec": { "roleName": name, "replicas": 1, "podSpec": pod_spec } })
    };
    let group = |name: String| {
        let (group, sharing) = (format!("g-{name}"), sharing(&format!("g-{name}")));
        json!({ "name": group, "cliqueNames": [name], "resourceSharing": sharing })
    };
    let template = json!({ "cliques": names().map(clique).collect::<Vec<_>>(),
        "podCliqueScalingGroups": names().map(group).collect::<Vec<_>>() });
    let set = json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": { "name": SET },
        "spec": { "replicas": 1, "template": template } });
    ns.create_yaml::<PodCliqueSet>(&set.to_string()).await;
    ns.wait_for("each group reports a missing template", |state| {
        let (type_, reason) = ("ResourceClaimsCreated", "ResourceClaimTemplateNotFound");
        state.groups.keys().filter(|group| state.has_condition(group, type_, reason, "")).count() == GROUPS
    })
    .await;
}

/// Annotates the set, so that the set and all its groups are reconciled.
pub(super) async fn annotate(ns: &Namespace, round: usize) {
    let change = Patch::Merge(json!({ "metadata": { "annotations": { "round": round.to_string() } } }));
    ns.api::<PodCliqueSet>().patch(SET, &PatchParams::default(), &change).await.expect("the set is annotated");
}
