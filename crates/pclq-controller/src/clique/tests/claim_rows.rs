//! The claims of a clique in a row of a table.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use grove_api_types::labels;
use grove_api_types::names::ResourceClaimName;
use grove_api_types::resource_claim::{ClaimTemplate, ResourceClaim};
use grove_api_types::resource_sharing::clique_claims::CliqueClaim;
use grove_controller::children::ObservedChildren;
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::expectations::{ChildKey, PendingCreates};
use grove_controller::group_kind::group_kind_of;
use grove_controller::name_conflict::NameConflict;
use grove_controller::plan::Target;
use grove_controller::resource_claims::TemplateReadErrors;
use grove_runtime::api_error::ApiError;
use grove_runtime::caches::Availability;
use serde_json::{Value, json};

use super::NAME;
use crate::claims::{ObservedClaims, OwnClaim, ReferenceState, ReferencedClaim, TemplateState};

/// The claims that a row describes. Keys: `own`, the claims in the annotation: `{t, per, field, ns, template}`, the name of the
/// template, whether each pod has its own claim, and the state of the template (`NotFound` or a message; read if absent);
/// `references`: `{name, state}`; `existing`: `{name, labels, orphan, terminating, allocated, owner}`, claims of the clique, or objects of
/// another owner; `retired`, `pending` and `rejected`, names of claims; `invalid`; `availability`.
pub(super) fn observed(row: &Value) -> ObservedClaims {
    let list = |key: &str| row[key].as_array().cloned().unwrap_or_default();
    let names =
        |key: &str| -> Vec<String> { list(key).iter().filter_map(|name| Some(name.as_str()?.to_owned())).collect() };
    let (children, conflicts): (Vec<_>, Vec<_>) =
        list("existing").iter().map(claim).partition(|claim| owner(claim).as_deref() == Some("clique-uid"));
    let mut owned = ObservedChildren::default();
    owned.extend(children);
    let kind = group_kind_of::<ResourceClaim>();
    let pending = names("pending").into_iter().map(|name| ChildKey { kind: kind.clone(), name }).collect();
    ObservedClaims {
        invalid: row["invalid"].as_str().map(str::to_owned),
        availability: match row["availability"].as_str() {
            Some("NotServed") => Availability::NotServed,
            Some("Forbidden") => Availability::Forbidden,
            _ => Availability::Served,
        },
        references: list("references").iter().map(reference).collect(),
        own: list("own").iter().map(own).collect(),
        children: owned,
        name_conflicts: conflicts.iter().map(|claim| NameConflict::with(&**claim)).collect(),
        backed_off: backed_off(&names("rejected")),
        pending_creates: PendingCreates { children: pending },
        retired: names("retired").iter().map(|name| format!("{NAME}-{name}")).collect(),
        created: BTreeSet::new(),
        read_errors: TemplateReadErrors::default(),
    }
}

fn owner(claim: &ResourceClaim) -> Option<String> {
    Some(claim.metadata.owner_references.as_ref()?.first()?.uid.clone())
}

fn own(row: &Value) -> OwnClaim {
    let scope = if row["per"] == json!(true) { "PerReplica" } else { "AllReplicas" };
    let claim = json!({ "template": row["t"], "namespace": row["ns"], "scope": scope, "field": row["field"].as_str().unwrap_or("f") });
    let claim: CliqueClaim = serde_json::from_value(claim).expect("a claim");
    let template = match row["template"].as_str() {
        None => TemplateState::Read(ClaimTemplate {
            labels: labels::of([("team", "x"), ("app.kubernetes.io/part-of", "overwritten")]),
            annotations: labels::of([("note", "n")]),
            spec: json!({ "devices": { "requests": [{ "name": "gpu" }] } }).as_object().cloned().unwrap_or_default(),
        }),
        Some("NotFound") => TemplateState::NotFound,
        Some(reason) => TemplateState::Failed(reason.to_owned()),
    };
    OwnClaim { claim, template }
}

fn reference(row: &Value) -> ReferencedClaim {
    let state = match row["state"].as_str() {
        Some("NotFound") => ReferenceState::NotFound,
        Some("Terminating") => ReferenceState::Terminating,
        Some("NotControlled") => ReferenceState::NotControlled,
        _ => ReferenceState::Usable,
    };
    ReferencedClaim { name: ResourceClaimName::new(row["name"].as_str().expect("a name")), state }
}

/// A claim; its name is `<clique>-<name>` and its uid `uid-<name>`. Its index is the first part of the name.
fn claim(row: &Value) -> Arc<ResourceClaim> {
    let name = row["name"].as_str().expect("a name");
    let owner = row["owner"].as_str().unwrap_or("clique-uid");
    let mut object = json!({
        "metadata": {
            "name": format!("{NAME}-{name}"), "namespace": "prod", "uid": format!("uid-{name}"), "resourceVersion": "3",
            "labels": {
                "app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "llm",
                "app.kubernetes.io/component": "resource-claim", "grove.io/podclique": NAME, "team": "x",
            },
            "ownerReferences": [{ "apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "name": row["ownerName"].as_str().unwrap_or(NAME),
                "uid": owner, "controller": true, "blockOwnerDeletion": true }],
        },
    });
    if let Some(index) = name.split('-').next().filter(|index| *index != "all") {
        object["metadata"]["labels"]["grove.io/podclique-pod-index"] = json!(index);
    }
    json_patch::merge(&mut object["metadata"]["labels"], row.get("labels").unwrap_or(&json!({})));
    if row["orphan"] == json!(true) {
        object["metadata"]["ownerReferences"] = json!([]);
    }
    if row["terminating"] == json!(true) {
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:01:00Z");
    }
    if row["allocated"] == json!(true) {
        object["metadata"]["finalizers"] = json!(["resource.kubernetes.io/delete-protection"]);
    }
    Arc::new(serde_json::from_value(object).expect("a claim"))
}

fn backed_off(names: &[String]) -> BackedOffCreates {
    let rejected = |name: &String| {
        let target = Target::of(&*claim(&json!({ "name": name })));
        let message =
            format!("resourceclaims.resource.k8s.io \"{}\" is forbidden: exceeded quota: claims", target.name);
        (target, ApiError::new(403, "Forbidden", message))
    };
    let retry_after = (!names.is_empty()).then_some(Duration::from_secs(8));
    BackedOffCreates { children: names.iter().map(rejected).collect(), retry_after, ..BackedOffCreates::default() }
}
