//! Admits or denies a request: calls the pure rules of `grove_api_types::admission` with the facts about the cluster.

use std::collections::BTreeMap;

use grove_api_types::admission::{
    self, Attributes, ParentSet, ScaleTarget, TopologyFacts, ValidationResult, Violation, authorize,
    default_cluster_topology, default_pod_clique_set, validate_cluster_topology_create,
    validate_cluster_topology_update, validate_create, validate_scale, validate_topology_binding_create,
    validate_topology_binding_update, validate_topology_delete, validate_update,
};
use grove_api_types::field_error::ErrorType;
use grove_api_types::labels::{PART_OF, PROTECTION_DISABLED};
use grove_api_types::resource_sharing::template_access;
use grove_api_types::v1alpha1::{ClusterTopology, ClusterTopologyBinding, PodCliqueSet};
use grove_runtime::object_decoding::decode_from;
use kube::core::admission::Operation;
use kube::core::response::StatusCause;
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cache_transform::TransformedObject;
use crate::cluster_facts::ClusterFacts;
use crate::missing_object::MissingObject;
use crate::review::{AdmissionRequest, AdmissionResponse};
use crate::webhook::Webhook;

/// The response of `webhook`, from the current state of the caches.
pub(crate) fn admit(webhook: Webhook, request: &AdmissionRequest, cluster: &ClusterFacts) -> AdmissionResponse {
    let response = match webhook {
        Webhook::DefaultSet => default_set(request, cluster),
        Webhook::ValidateSet => validate_set(request, cluster),
        Webhook::DefaultTopology => default_topology(request),
        Webhook::ValidateTopology => validate_topology(request, cluster),
        Webhook::ValidateTemplates => validate_templates(request, cluster),
        Webhook::ValidateScale => Ok(validate_new_scale(request, cluster)),
        Webhook::Authorize => Ok(authorize_change(request, cluster)),
    };
    response.unwrap_or_else(AdmissionResponse::bad_request)
}

fn default_set(request: &AdmissionRequest, cluster: &ClusterFacts) -> Result<AdmissionResponse, String> {
    let object = required_object(request)?;
    let patch = default_pod_clique_set(object, request.old_object.as_ref(), &cluster.for_create());
    Ok(AdmissionResponse { patch, ..AdmissionResponse::default() })
}

fn validate_set(request: &AdmissionRequest, cluster: &ClusterFacts) -> Result<AdmissionResponse, String> {
    let set: PodCliqueSet = parse(required_object(request)?)?;
    // If the stored object cannot be parsed, the update counts as a create. Otherwise no update could repair it.
    let old = request.old_object.as_ref().and_then(|old| parse::<PodCliqueSet>(old).ok());
    let result = match old {
        None => validate_create(&set, &cluster.for_create()),
        Some(old) => {
            let facts = cluster.for_update(&request.namespace, &request.name, &[&set, &old]);
            validate_update(&set, &old, &facts)
        }
    };
    let missing = MissingObject::of_violations(&result.violations, &cluster.caches);
    Ok(AdmissionResponse { missing, ..to_response(result) })
}

/// Collects the templates of other namespaces that a request adds to a set, or to the annotation of a `PodClique`. If the old object cannot be
/// parsed, all templates count as added.
fn validate_templates(request: &AdmissionRequest, cluster: &ClusterFacts) -> Result<AdmissionResponse, String> {
    let templates = |object: &Value| match request.kind.kind.as_str() {
        "PodClique" => template_access::of_clique(&parse(object)?),
        _ => Ok(template_access::of_set(&parse(object)?)),
    };
    let new = templates(required_object(request)?)?;
    if cluster.allows_all_templates {
        return Ok(AdmissionResponse::default());
    }
    let old = request.old_object.as_ref().and_then(|old| templates(old).ok()).unwrap_or_default();
    Ok(match template_access::added(new, &old) {
        Ok(templates) => AdmissionResponse { templates, ..AdmissionResponse::default() },
        Err(message) => AdmissionResponse::deny(message, vec![], vec![]),
    })
}

fn default_topology(request: &AdmissionRequest) -> Result<AdmissionResponse, String> {
    let patch = default_cluster_topology(required_object(request)?);
    Ok(AdmissionResponse { patch, ..AdmissionResponse::default() })
}

/// Validates both kinds of topology. The Go operator, too, has one webhook for both.
fn validate_topology(request: &AdmissionRequest, cluster: &ClusterFacts) -> Result<AdmissionResponse, String> {
    let facts = |other_kind| cluster.for_topology(&request.name, &request.user_info.username, other_kind);
    if request.operation == Operation::Delete {
        // A request to delete a collection has no name.
        let name = request.old_object.as_ref().and_then(|old| old.pointer("/metadata/name")?.as_str());
        return Ok(to_response(validate_topology_delete(name.unwrap_or(&request.name), &facts(None))));
    }
    if request.kind.kind == ClusterTopologyBinding::kind(&()) {
        let facts = facts(cluster.topology(&request.name));
        validate_levels(request, &facts, validate_topology_binding_create, validate_topology_binding_update)
    } else {
        let facts = facts(cluster.binding(&request.name));
        validate_levels::<ClusterTopology>(
            request,
            &facts,
            validate_cluster_topology_create,
            validate_cluster_topology_update,
        )
    }
}

fn validate_levels<K: Resource<DynamicType = ()> + DeserializeOwned>(
    request: &AdmissionRequest,
    facts: &TopologyFacts,
    create: fn(&K, &TopologyFacts) -> ValidationResult,
    update: fn(&K, &K, &TopologyFacts) -> ValidationResult,
) -> Result<AdmissionResponse, String> {
    let topology: K = parse(required_object(request)?)?;
    let old = request.old_object.as_ref().and_then(|old| parse::<K>(old).ok());
    Ok(to_response(match old {
        None => create(&topology, facts),
        Some(old) => update(&topology, &old, facts),
    }))
}

/// Validates the replicas of the request for the cached object. An object that is not in the cache passes, so that a
/// late cache does not block autoscalers.
fn validate_new_scale(request: &AdmissionRequest, cluster: &ClusterFacts) -> AdmissionResponse {
    let replicas = |scale: Option<&Value>| {
        let replicas = scale.and_then(|scale| scale.pointer("/spec/replicas")?.as_i64()).unwrap_or_default();
        i32::try_from(replicas).unwrap_or(i32::MAX)
    };
    let (to, from) = (replicas(request.object.as_ref()), replicas(request.old_object.as_ref()));
    let (namespace, name, caches) = (request.namespace.as_str(), request.name.as_str(), &cluster.caches);
    let set_of =
        |labels: &BTreeMap<String, String>| labels.get(PART_OF).and_then(|set| caches.sets.get(namespace, set));
    let result = match request.resource.resource.as_str() {
        "podcliquesets" => caches.sets.get(namespace, name).map(|cached| {
            let mut set = cached.0.clone();
            set.spec.replicas = from;
            validate_scale(ScaleTarget::Set(&set), to, &cluster.for_update(namespace, name, &[&set]))
        }),
        "podcliquescalinggroups" => caches.groups.get(namespace, name).map(|cached| {
            let mut group = cached.0.clone();
            group.spec.replicas = from;
            let set = set_of(group.labels());
            validate_scale(ScaleTarget::Group(&group, set.as_ref().map(|set| &set.0)), to, &cluster.for_create())
        }),
        _ => caches.cliques.get(namespace, name).map(|cached| {
            let mut clique = cached.0.clone();
            clique.spec.replicas = from;
            let set = set_of(clique.labels());
            let others = cluster.size_of_other_cliques(&cached);
            let target = ScaleTarget::Clique(&clique, set.as_ref().map(|set| &set.0), others);
            validate_scale(target, to, &cluster.for_create())
        }),
    };
    let missing = result.is_none().then(|| MissingObject::scaled(&request.resource.resource, namespace, name));
    AdmissionResponse { missing, ..to_response(result.unwrap_or_default()) }
}

fn authorize_change(request: &AdmissionRequest, cluster: &ClusterFacts) -> AdmissionResponse {
    // The webhook may be registered although the configuration disables the authorizer.
    if !cluster.is_authorizer_enabled {
        return AdmissionResponse::default();
    }
    let (resource, kind) = (request.full_name(), request.kind.kind.as_str());
    let operation = match request.operation {
        Operation::Create => admission::Operation::Create,
        Operation::Update => admission::Operation::Update,
        Operation::Delete => admission::Operation::Delete,
        Operation::Connect => admission::Operation::Connect,
    };
    let (user, object, old_object) =
        (request.user_info.username.as_str(), request.object.as_ref(), request.old_object.as_ref());
    let attributes = Attributes { operation, kind, resource: &resource, user, object, old_object };
    let (name, sets) = (attributes.set(), &cluster.caches.sets);
    let set = name.and_then(|name| sets.get(&request.namespace, name));
    let parent = match &set {
        // A set that could not be decoded exists, and its objects are protected.
        None if name.is_some_and(|name| sets.contains(&request.namespace, name)) => ParentSet::Found(None),
        None => ParentSet::NotFound,
        Some(cached) => {
            let TransformedObject(set) = &**cached;
            ParentSet::Found(set.annotations().get(PROTECTION_DISABLED).map(String::as_str))
        }
    };
    let admission::Authorization { denied, warnings } = authorize(&attributes, parent, &cluster.exempt_users);
    let response = denied.map(|message| AdmissionResponse::deny(message, vec![], vec![])).unwrap_or_default();
    AdmissionResponse { warnings, ..response }
}

fn to_response(result: ValidationResult) -> AdmissionResponse {
    let Some(message) = result.message() else {
        return AdmissionResponse { warnings: result.warnings, ..AdmissionResponse::default() };
    };
    let cause = |violation: &Violation| StatusCause {
        reason: cause_type(violation.error.error_type).to_owned(),
        message: violation.to_string(),
        field: violation.error.field.clone(),
    };
    let causes = result.violations.iter().map(cause).collect();
    let rules = result.violations.iter().map(|violation| violation.rule).collect();
    AdmissionResponse { warnings: result.warnings, ..AdmissionResponse::deny(message, causes, rules) }
}

/// The `CauseType` of apimachinery for this error.
fn cause_type(error_type: ErrorType) -> &'static str {
    match error_type {
        ErrorType::Required => "FieldValueRequired",
        ErrorType::Invalid => "FieldValueInvalid",
        ErrorType::Duplicate => "FieldValueDuplicate",
        ErrorType::NotFound => "FieldValueNotFound",
        ErrorType::NotSupported => "FieldValueNotSupported",
        ErrorType::Forbidden => "FieldValueForbidden",
    }
}

fn required_object(request: &AdmissionRequest) -> Result<&Value, String> {
    request.object.as_ref().ok_or_else(|| "the request has no object".to_owned())
}

fn parse<K: Resource<DynamicType = ()> + DeserializeOwned>(object: &Value) -> Result<K, String> {
    decode_from(object).map_err(|error| format!("the object is not a valid {}: {error}", K::kind(&())))
}

#[cfg(test)]
pub(crate) mod tests;
