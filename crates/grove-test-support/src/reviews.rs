//! What an API server sends to a webhook, for objects that nobody would write.

use serde_json::{Value, json};

use crate::dice::Dice;
use crate::mutation::{mangled, mutated};

/// A kind, as reviews name it.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The group.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// Its plural.
    pub resource: &'static str,
    /// Whether the request is for the replicas of such an object.
    pub is_scale: bool,
}

const fn kind(group: &'static str, version: &'static str, kind: &'static str, resource: &'static str) -> Kind {
    Kind { group, version, kind, resource, is_scale: false }
}

const GROVE: &str = "grove.io";

/// The set.
pub const SET: Kind = kind(GROVE, "v1alpha1", "PodCliqueSet", "podcliquesets");
/// The topology.
pub const TOPOLOGY: Kind = kind(GROVE, "v1alpha1", "ClusterTopology", "clustertopologies");
/// The other kind of topology.
pub const BINDING: Kind = kind(GROVE, "v1alpha1", "ClusterTopologyBinding", "clustertopologybindings");
/// What can be scaled.
pub const SCALES: [Kind; 3] =
    [Kind { is_scale: true, ..SET }, Kind { is_scale: true, ..MANAGED[0] }, Kind { is_scale: true, ..MANAGED[1] }];
/// What Grove manages.
pub const MANAGED: [Kind; 12] = [
    kind(GROVE, "v1alpha1", "PodClique", "podcliques"),
    kind(GROVE, "v1alpha1", "PodCliqueScalingGroup", "podcliquescalinggroups"),
    kind("scheduler.grove.io", "v1alpha1", "PodGang", "podgangs"),
    kind("", "v1", "Pod", "pods"),
    kind("", "v1", "Secret", "secrets"),
    kind("", "v1", "Service", "services"),
    kind("", "v1", "ServiceAccount", "serviceaccounts"),
    kind("rbac.authorization.k8s.io", "v1", "Role", "roles"),
    kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings"),
    kind("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
    kind("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims"),
    kind("resource.nvidia.com", "v1beta1", "ComputeDomain", "computedomains"),
];

/// What a route is asked about: objects of these kinds, each of which may become any other.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The kinds.
    pub kinds: Vec<Kind>,
    /// Valid objects.
    pub objects: Vec<Value>,
}

/// A review of an object that is created, changed or deleted, as an API server sends it.
pub fn review(kind: Kind, (object, old): (Option<&Value>, Option<&Value>), user: &str) -> Value {
    let operation = match (object, old) {
        (Some(_), None) => "CREATE",
        (Some(_), Some(_)) => "UPDATE",
        (None, _) => "DELETE",
    };
    let Kind { group, version, kind, resource, is_scale } = kind;
    let metadata = |field: &str| object.or(old).and_then(|object| object.get("metadata")?.get(field)?.as_str());
    let of_kind = if is_scale {
        json!({ "group": "autoscaling", "version": "v1", "kind": "Scale" })
    } else {
        json!({ "group": group, "version": version, "kind": kind })
    };
    let of_resource = json!({ "group": group, "version": version, "resource": resource });
    let mut request = json!({
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": of_kind,
        "resource": of_resource,
        "requestKind": of_kind,
        "requestResource": of_resource,
        "name": metadata("name").unwrap_or_default(),
        "namespace": metadata("namespace").unwrap_or_default(),
        "operation": operation,
        "userInfo": { "username": user, "groups": ["system:authenticated"] },
        "object": object,
        "oldObject": old,
        "dryRun": false,
        "options": { "apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions" },
    });
    if is_scale {
        request["subResource"] = json!("scale");
    }
    json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request })
}

/// The bytes of a seed for a route: mostly reviews of objects that nobody would write, sometimes reviews that are none
/// themselves, sometimes bytes that are no JSON.
pub fn input(subjects: &[Subject], users: &[&str], seed: u64) -> Vec<u8> {
    let mut dice = Dice::new(seed);
    let Some(Subject { kinds, objects }) = dice.one_of(subjects) else { return vec![] };
    let (kind, user) = (dice.one_of(kinds).copied().unwrap_or(SET), dice.one_of(users).copied().unwrap_or_default());
    let first = dice.one_of(objects).cloned().unwrap_or_default();
    let object = mutated(&first, &mut dice);
    let old = match dice.roll(4) {
        0 => None,
        1 => Some(mutated(&first, &mut dice)),
        2 => Some(first),
        _ => dice.one_of(objects).cloned(),
    };
    let is_gone = dice.once_in(20);
    let review = review(kind, (Some(&object).filter(|_| !is_gone), old.as_ref()), user);
    match dice.roll(12) {
        0 => mangled(review.to_string().as_bytes(), &mut dice),
        1 | 2 => mutated(&review, &mut dice).to_string().into_bytes(),
        _ => review.to_string().into_bytes(),
    }
}

/// Whether the bytes are a review as an API server may send one, so that it must be answered by one.
pub fn is_review(bytes: &[u8]) -> bool {
    let Ok(review) = serde_json::from_slice::<Value>(bytes) else { return false };
    let is_text = |pointer: &str| review.pointer(pointer).is_none_or(Value::is_string);
    let optional = ["name", "namespace", "kind/kind", "resource/resource", "userInfo/username"];
    let are_objects = ["kind", "resource", "userInfo"].map(|field| review["request"].get(field));
    review["apiVersion"] == "admission.k8s.io/v1"
        && review["request"]["uid"].is_string()
        && ["CREATE", "UPDATE", "DELETE", "CONNECT"].iter().any(|operation| review["request"]["operation"] == *operation)
        && are_objects.iter().all(|field| field.is_none_or(Value::is_object))
        && optional.iter().all(|field| is_text(&format!("/request/{field}")))
        // A field that is there twice is gone here.
        && review.to_string().as_bytes() == bytes
}
