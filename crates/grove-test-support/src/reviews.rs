//! Reviews as an API server sends them to a webhook, with edited objects.

use proptest::bool::weighted;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::Index;
use serde_json::{Value, json};

use crate::edits::{ByteEdit, Edit, byte_edits, edited, edited_bytes, edits, pick};
use crate::fuzz::JsonBytes;

/// A kind in a review.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The group.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// The plural name.
    pub resource: &'static str,
    /// Whether the request is for the scale subresource of the kind.
    pub is_scale: bool,
}

const fn kind(group: &'static str, version: &'static str, kind: &'static str, resource: &'static str) -> Kind {
    Kind { group, version, kind, resource, is_scale: false }
}

const GROVE: &str = "grove.io";

/// `PodCliqueSet`.
pub const SET: Kind = kind(GROVE, "v1alpha1", "PodCliqueSet", "podcliquesets");
/// `ClusterTopology`.
pub const TOPOLOGY: Kind = kind(GROVE, "v1alpha1", "ClusterTopology", "clustertopologies");
/// `ClusterTopologyBinding`.
pub const BINDING: Kind = kind(GROVE, "v1alpha1", "ClusterTopologyBinding", "clustertopologybindings");
/// The kinds with a scale subresource.
pub const SCALES: [Kind; 3] =
    [Kind { is_scale: true, ..SET }, Kind { is_scale: true, ..MANAGED[0] }, Kind { is_scale: true, ..MANAGED[1] }];
/// The kinds of managed objects.
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

/// The subject of reviews: objects of these kinds. An update may change each object into any other.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The kinds.
    pub kinds: Vec<Kind>,
    /// Valid objects.
    pub objects: Vec<Value>,
}

/// A review of the create, update or delete of an object, as an API server sends it.
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

/// One input for an endpoint, before it becomes bytes.
#[derive(Clone, Debug)]
struct ReviewCase {
    subject: Index,
    kind: Index,
    user: Index,
    object: Index,
    edits: Vec<Edit>,
    old: OldObject,
    is_deletion: bool,
    form: ReviewForm,
}

/// The old object of a review.
#[derive(Clone, Debug)]
enum OldObject {
    Absent,
    Edited(Vec<Edit>),
    Unedited,
    Other(Index),
}

/// The form of the bytes: a review, an edited review, or edited bytes of a review.
#[derive(Clone, Debug)]
enum ReviewForm {
    Review,
    EditedReview(Vec<Edit>),
    EditedBytes(Vec<ByteEdit>),
}

/// Inputs for an endpoint: mostly reviews of edited objects, sometimes edited reviews, sometimes bytes that are not JSON.
pub fn inputs(subjects: &[Subject], users: &[&'static str]) -> impl Strategy<Value = JsonBytes> + use<> {
    let (subjects, users) = (subjects.to_vec(), users.to_vec());
    let old = prop_oneof![
        Just(OldObject::Absent),
        edits().prop_map(OldObject::Edited),
        Just(OldObject::Unedited),
        any::<Index>().prop_map(OldObject::Other),
    ];
    let form = prop_oneof![
        9 => Just(ReviewForm::Review),
        2 => edits().prop_map(ReviewForm::EditedReview),
        1 => byte_edits().prop_map(ReviewForm::EditedBytes),
    ];
    let index = any::<Index>;
    let case = (index(), index(), index(), index(), edits(), old, weighted(1.0 / 20.0), form);
    case.prop_map(move |(subject, kind, user, object, edits, old, is_deletion, form)| {
        let case = ReviewCase { subject, kind, user, object, edits, old, is_deletion, form };
        JsonBytes(case.bytes(&subjects, &users))
    })
}

impl ReviewCase {
    fn bytes(&self, subjects: &[Subject], users: &[&str]) -> Vec<u8> {
        let Some(Subject { kinds, objects }) = pick(&self.subject, subjects) else { return vec![] };
        let kind = pick(&self.kind, kinds).copied().unwrap_or(SET);
        let user = pick(&self.user, users).copied().unwrap_or_default();
        let first = pick(&self.object, objects).cloned().unwrap_or_default();
        let object = Some(edited(&first, &self.edits)).filter(|_| !self.is_deletion);
        let old = match &self.old {
            OldObject::Absent => None,
            OldObject::Edited(edits) => Some(edited(&first, edits)),
            OldObject::Unedited => Some(first),
            OldObject::Other(index) => pick(index, objects).cloned(),
        };
        let review = review(kind, (object.as_ref(), old.as_ref()), user);
        match &self.form {
            ReviewForm::Review => review.to_string().into_bytes(),
            ReviewForm::EditedReview(edits) => edited(&review, edits).to_string().into_bytes(),
            ReviewForm::EditedBytes(edits) => edited_bytes(review.to_string().as_bytes(), edits),
        }
    }
}

/// Whether the bytes are a valid review, so that the response must be a review too.
pub fn is_review(bytes: &[u8]) -> bool {
    let Ok(review) = serde_json::from_slice::<Value>(bytes) else { return false };
    let is_string = |pointer: &str| review.pointer(pointer).is_none_or(Value::is_string);
    let optional = ["name", "namespace", "kind/kind", "resource/resource", "userInfo/username", "userInfo/uid"];
    let user = |field: &str| review.pointer(&format!("/request/userInfo/{field}"));
    let is_list = |value: &Value| value.as_array().is_some_and(|items| items.iter().all(Value::is_string));
    let is_valid_extra = |extra: &Value| extra.as_object().is_some_and(|extra| extra.values().all(is_list));
    let are_objects = ["kind", "resource", "userInfo"].map(|field| review["request"].get(field));
    review["apiVersion"] == "admission.k8s.io/v1"
        && review["request"]["uid"].is_string()
        && ["CREATE", "UPDATE", "DELETE", "CONNECT"].iter().any(|operation| review["request"]["operation"] == *operation)
        && are_objects.iter().all(|field| field.is_none_or(Value::is_object))
        && optional.iter().all(|field| is_string(&format!("/request/{field}")))
        && user("groups").is_none_or(is_list)
        && user("extra").is_none_or(is_valid_extra)
        // Parsing drops duplicate fields.
        && review.to_string().as_bytes() == bytes
}
