//! The stored objects that the rows require. The test stores them while no webhook is registered, so that they may also be
//! objects that the webhooks deny, as an older version may have stored them.

use std::collections::BTreeMap;

use e2e::poll::poll_until;
use grove_api_types::labels::PART_OF;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::it::own_cluster::dry_run::{Case, Operation};
use grove_test_support::rows::{Operations, PatchRow, Row, RowFacts, ScaleRow, SetReference, TOPOLOGIES, object};

const OF_SETS: &str = "pcs.validating.webhooks.grove.io";
const OF_TOPOLOGIES: &str = "clustertopology.validating.webhooks.grove.io";
const OF_SCALES: &str = "scale.validating.webhooks.grove.io";

/// Offset of the numbers in the namespaces of defaulting rows.
const PATCHES: usize = 1000;

pub(super) struct ClusterState {
    client: Client,
    mutating: Vec<MutatingWebhookConfiguration>,
    validating: Vec<ValidatingWebhookConfiguration>,
    /// The namespaces of sets, by the objects in them. The requests of rows are dry runs, so rows with the same objects share one.
    namespaces: BTreeMap<String, String>,
}

impl ClusterState {
    /// Unregisters the webhooks, and stores the objects that all rows share.
    pub(super) async fn install(client: &Client) -> Self {
        let mutating = unregister(client).await;
        let validating = unregister(client).await;
        let state = Self { client: client.clone(), mutating, validating, namespaces: BTreeMap::new() };
        state.create_queue_crd().await;
        for (name, domains, is_terminating) in TOPOLOGIES {
            let mut topology = topology(name, domains);
            if is_terminating {
                // The finalizer keeps the topology in deletion.
                topology["metadata"]["finalizers"] = json!(["test.grove.io/keep"]);
            }
            state.store("ClusterTopology", None, topology).await;
            if is_terminating {
                let topologies = state.api("ClusterTopology", None);
                topologies.delete(name, &DeleteParams::default()).await.expect("the delete request");
            }
        }
        state
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Registers the webhooks again.
    pub(super) async fn restore_webhooks(&self) {
        for one in &self.mutating {
            Api::all(self.client.clone()).create(&PostParams::default(), one).await.expect("the webhook is registered");
        }
        for one in &self.validating {
            Api::all(self.client.clone()).create(&PostParams::default(), one).await.expect("the webhook is registered");
        }
    }

    /// Creates a CRD for the queues of Volcano, with the fields that matter here.
    async fn create_queue_crd(&self) {
        let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        let version =
            json!({ "name": "v1beta1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } });
        let definition = json!({
            "metadata": { "name": "queues.scheduling.volcano.sh" },
            "spec": { "group": "scheduling.volcano.sh", "scope": "Cluster", "versions": [version],
                "names": { "kind": "Queue", "plural": "queues", "singular": "queue", "listKind": "QueueList" } },
        });
        let definition: CustomResourceDefinition = serde_json::from_value(definition).expect("a definition");
        let definitions = Api::all(self.client.clone());
        definitions.create(&PostParams::default(), &definition).await.expect("the CRD of the queues is created");
        let established = conditions::is_crd_established();
        await_condition(definitions, &definition.name_any(), established).await.expect("the CRD is established");
        let queues = self.api("Queue", None);
        poll_until(async || queues.list(&ListParams::default()).await.ok()).await;
    }

    /// Replaces all queues of Volcano by those that the rows require.
    pub(super) async fn set_queues(&self, facts: &RowFacts) {
        let all = self.api("Queue", None);
        for queue in all.list(&ListParams::default()).await.expect("the queues").items {
            all.delete(&queue.name_any(), &DeleteParams::default()).await.expect("the queue is deleted");
        }
        let mut queues = facts.queues.clone();
        if !facts.no_queues {
            queues.entry("default".to_owned()).or_insert(true);
        }
        for (name, is_open) in queues {
            let state = if is_open { "Open" } else { "Closed" };
            let queue = json!({ "metadata": { "name": name }, "status": { "state": state } });
            self.store("Queue", None, queue).await;
        }
    }

    /// Stores the objects of a row, and returns its cases.
    pub(super) async fn prepare(&mut self, number: usize, row: &Row) -> Vec<Case> {
        let operations = match row.operations {
            Operations::Create => &["create"][..],
            Operations::Update => &["update"],
            Operations::CreateAndUpdate => &["create", "update"],
        };
        let mut cases = Vec::new();
        for operation in operations {
            cases.push(if row.object == "set" {
                self.prepare_set(row, operation).await
            } else {
                self.prepare_topology(number, row, operation).await
            });
        }
        cases
    }

    /// Stores the objects of a defaulting row, and returns its case.
    pub(super) async fn prepare_patch(&mut self, number: usize, row: &PatchRow) -> Case {
        let operations = if row.old_changes.is_some() { Operations::Update } else { Operations::Create };
        let row_of_object = Row {
            rule: "defaults".to_owned(),
            case: row.case.clone(),
            source: row.source.clone(),
            object: row.object.clone(),
            operations,
            old_changes: row.old_changes.clone().unwrap_or_default(),
            changes: row.changes.clone(),
            facts: row.facts.clone(),
            errors: vec![],
            errors_on_update: vec![],
            warnings: vec![],
            crd_errors: vec![],
            crd_errors_on_update: vec![],
            kubernetes_rule: false,
            schema_only: false,
            unit_test_only: None,
        };
        let case = self.prepare(number + PATCHES, &row_of_object).await.remove(0);
        case.with_defaults(&self.client, &row.patch).await
    }

    async fn prepare_set(&mut self, row: &Row, operation: &str) -> Case {
        let stored = if operation == "update" { json!([row.old_object(), row.facts.scheduled]) } else { json!([]) };
        let namespace = self.namespace_with(&stored).await;
        let mut new = row.new_object();
        if new["metadata"]["namespace"].is_string() {
            new["metadata"]["namespace"] = json!(namespace);
        }
        let name = new["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if operation == "update" {
            let mut old = row.old_object();
            old["metadata"]["namespace"] = json!(namespace);
            let stored = self.store("PodCliqueSet", Some(&namespace), old).await;
            new["metadata"]["resourceVersion"] = json!(stored.resource_version());
            if row.facts.scheduled {
                self.store_scheduled_clique(&namespace, &name).await;
            }
        }
        let translated =
            |texts: &[String]| texts.iter().map(|text| text.replace("team/", &format!("{namespace}/"))).collect();
        let (errors_on_update, crd_errors_on_update) = match operation {
            "update" => (row.errors_on_update.as_slice(), row.crd_errors_on_update.as_slice()),
            _ => (&[][..], &[][..]),
        };
        Case {
            title: format!("{}: {} ({operation})", row.rule, row.case),
            path: format!("/apis/grove.io/v1alpha1/namespaces/{namespace}/podcliquesets"),
            operation: if operation == "update" { Operation::Update(new) } else { Operation::Create(new) },
            name,
            user: None,
            webhook: OF_SETS,
            denied: translated(&[row.errors.as_slice(), errors_on_update].concat()),
            warnings: translated(&row.warnings),
            crd_error: [row.crd_errors.as_slice(), crd_errors_on_update].concat(),
            defaulted: None,
        }
    }

    /// Each row gets its own topology, so that references from other rows do not matter.
    async fn prepare_topology(&self, number: usize, row: &Row, operation: &str) -> Case {
        let (mut new, mut old) = (row.new_object(), row.old_object());
        let kind = new["kind"].as_str().expect("a kind").to_owned();
        let (original, is_renamed) =
            (object(&row.object)["metadata"]["name"].clone(), row.changes.contains_key("/metadata/name"));
        let original = original.as_str().expect("a name").to_owned();
        let name = if is_renamed {
            new["metadata"]["name"].as_str().expect("a name").to_owned()
        } else {
            format!("{original}-{number}-{operation}")
        };
        let set_namespace = format!("a-{number}-{operation}");
        new["metadata"]["name"] = json!(name);
        old["metadata"]["name"] = json!(name);
        if row.facts.name_conflict {
            let (other_kind, template) = match kind.as_str() {
                "ClusterTopology" => ("ClusterTopologyBinding", "binding"),
                _ => ("ClusterTopology", "topology"),
            };
            let mut other_topology = object(template);
            other_topology["metadata"]["name"] = json!(name);
            self.store(other_kind, None, other_topology).await;
        }
        if operation == "update" {
            let stored = self.store(&kind, None, old).await;
            new["metadata"]["resourceVersion"] = json!(stored.resource_version());
            self.store_referencing_sets(&set_namespace, &name, &row.facts.referencing_sets, &new).await;
        }
        let translated = |texts: &[String]| {
            let translate = |text: &String| {
                let text = text.replace(&format!("{original:?}"), &format!("{name:?}"));
                let sets = row.facts.referencing_sets.iter();
                sets.fold(text, |text, set| {
                    text.replace(&set.set, &set.set.replacen("a/", &format!("{set_namespace}/"), 1))
                })
            };
            texts.iter().map(translate).collect()
        };
        Case {
            title: format!("{}: {} ({operation})", row.rule, row.case),
            path: format!("/apis/grove.io/v1alpha1/{}", plural(&kind)),
            operation: if operation == "update" { Operation::Update(new) } else { Operation::Create(new) },
            name: name.clone(),
            user: row.facts.grove_user.then(|| "system:serviceaccount:grove-system:topology-controller".to_owned()),
            webhook: OF_TOPOLOGIES,
            denied: translated(&row.errors),
            warnings: translated(&row.warnings),
            crd_error: row.crd_errors.clone(),
            defaulted: None,
        }
    }

    /// Stores the sets that reference the topology.
    async fn store_referencing_sets(&self, namespace: &str, topology: &str, sets: &[SetReference], new: &Value) {
        if !sets.is_empty() {
            self.create_namespace(namespace).await;
        }
        let levels = new["spec"]["levels"].as_array().cloned().unwrap_or_default();
        let default_domain = levels.last().and_then(|level| level["domain"].as_str()).unwrap_or("host").to_owned();
        for reference in sets {
            let name = reference.set.split('/').next_back().expect("a name");
            let domains =
                if reference.domains.is_empty() { std::slice::from_ref(&default_domain) } else { &reference.domains };
            let cliques: Vec<_> = domains.iter().enumerate().map(|(at, domain)| {
                let containers = json!([{ "name": "main", "image": "pause" }]);
                json!({ "name": format!("c{at}"), "spec": { "roleName": format!("c{at}"), "podSpec": { "containers": containers } },
                    "topologyConstraint": { "topologyName": topology, "pack": { "required": domain } } })
            }).collect();
            let set =
                json!({ "metadata": { "name": name }, "spec": { "replicas": 1, "template": { "cliques": cliques } } });
            self.store("PodCliqueSet", Some(namespace), set).await;
            if reference.scheduled {
                self.store_scheduled_clique(namespace, name).await;
            }
        }
    }

    pub(super) async fn prepare_scale(&mut self, row: &ScaleRow) -> Case {
        let mut set = row.set_object();
        let stored = json!([set, row.target, row.name, row.from, row.min_available, row.clique]);
        let namespace = self.namespace_with(&stored).await;
        set["metadata"]["namespace"] = json!(namespace);
        let of_target = if row.target == "set" { set["metadata"]["name"].as_str() } else { Some("serve-0-model") };
        let name = row.name.as_deref().or(of_target).expect("a name").to_owned();
        self.store("PodCliqueSet", Some(&namespace), set).await;
        let metadata = json!({ "name": name, "labels": { PART_OF: "serve" } });
        let mut spec = json!({ "replicas": row.from, "minAvailable": row.min_available });
        let plural = match row.target.as_str() {
            "group" => {
                spec["cliqueNames"] = json!([row.clique.as_deref().unwrap_or("worker")]);
                let group = json!({ "metadata": metadata, "spec": spec });
                self.store("PodCliqueScalingGroup", Some(&namespace), group).await;
                "podcliquescalinggroups"
            }
            "clique" => {
                spec["podSpec"] = json!({ "containers": [{ "name": "main", "image": "pause" }] });
                self.store("PodClique", Some(&namespace), json!({ "metadata": metadata, "spec": spec })).await;
                "podcliques"
            }
            _ => "podcliquesets",
        };
        Case {
            title: format!("scale: {} {}", row.target, row.case),
            path: format!("/apis/grove.io/v1alpha1/namespaces/{namespace}/{plural}"),
            operation: Operation::Scale(row.to),
            name,
            user: None,
            webhook: OF_SCALES,
            denied: row.errors.clone(),
            warnings: row.warnings.clone(),
            crd_error: row.crd_errors.clone(),
            defaulted: None,
        }
    }

    /// Stores a clique of the set whose status reports scheduled pods.
    async fn store_scheduled_clique(&self, namespace: &str, set: &str) {
        let containers = json!([{ "name": "main", "image": "pause" }]);
        let name = format!("{set}-0-front");
        let clique = json!({ "metadata": { "name": name, "labels": { PART_OF: set } },
            "spec": { "replicas": 1, "minAvailable": 1, "podSpec": { "containers": containers } } });
        self.store("PodClique", Some(namespace), clique).await;
        let status = Patch::Merge(json!({ "status": { "replicas": 1, "scheduledReplicas": 1 } }));
        let cliques = self.api("PodClique", Some(namespace));
        cliques.patch_status(&name, &PatchParams::default(), &status).await.expect("the status is written");
    }

    /// The namespace with these objects, which the caller stores.
    async fn namespace_with(&mut self, objects: &Value) -> String {
        let count = self.namespaces.len();
        let namespace = self.namespaces.entry(objects.to_string()).or_insert_with(|| format!("team-{count}")).clone();
        if self.namespaces.len() > count {
            self.create_namespace(&namespace).await;
        }
        namespace
    }

    async fn create_namespace(&self, name: &str) {
        self.store("Namespace", None, json!({ "metadata": { "name": name } })).await;
    }

    /// Creates an object, or returns the existing one. Retries while the API server still calls unregistered webhooks.
    async fn store(&self, kind: &str, namespace: Option<&str>, object: Value) -> DynamicObject {
        let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
        let mut object = object;
        object["kind"] = json!(kind);
        object["apiVersion"] = json!(resource(kind).api_version);
        let object: DynamicObject = serde_json::from_value(object).expect("an object");
        let api = self.api(kind, namespace);
        loop {
            match api.create(&PostParams::default(), &object).await {
                Ok(stored) => return stored,
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    return api.get(&name).await.expect("the existing object");
                }
                Err(kube::Error::Api(status)) if status.message.contains("webhook") => {}
                Err(error) => panic!("{kind} {name} cannot be stored: {error}\n{object:#?}"),
            }
        }
    }

    fn api(&self, kind: &str, namespace: Option<&str>) -> Api<DynamicObject> {
        let resource = resource(kind);
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }
}

/// Deletes the webhook configurations, and returns them without server-side metadata, so that they can be created again.
async fn unregister<K>(client: &Client) -> Vec<K>
where
    K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + std::fmt::Debug,
{
    let api = Api::<K>::all(client.clone());
    let ours = ListParams::default().labels("app.kubernetes.io/name=webhook-server");
    let mut all = api.list(&ours).await.expect("the webhooks").items;
    for one in &mut all {
        api.delete(&one.name_any(), &DeleteParams::default()).await.expect("the webhook configuration is deleted");
        let meta = one.meta_mut();
        (meta.uid, meta.resource_version, meta.creation_timestamp, meta.managed_fields) = (None, None, None, None);
    }
    all
}

fn topology(name: &str, domains: &[&str]) -> Value {
    let levels: Vec<_> = domains.iter().map(|domain| json!({ "domain": domain, "key": domain })).collect();
    json!({ "metadata": { "name": name }, "spec": { "levels": levels } })
}

pub(super) fn resource(kind: &str) -> ApiResource {
    let (group, version) = match kind {
        "Namespace" => ("", "v1"),
        "Queue" => ("scheduling.volcano.sh", "v1beta1"),
        _ => ("grove.io", "v1alpha1"),
    };
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural(kind))
}

fn plural(kind: &str) -> &'static str {
    match kind {
        "Namespace" => "namespaces",
        "Queue" => "queues",
        "ClusterTopology" => "clustertopologies",
        "ClusterTopologyBinding" => "clustertopologybindings",
        "PodCliqueSet" => "podcliquesets",
        "PodCliqueScalingGroup" => "podcliquescalinggroups",
        "PodClique" => "podcliques",
        other => panic!("the test does not store objects of kind {other}"),
    }
}
