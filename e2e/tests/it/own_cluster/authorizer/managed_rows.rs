//! The rows about managed objects: each has its own object, which the test stores while the set is unprotected.

use e2e::Namespace;
use grove_api_types::v1alpha1::PodCliqueSet;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};

use crate::it::own_cluster::dry_run::{Case, Operation};
use grove_test_support::rows::{ManagedRow, changed, managed, object};

const AUTHORIZER: &str = "authorizer.webhooks.grove.io";
const UNPROTECTED: &str = "grove.io/disable-managed-resource-protection";

/// Stores the objects of the rows; the results are the denied and the accepted cases.
pub(super) async fn prepare(client: &Client) -> (Vec<Case>, Vec<Case>) {
    let rows: Vec<_> = managed().into_iter().filter(|row| row.unit_test_only.is_none()).collect();
    let mut cases = Vec::new();
    for parent in [None, Some("true"), Some("yes"), Some("absent")] {
        let of_parent = rows.iter().enumerate().filter(|(_, row)| row.parent.as_deref() == parent);
        let ns = Namespace::create(client, &format!("e2e-set-{}", parent.unwrap_or("protected"))).await;
        let owner = if parent == Some("absent") { None } else { Some(create_unprotected_set(&ns).await) };
        for (number, row) in of_parent {
            cases.push(case(&ns, number, row, owner.as_deref()).await);
        }
        if owner.is_some() {
            ns.patch::<PodCliqueSet>("serve", json!({ "metadata": { "annotations": { UNPROTECTED: parent } } })).await;
        }
    }
    cases.into_iter().partition(|case| !case.denied.is_empty())
}

/// Creates the unprotected set; no controller runs. Returns its UID.
async fn create_unprotected_set(ns: &Namespace) -> String {
    let mut set = object("set");
    set["metadata"] = json!({ "name": "serve", "annotations": { UNPROTECTED: "true" } });
    let set: PodCliqueSet = serde_json::from_value(set).expect("a set");
    let set = ns.api().create(&PostParams::default(), &set).await.expect("the set is stored");
    set.uid().expect("the UID")
}

async fn case(ns: &Namespace, number: usize, row: &ManagedRow, owner: Option<&str>) -> Case {
    let name = format!("serve-0-front-{number}");
    let placed = |mut object: Value| {
        object["metadata"]["name"] = json!(name);
        object["metadata"]["namespace"] = json!(ns.name);
        object["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
        set_owner(&mut object, owner);
        object
    };
    let old = placed(row.old_object());
    let version = old["apiVersion"].as_str().expect("a version");
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &row.kind));
    let operation = match row.operation.as_str() {
        "create" => Operation::Create(placed(row.new_object())),
        "delete" => {
            store(ns, &resource, &old).await;
            Operation::Delete
        }
        _ => Operation::Update(update(row, &store(ns, &resource, &old).await, owner)),
    };
    let translated = |text: &String| text.replace("team/serve-0-front", &format!("{}/{name}", ns.name));
    Case {
        title: format!("managed: {} {}, {}", row.operation, row.kind, row.case),
        path: DynamicObject::url_path(&resource, Some(&ns.name)),
        name: name.clone(),
        operation,
        user: Some(row.user.clone()),
        webhook: AUTHORIZER,
        denied: row.denied.iter().map(translated).collect(),
        warnings: row.warnings.iter().map(translated).collect(),
        crd_error: row.crd_errors.clone(),
        defaulted: None,
    }
}

/// The stored object with the changes of the row. The resource version is only set where the API server requires one,
/// because Kubernetes' controllers may update the object meanwhile.
fn update(row: &ManagedRow, stored: &DynamicObject, owner: Option<&str>) -> Value {
    let mut new = changed(&serde_json::to_value(stored).expect("JSON"), &row.changes);
    set_owner(&mut new, owner);
    let metadata = new["metadata"].as_object_mut().expect("metadata");
    metadata.remove("resourceVersion");
    metadata.remove("managedFields");
    if ["PodClique", "PodCliqueScalingGroup", "PodGang", "ComputeDomain"].contains(&row.kind.as_str()) {
        metadata.insert("resourceVersion".to_owned(), json!(stored.resource_version()));
    }
    new
}

/// Replaces the owner of the row by the set. Without a set it removes the owner, because the garbage collector deletes
/// objects with an absent owner.
fn set_owner(object: &mut Value, owner: Option<&str>) {
    let references = object["metadata"]["ownerReferences"].as_array_mut();
    match (references, owner) {
        (Some(references), Some(uid)) => references.iter_mut().for_each(|reference| reference["uid"] = json!(uid)),
        (Some(references), None) => references.clear(),
        (None, _) => {}
    }
}

/// Creates an object. Retries until the webhook server knows that the set is unprotected.
async fn store(ns: &Namespace, resource: &ApiResource, object: &Value) -> DynamicObject {
    let api = Api::<DynamicObject>::namespaced_with(ns.client.clone(), &ns.name, resource);
    let object: DynamicObject = serde_json::from_value(object.clone()).expect("an object");
    loop {
        match api.create(&PostParams::default(), &object).await {
            Ok(stored) => return stored,
            Err(kube::Error::Api(denial)) if denial.message.contains("admission denied") => {}
            Err(error) => panic!("{} cannot be stored: {error}", resource.kind),
        }
    }
}
