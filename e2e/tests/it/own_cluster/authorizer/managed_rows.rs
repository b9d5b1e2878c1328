//! The rows about what Grove manages: each has an object of its own, stored while the set that it belongs to is open.

use e2e::Namespace;
use grove_api_types::v1alpha1::PodCliqueSet;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};

use crate::it::own_cluster::dry_run::{Act, Asked};
use grove_test_support::rows::{ManagedRow, changed, managed, object};

const AUTHORIZER: &str = "authorizer.webhooks.grove.io";
const OPEN: &str = "grove.io/disable-managed-resource-protection";

/// Stores what the rows are about; the questions that are refused, and those that are not.
pub(super) async fn prepare(client: &Client) -> (Vec<Asked>, Vec<Asked>) {
    let rows: Vec<_> = managed().into_iter().filter(|row| row.only_here.is_none()).collect();
    let mut asked = Vec::new();
    for parent in [None, Some("true"), Some("yes"), Some("absent")] {
        let of_parent = rows.iter().enumerate().filter(|(_, row)| row.set.as_deref() == parent);
        let ns = Namespace::create(client, &format!("e2e-set-{}", parent.unwrap_or("guarded"))).await;
        let owner = if parent == Some("absent") { None } else { Some(open_set(&ns).await) };
        for (number, row) in of_parent {
            asked.push(ask(&ns, number, row, owner.as_deref()).await);
        }
        if owner.is_some() {
            ns.patch::<PodCliqueSet>("serve", json!({ "metadata": { "annotations": { OPEN: parent } } })).await;
        }
    }
    asked.into_iter().partition(|asked| !asked.refused.is_empty())
}

/// The set, of which nothing is made here; its uid.
async fn open_set(ns: &Namespace) -> String {
    let mut set = object("set");
    set["metadata"] = json!({ "name": "serve", "annotations": { OPEN: "true" } });
    let set: PodCliqueSet = serde_json::from_value(set).expect("a set");
    let set = ns.api().create(&PostParams::default(), &set).await.expect("the set is stored");
    set.uid().expect("it was stored")
}

async fn ask(ns: &Namespace, number: usize, row: &ManagedRow, owner: Option<&str>) -> Asked {
    let name = format!("serve-0-front-{number}");
    let placed = |mut object: Value| {
        object["metadata"]["name"] = json!(name);
        object["metadata"]["namespace"] = json!(ns.name);
        object["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
        own(&mut object, owner);
        object
    };
    let old = placed(row.old_object());
    let version = old["apiVersion"].as_str().expect("a version");
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &row.kind));
    let act = match row.operation.as_str() {
        "create" => Act::Create(placed(row.new_object())),
        "delete" => {
            store(ns, &resource, &old).await;
            Act::Delete
        }
        _ => Act::Update(update(row, &store(ns, &resource, &old).await, owner)),
    };
    let translated = |text: &String| text.replace("team/serve-0-front", &format!("{}/{name}", ns.name));
    Asked {
        title: format!("managed: {} {}, {}", row.operation, row.kind, row.case),
        path: DynamicObject::url_path(&resource, Some(&ns.name)),
        name: name.clone(),
        act,
        user: Some(row.user.clone()),
        webhook: AUTHORIZER,
        refused: row.denied.iter().map(translated).collect(),
        warned: row.warned.iter().map(translated).collect(),
        definition: row.definition.clone(),
        filled_in: None,
    }
}

/// What the row makes of the stored object. Where a version is not asked for none is given, since stock controllers may
/// be at work on the object.
fn update(row: &ManagedRow, stored: &DynamicObject, owner: Option<&str>) -> Value {
    let mut new = changed(&serde_json::to_value(stored).expect("JSON"), &row.change);
    own(&mut new, owner);
    let metadata = new["metadata"].as_object_mut().expect("metadata");
    metadata.remove("resourceVersion");
    metadata.remove("managedFields");
    if ["PodClique", "PodCliqueScalingGroup", "PodGang", "ComputeDomain"].contains(&row.kind.as_str()) {
        metadata.insert("resourceVersion".to_owned(), json!(stored.resource_version()));
    }
    new
}

/// The owner of the row is the set; where there is none, the garbage collector would clear the object away.
fn own(object: &mut Value, owner: Option<&str>) {
    let references = object["metadata"]["ownerReferences"].as_array_mut();
    match (references, owner) {
        (Some(references), Some(uid)) => references.iter_mut().for_each(|reference| reference["uid"] = json!(uid)),
        (Some(references), None) => references.clear(),
        (None, _) => {}
    }
}

/// Stores it. Until the webhook server has heard that the set is open, it is tried again.
async fn store(ns: &Namespace, resource: &ApiResource, object: &Value) -> DynamicObject {
    let api = Api::<DynamicObject>::namespaced_with(ns.client.clone(), &ns.name, resource);
    let object: DynamicObject = serde_json::from_value(object.clone()).expect("an object");
    loop {
        match api.create(&PostParams::default(), &object).await {
            Ok(stored) => return stored,
            Err(kube::Error::Api(refusal)) if refusal.message.contains("admission denied") => {}
            Err(error) => panic!("{} cannot be stored: {error}", resource.kind),
        }
    }
}
