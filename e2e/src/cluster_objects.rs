//! The objects that a test leaves in a control plane: their deletion, and the check that none is left.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;
use futures::{FutureExt, StreamExt, stream};
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::Request;
use kube::discovery::{ApiCapabilities, ApiGroup, Discovery, Scope, verbs};
use kube::{Api, Client, Resource};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;

/// Namespaces of Kubernetes, which no test deletes.
const KUBERNETES_NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];
/// Kinds whose objects Kubernetes itself creates, and `ComponentStatus`, which is no stored object.
const IGNORED_KINDS: [&str; 2] = ["APIService", "ComponentStatus"];
/// Kinds whose objects Kubernetes creates in its namespaces.
const IGNORED_IN_KUBERNETES_NAMESPACES: [&str; 4] = ["ConfigMap", "Lease", "Secret", "ServiceAccount"];
/// The names of the objects that Kubernetes creates in each namespace.
const OF_EACH_NAMESPACE: [&str; 2] = ["default", "kube-root-ca.crt"];
/// Kinds whose objects `cargo xtask up --no-services` creates again.
const CREATED_BY_UP: [&str; 2] = ["/Node", "apiextensions.k8s.io/CustomResourceDefinition"];
/// The label of the roles that the API server creates for itself.
const BOOTSTRAP_ROLE: &str = "kubernetes.io/bootstrapping";

/// Between two lists of the objects that are being deleted.
const INTERVAL: Duration = Duration::from_millis(300);

/// Deletes in flight.
const CONCURRENCY: usize = 8;

/// Group and kind, namespace, and name of an object.
type Key = (String, String, String);

#[derive(Deserialize)]
struct List {
    items: Option<Vec<Item>>,
}

#[derive(Deserialize)]
struct Item {
    metadata: Metadata,
}

/// Metadata that any stored object has. The type of kube cannot represent each time that the API server stores.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    generation: Option<i64>,
    deletion_timestamp: Option<Value>,
    #[serde(default)]
    finalizers: Vec<String>,
    #[serde(default)]
    managed_fields: Vec<Value>,
}

/// The objects of a control plane without tests. The version of an object changes if a client changes the object.
#[derive(Debug, Default)]
pub(crate) struct ClusterObjects(BTreeMap<Key, String>);

/// The differences that a test left.
#[derive(Debug, Default)]
pub(crate) struct Differences {
    /// Objects that are being deleted.
    pub(crate) surplus: Vec<Key>,
    /// Objects that are missing or have another version. They stay so.
    pub(crate) changed: Vec<Key>,
    /// Objects that `cargo xtask up --no-services` has to create again. Those with another version are being deleted.
    pub(crate) missing: Vec<Key>,
    /// The kinds of objects that are being deleted, also of those in the namespaces of tests.
    kinds: Vec<Kind>,
}

impl Differences {
    /// Whether nothing had to be deleted, and no object has another version.
    pub(crate) fn is_clean(&self) -> bool {
        self.kinds.is_empty() && self.changed.is_empty()
    }
}

/// A kind that can be listed and deleted.
#[derive(Clone, Debug)]
struct Kind {
    resource: ApiResource,
    is_namespaced: bool,
}

impl Kind {
    /// Group and kind.
    fn name(&self) -> String {
        format!("{}/{}", self.resource.group, self.resource.kind)
    }
}

impl ClusterObjects {
    /// Reads the cluster-scoped objects, and those in the namespaces of Kubernetes.
    pub(crate) async fn read(client: &Client) -> kube::Result<Self> {
        let kinds = kinds(client).await?;
        let lists = list_all(client, &kinds).await?;
        let objects = lists.into_iter().flat_map(|(kind, list)| {
            let relevant =
                list.into_iter().filter(|object| is_outside_of_tests(kind, object) && !is_ignored(kind, object));
            relevant.map(|object| (key(kind, &object), version(kind, &object)))
        });
        Ok(Self(objects.collect()))
    }

    /// Deletes each object that is not in `self`, waits until none of them exists, and returns the differences before that.
    pub(crate) async fn restore(&self, client: &Client) -> kube::Result<Differences> {
        let differences = self.restore_kinds(client, &kinds(client).await?).await?;
        let mut left = differences.kinds.clone();
        while !left.is_empty() {
            sleep(INTERVAL).await;
            left = self.restore_kinds(client, &left).await?.kinds;
        }
        Ok(differences)
    }

    /// Deletes each object of these kinds that is not in `self`, and returns the differences before that.
    async fn restore_kinds(&self, client: &Client, kinds: &[Kind]) -> kube::Result<Differences> {
        let mut differences = Differences::default();
        let names: BTreeSet<_> = kinds.iter().map(Kind::name).collect();
        let mut not_found = self.0.clone();
        not_found.retain(|(name, ..), _| names.contains(name));
        let lists = list_all(client, kinds).await?;
        let mut deletes = Vec::new();
        for (kind, list) in &lists {
            let before = deletes.len();
            let mut of_tests: BTreeMap<&str, Vec<&Metadata>> = BTreeMap::new();
            for object in list.iter().filter(|object| !is_ignored(kind, object)) {
                if !is_outside_of_tests(kind, object) {
                    of_tests.entry(&object.namespace).or_default().push(object);
                    continue;
                }
                let key = key(kind, object);
                match not_found.remove(&key) {
                    Some(before) if before == version(kind, object) => {}
                    Some(_) if !CREATED_BY_UP.contains(&key.0.as_str()) => differences.changed.push(key),
                    _ => {
                        deletes.push(delete(client, kind, object).boxed());
                        differences.surplus.push(key);
                    }
                }
            }
            let of_namespace = |(namespace, objects)| delete_all(client, kind, namespace, objects).boxed();
            deletes.extend(of_tests.into_iter().map(of_namespace));
            differences.kinds.extend((deletes.len() > before).then(|| (*kind).clone()));
        }
        stream::iter(deletes).for_each_concurrent(CONCURRENCY, |delete| delete).await;
        let (missing, changed): (Vec<_>, Vec<_>) =
            not_found.into_keys().partition(|(kind, ..)| CREATED_BY_UP.contains(&kind.as_str()));
        differences.missing = missing;
        differences.changed.extend(changed);
        Ok(differences)
    }
}

/// The kinds of all served groups.
async fn kinds(client: &Client) -> kube::Result<Vec<Kind>> {
    let discovery = Discovery::new(client.clone()).run_aggregated().await?;
    let all = discovery.groups().flat_map(ApiGroup::resources_by_stability);
    let is_relevant = |(resource, capabilities): &(ApiResource, ApiCapabilities)| {
        [verbs::LIST, verbs::DELETE].iter().all(|verb| capabilities.supports_operation(verb))
            && !IGNORED_KINDS.contains(&resource.kind.as_str())
    };
    let to_kind = |(resource, capabilities): (_, ApiCapabilities)| Kind {
        resource,
        is_namespaced: capabilities.scope == Scope::Namespaced,
    };
    Ok(all.filter(is_relevant).map(to_kind).collect())
}

/// Lists the metadata of the objects of each kind.
async fn list_all<'k>(client: &Client, kinds: &'k [Kind]) -> kube::Result<Vec<(&'k Kind, Vec<Metadata>)>> {
    let lists = kinds.iter().map(async |kind| {
        let path = DynamicObject::url_path(&kind.resource, None);
        let request = Request::new(path).list_metadata(&ListParams::default()).map_err(kube::Error::BuildRequest)?;
        match client.request::<List>(request).await {
            // The CRD was deleted in the meantime.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok((kind, Vec::new())),
            list => Ok((kind, list?.items.into_iter().flatten().map(|item| item.metadata).collect())),
        }
    });
    join_all(lists).await.into_iter().collect()
}

/// Whether the object is cluster-scoped, or in a namespace that no test deletes.
fn is_outside_of_tests(kind: &Kind, object: &Metadata) -> bool {
    !kind.is_namespaced || KUBERNETES_NAMESPACES.contains(&object.namespace.as_str())
}

/// Whether Kubernetes itself has created the object, or it is the namespace of a test: the deletion of one takes seconds and a hundred
/// requests, and no other test uses it. Events stay, too: the API server would delete them one by one.
fn is_ignored(kind: &Kind, object: &Metadata) -> bool {
    match kind.resource.kind.as_str() {
        "Namespace" => object.deletion_timestamp.is_none(),
        "Event" => true,
        _ if !kind.is_namespaced => object.labels.contains_key(BOOTSTRAP_ROLE),
        name if KUBERNETES_NAMESPACES.contains(&object.namespace.as_str()) => {
            IGNORED_IN_KUBERNETES_NAMESPACES.contains(&name) || object.labels.contains_key(BOOTSTRAP_ROLE)
        }
        "ConfigMap" | "ServiceAccount" => OF_EACH_NAMESPACE.contains(&object.name.as_str()),
        _ => false,
    }
}

fn key(kind: &Kind, object: &Metadata) -> Key {
    (kind.name(), object.namespace.clone(), object.name.clone())
}

fn version(kind: &Kind, object: &Metadata) -> String {
    if kind.resource.kind == "Node" {
        // Kubernetes writes other fields of nodes all the time.
        return format!("{:?}", object.labels);
    }
    if let Some(generation) = object.generation {
        return generation.to_string();
    }
    let writes = object.managed_fields.iter().filter(|write| write["subresource"].is_null());
    writes.map(|write| format!("{} {}", write["manager"], write["time"])).collect::<Vec<_>>().join(" ")
}

async fn delete(client: &Client, kind: &Kind, object: &Metadata) {
    if object.deletion_timestamp.is_some() {
        remove_finalizers(client, kind, object).await;
    } else {
        _ = api(client, kind, object).delete(&object.name, &DeleteParams::background()).await;
    }
}

/// Deletes objects in the namespace of a test at once: no service and no simulated kubelet needs to react.
async fn delete_all(client: &Client, kind: &Kind, namespace: &str, objects: Vec<&Metadata>) {
    for object in objects {
        remove_finalizers(client, kind, object).await;
    }
    let all = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &kind.resource);
    _ = all.delete_collection(&DeleteParams::background().grace_period(0), &ListParams::default()).await;
}

async fn remove_finalizers(client: &Client, kind: &Kind, object: &Metadata) {
    // Those of CRDs and namespaces belong to Kubernetes, which deletes their content first.
    if !object.finalizers.is_empty() && kind.resource.kind != "CustomResourceDefinition" {
        let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        _ = api(client, kind, object).patch_metadata(&object.name, &PatchParams::default(), &patch).await;
    }
}

fn api(client: &Client, kind: &Kind, object: &Metadata) -> Api<DynamicObject> {
    if kind.is_namespaced {
        Api::namespaced_with(client.clone(), &object.namespace, &kind.resource)
    } else {
        Api::all_with(client.clone(), &kind.resource)
    }
}
