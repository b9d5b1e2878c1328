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
}

/// The set.
pub const POD_CLIQUE_SET: Kind =
    Kind { group: "grove.io", version: "v1alpha1", kind: "PodCliqueSet", resource: "podcliquesets" };

/// A review of an object that is created, changed or deleted, as an API server sends it.
pub fn review(kind: Kind, (object, old): (Option<&Value>, Option<&Value>), user: &str) -> Value {
    let operation = match (object, old) {
        (Some(_), None) => "CREATE",
        (Some(_), Some(_)) => "UPDATE",
        (None, _) => "DELETE",
    };
    let Kind { group, version, kind, resource } = kind;
    let metadata = |field: &str| object.or(old).and_then(|object| object.get("metadata")?.get(field)).cloned();
    let of_kind = json!({ "group": group, "version": version, "kind": kind });
    let of_resource = json!({ "group": group, "version": version, "resource": resource });
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
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
        },
    })
}

/// The bytes of a seed for a route: mostly reviews of objects that nobody would write, sometimes reviews that are none
/// themselves, sometimes bytes that are no JSON.
pub fn input(kind: Kind, objects: &[Value], seed: u64) -> Vec<u8> {
    let mut dice = Dice::new(seed);
    let first = dice.one_of(objects).cloned().unwrap_or_default();
    let object = mutated(&first, &mut dice);
    let old = match dice.roll(4) {
        0 => None,
        1 => Some(mutated(&first, &mut dice)),
        2 => Some(first),
        _ => dice.one_of(objects).cloned(),
    };
    let is_gone = dice.once_in(20);
    let user = ["alice", "system:serviceaccount:grove-system:pcs-controller", ""];
    let user = dice.one_of(&user).copied().unwrap_or_default();
    let review = review(kind, (Some(&object).filter(|_| !is_gone), old.as_ref()), user);
    match dice.roll(12) {
        0 => mangled(review.to_string().as_bytes(), &mut dice),
        1 | 2 => mutated(&review, &mut dice).to_string().into_bytes(),
        _ => review.to_string().into_bytes(),
    }
}
