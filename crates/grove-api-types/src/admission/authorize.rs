//! The protection of managed objects: only Grove's accounts and the exempt users may change them. Every user may delete pods,
//! remove finalizers, and change the managed objects of a set that disables the protection.
//! The protection is off by default; `configuration/authorizer.rs` has its switch and the exempt users.
//!
//! `webhook-server/src/args.rs` has the names of Grove's accounts. `webhook-server/src/webhook_configurations.rs` has the kinds and the
//! operations, without subresources: every user with the permission may scale a clique or a scaling group.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::labels::{PART_OF, PROTECTION_DISABLED, is_grove_label};

/// Users of Kubernetes that are always exempt: the controllers that must delete any object and remove any finalizer, the one that writes the tokens
/// of `ServiceAccount`s, and the API server, which records in a Secret when its token was used.
pub const ALWAYS_EXEMPT: [&str; 5] = [
    "system:serviceaccount:kube-system:namespace-controller",
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:tokens-controller",
    "system:kube-controller-manager",
    "system:apiserver",
];

/// Kinds that other controllers write too: Grove manages only a part of their fields.
const SHARED_KINDS: [&str; 2] = ["ResourceClaim", "ComputeDomain"];
/// Metadata fields that the API server writes.
const SERVER_METADATA: [&str; 3] = ["managedFields", "resourceVersion", "generation"];

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Creates the object.
    Create,
    /// Updates the object.
    Update,
    /// Deletes the object.
    Delete,
    /// Connects to a subresource of the object, for example `exec`.
    Connect,
}

/// A request for a managed object (`admission.Attributes` of apiserver).
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// The operation.
    pub operation: Operation,
    /// The kind of the object.
    pub kind: &'a str,
    /// `namespace/name` of the object.
    pub resource: &'a str,
    /// The name of the user.
    pub user: &'a str,
    /// The new object; absent on deletion.
    pub object: Option<&'a Value>,
    /// The stored object; absent on creation.
    pub old_object: Option<&'a Value>,
}

/// The set that the object belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParentSet<'a> {
    /// No set has that name.
    NotFound,
    /// The set exists; with the value of its annotation [`PROTECTION_DISABLED`].
    Found(Option<&'a str>),
}

/// The decision about a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authorization {
    /// The reason for the denial; absent if the request is allowed.
    pub denied: Option<String>,
    /// Warnings for the user, whether or not the request is denied.
    pub warnings: Vec<String>,
}

impl Authorization {
    fn warned(text: String) -> Self {
        Self { denied: None, warnings: vec![text] }
    }

    fn denied(text: String) -> Self {
        Self { denied: Some(text), warnings: vec![] }
    }
}

impl<'a> Attributes<'a> {
    /// The name of the set that the object belongs to. On an update the label of the stored object counts, so that a user
    /// cannot avoid the denial by removing the label.
    pub fn set(&self) -> Option<&'a str> {
        let object = self.old_object.or(self.object)?;
        object.get("metadata")?.get("labels")?.get(PART_OF)?.as_str().filter(|name| !name.is_empty())
    }
}

/// Decides whether a request is allowed. `parent` is the set that [`Attributes::set`] names; `exempt_users` are the accounts
/// of Grove and the users that the configuration exempts.
pub fn authorize(request: &Attributes<'_>, parent: ParentSet<'_>, exempt_users: &BTreeSet<String>) -> Authorization {
    let resource = request.resource;
    if request.operation == Operation::Connect {
        return Authorization::default();
    }
    let Some(set) = request.set() else {
        return Authorization::warned(format!(
            "missing required label {PART_OF} on resource {resource}, could not determine parent PodCliqueSet"
        ));
    };
    let is_unprotected = match parent {
        ParentSet::NotFound => {
            return Authorization::warned(format!("parent PodCliqueSet {set} not found for resource: {resource}"));
        }
        ParentSet::Found(annotation) => annotation == Some("true"),
    };
    let is_exempt = ALWAYS_EXEMPT.contains(&request.user) || exempt_users.contains(request.user);
    if is_unprotected || is_exempt || is_always_allowed(request) {
        return Authorization::default();
    }
    let operation = match request.operation {
        Operation::Delete => "deletion",
        Operation::Create | Operation::Update | Operation::Connect => "creation/updation",
    };
    Authorization::denied(format!(
        "admission denied, {operation} of resource: {resource} is not allowed; change PodCliqueSet {set} instead, or \
         annotate the set with {PROTECTION_DISABLED}: \"true\""
    ))
}

/// Whether every user with the RBAC permission may send the request.
fn is_always_allowed(request: &Attributes<'_>) -> bool {
    match (request.operation, request.old_object, request.object) {
        (Operation::Delete, _, _) => ["Pod", "ComputeDomain"].contains(&request.kind),
        (Operation::Update, Some(old), Some(new)) => {
            let is_foreign = SHARED_KINDS.contains(&request.kind) && managed_fields(old) == managed_fields(new);
            is_foreign || only_removes_finalizers(old, new)
        }
        (Operation::Create | Operation::Update | Operation::Connect, _, _) => false,
    }
}

/// The fields of a claim or compute domain that Grove manages: the spec, Grove's labels, the owner references.
fn managed_fields(object: &Value) -> (Option<&Value>, Vec<(&String, &Value)>, Option<&Value>) {
    let metadata = object.get("metadata");
    let labels = metadata.and_then(|metadata| metadata.get("labels")?.as_object());
    let labels = labels.into_iter().flatten().filter(|(key, _)| is_grove_label(key)).collect();
    (object.get("spec"), labels, metadata.and_then(|metadata| metadata.get("ownerReferences")))
}

/// Whether the only change is the removal of finalizers.
fn only_removes_finalizers(old: &Value, new: &Value) -> bool {
    let finalizers = |object: &Value| {
        let listed = object.get("metadata").and_then(|metadata| metadata.get("finalizers")?.as_array().cloned());
        listed.unwrap_or_default()
    };
    let before = finalizers(old);
    finalizers(new).iter().all(|finalizer| before.contains(finalizer))
        && without_finalizers_and_server_metadata(old) == without_finalizers_and_server_metadata(new)
}

fn without_finalizers_and_server_metadata(object: &Value) -> Map<String, Value> {
    let mut object = object.as_object().cloned().unwrap_or_default();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|key, _| key != "finalizers" && !SERVER_METADATA.contains(&key.as_str()));
    }
    object
}
