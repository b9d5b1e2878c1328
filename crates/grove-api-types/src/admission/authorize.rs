//! Who may change what Grove manages. Grove's own accounts may, and those that the configuration exempts; everybody may
//! delete pods, take finalizers away, and change what belongs to a set that was opened for it.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::labels::{PART_OF, PROTECTION_DISABLED, is_grove_label};

/// Controllers of Kubernetes that must be able to delete and to release whatever they find, and the one that fills in the
/// tokens of service accounts.
pub const ALWAYS_EXEMPT: [&str; 4] = [
    "system:serviceaccount:kube-system:namespace-controller",
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:tokens-controller",
    "system:kube-controller-manager",
];

/// Kinds that others work on, too: of these only some parts are Grove's.
const SHARED_KINDS: [&str; 2] = ["ResourceClaim", "ComputeDomain"];
/// Metadata that the API server writes.
const BOOKKEEPING: [&str; 3] = ["managedFields", "resourceVersion", "generation"];

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It is created.
    Create,
    /// It is changed.
    Update,
    /// It is deleted.
    Delete,
    /// Somebody connects to it.
    Connect,
}

/// A request for a change of something that Grove manages.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// What is done.
    pub operation: Operation,
    /// The kind of the object.
    pub kind: &'a str,
    /// `namespace/name` of the object.
    pub resource: &'a str,
    /// Who asks.
    pub user: &'a str,
    /// The object as it is to be; absent on deletion.
    pub object: Option<&'a Value>,
    /// The object as it is; absent on creation.
    pub old: Option<&'a Value>,
}

/// What is known of the set that an object belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parent<'a> {
    /// There is none of that name.
    Absent,
    /// It is there, with the value of its annotation that opens what belongs to it.
    Present(Option<&'a str>),
}

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authorization {
    /// Why not; absent if the request is allowed.
    pub denied: Option<String>,
    /// What the user is told either way.
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

impl<'a> Request<'a> {
    /// The set that the object belongs to. Whoever takes the label away is still judged by it.
    pub fn set(&self) -> Option<&'a str> {
        let judged = self.old.or(self.object)?;
        judged.get("metadata")?.get("labels")?.get(PART_OF)?.as_str().filter(|name| !name.is_empty())
    }
}

/// Judges a request. `parent` tells of the set that [`Request::set`] names; `accounts` are those of Grove and those that
/// the configuration exempts.
pub fn authorize(request: &Request<'_>, parent: Parent<'_>, accounts: &BTreeSet<String>) -> Authorization {
    let resource = request.resource;
    if request.operation == Operation::Connect {
        return Authorization::default();
    }
    let Some(set) = request.set() else {
        return Authorization::warned(format!(
            "missing required label {PART_OF} on resource {resource}, could not determine parent PodCliqueSet"
        ));
    };
    let is_open = match parent {
        Parent::Absent => {
            return Authorization::warned(format!("parent PodCliqueSet {set} not found for resource: {resource}"));
        }
        Parent::Present(annotation) => annotation == Some("true"),
    };
    let is_exempt = ALWAYS_EXEMPT.contains(&request.user) || accounts.contains(request.user);
    if is_open || is_exempt || is_free(request) {
        return Authorization::default();
    }
    let what = match request.operation {
        Operation::Delete => "deletion",
        Operation::Create | Operation::Update | Operation::Connect => "creation/updation",
    };
    Authorization::denied(format!(
        "admission denied, {what} of resource: {resource} is not allowed; change PodCliqueSet {set}, to which it belongs, or \
         annotate that with {PROTECTION_DISABLED}: \"true\""
    ))
}

/// What everybody may do who has the permission.
fn is_free(request: &Request<'_>) -> bool {
    match (request.operation, request.old, request.object) {
        (Operation::Delete, _, _) => ["Pod", "ComputeDomain"].contains(&request.kind),
        (Operation::Update, Some(old), Some(new)) => {
            let spares_ours = SHARED_KINDS.contains(&request.kind) && ours(old) == ours(new);
            spares_ours || only_releases(old, new)
        }
        (Operation::Create | Operation::Update | Operation::Connect, _, _) => false,
    }
}

/// What of a claim or domain is Grove's: its spec, Grove's labels, its owners.
fn ours(object: &Value) -> (Option<&Value>, Vec<(&String, &Value)>, Option<&Value>) {
    let metadata = object.get("metadata");
    let labels = metadata.and_then(|metadata| metadata.get("labels")?.as_object());
    let labels = labels.into_iter().flatten().filter(|(key, _)| is_grove_label(key)).collect();
    (object.get("spec"), labels, metadata.and_then(|metadata| metadata.get("ownerReferences")))
}

/// Whether nothing changes but that finalizers go.
fn only_releases(old: &Value, new: &Value) -> bool {
    let finalizers = |object: &Value| {
        let listed = object.get("metadata").and_then(|metadata| metadata.get("finalizers")?.as_array().cloned());
        listed.unwrap_or_default()
    };
    let before = finalizers(old);
    finalizers(new).iter().all(|finalizer| before.contains(finalizer)) && without_upkeep(old) == without_upkeep(new)
}

fn without_upkeep(object: &Value) -> Map<String, Value> {
    let mut object = object.as_object().cloned().unwrap_or_default();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|key, _| key != "finalizers" && !BOOKKEEPING.contains(&key.as_str()));
    }
    object
}
