//! The cluster that rows take for granted, stored while no webhook is registered: also what webhooks would refuse, as it may
//! have been stored before there was a rule.

use std::collections::BTreeMap;

use e2e::plane::until_said;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::it::own_cluster::dry_run::{Act, Asked};
use grove_test_support::rows::{Known, On, PatchRow, Refers, Row, ScaleRow, TOPOLOGIES, object};

const OF_SETS: &str = "pcs.validating.webhooks.grove.io";
const OF_TOPOLOGIES: &str = "clustertopology.validating.webhooks.grove.io";
const OF_SCALES: &str = "scale.validating.webhooks.grove.io";

/// Namespaces of rows about defaults are numbered from here on.
const PATCHES: usize = 1000;

pub(super) struct Ground {
    client: Client,
    mutating: Vec<MutatingWebhookConfiguration>,
    validating: Vec<ValidatingWebhookConfiguration>,
}

impl Ground {
    /// Takes the webhooks away for a while, and stores what all rows have in common.
    pub(super) async fn clear(client: &Client) -> Self {
        let mutating = taken_away(client).await;
        let validating = taken_away(client).await;
        let ground = Self { client: client.clone(), mutating, validating };
        ground.volcano().await;
        for (name, domains, is_leaving) in TOPOLOGIES {
            let mut topology = topology(name, domains);
            if is_leaving {
                // It is to be deleted, and cannot.
                topology["metadata"]["finalizers"] = json!(["test.grove.io/stays"]);
            }
            ground.store("ClusterTopology", None, topology).await;
            if is_leaving {
                ground.api("ClusterTopology", None).delete(name, &DeleteParams::default()).await.expect("it leaves");
            }
        }
        ground
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Registers the webhooks again.
    pub(super) async fn register_again(&self) {
        for one in &self.mutating {
            Api::all(self.client.clone()).create(&PostParams::default(), one).await.expect("it is registered");
        }
        for one in &self.validating {
            Api::all(self.client.clone()).create(&PostParams::default(), one).await.expect("it is registered");
        }
    }

    /// Volcano's queues, as far as they matter.
    async fn volcano(&self) {
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
        definitions.create(&PostParams::default(), &definition).await.expect("Volcano's queues are defined");
        let established = conditions::is_crd_established();
        await_condition(definitions, &definition.name_any(), established).await.expect("they are established");
        let queues = self.api("Queue", None);
        until_said(async || queues.list(&ListParams::default()).await.ok()).await;
    }

    /// Volcano's queues as these rows know them, and no others.
    pub(super) async fn queues(&self, known: &Known) {
        let all = self.api("Queue", None);
        for queue in all.list(&ListParams::default()).await.expect("the queues").items {
            all.delete(&queue.name_any(), &DeleteParams::default()).await.expect("the queue is deleted");
        }
        let mut queues = known.queues.clone();
        if !known.no_queues {
            queues.entry("default".to_owned()).or_insert(true);
        }
        for (name, is_open) in queues {
            let state = if is_open { "Open" } else { "Closed" };
            let queue = json!({ "metadata": { "name": name }, "status": { "state": state } });
            self.store("Queue", None, queue).await;
        }
    }

    /// Stores what the row is about and what it knows; the questions that it asks.
    pub(super) async fn prepare(&self, number: usize, row: &Row) -> Vec<Asked> {
        let acts = match row.on {
            On::Create => &["create"][..],
            On::Update => &["update"],
            On::Both => &["create", "update"],
        };
        let mut asked = Vec::new();
        for act in acts {
            asked.push(if row.object == "set" {
                self.prepare_set(number, row, act).await
            } else {
                self.prepare_topology(number, row, act).await
            });
        }
        asked
    }

    /// What is to be filled in of a set or topology.
    pub(super) async fn prepare_patch(&self, number: usize, row: &PatchRow) -> Asked {
        let act = if row.before.is_some() { On::Update } else { On::Create };
        let row_of_object = Row {
            rule: "filled in".to_owned(),
            case: row.case.clone(),
            source: row.source.clone(),
            object: row.object.clone(),
            on: act,
            before: row.before.clone().unwrap_or_default(),
            change: row.change.clone(),
            facts: row.facts.clone(),
            refused: vec![],
            also_on_update: vec![],
            warned: vec![],
            definition: vec![],
            definition_on_update: vec![],
            kubernetes: false,
            unreadable: false,
            only_here: None,
        };
        let asked = self.prepare(number + PATCHES, &row_of_object).await.remove(0);
        asked.filling_in(&self.client, &row.patch).await
    }

    async fn prepare_set(&self, number: usize, row: &Row, act: &str) -> Asked {
        let namespace = format!("team-{number}-{act}");
        self.namespace(&namespace).await;
        let mut new = row.new_object();
        if new["metadata"]["namespace"].is_string() {
            new["metadata"]["namespace"] = json!(namespace);
        }
        let name = new["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if act == "update" {
            let mut old = row.old_object();
            old["metadata"]["namespace"] = json!(namespace);
            let stored = self.store("PodCliqueSet", Some(&namespace), old).await;
            new["metadata"]["resourceVersion"] = json!(stored.resource_version());
            if row.facts.scheduled {
                self.scheduled(&namespace, &name).await;
            }
        }
        let translated =
            |texts: &[String]| texts.iter().map(|text| text.replace("team/", &format!("{namespace}/"))).collect();
        let (also, definition) = match act {
            "update" => (row.also_on_update.as_slice(), row.definition_on_update.as_slice()),
            _ => (&[][..], &[][..]),
        };
        Asked {
            title: format!("{}: {} ({act})", row.rule, row.case),
            path: format!("/apis/grove.io/v1alpha1/namespaces/{namespace}/podcliquesets"),
            act: if act == "update" { Act::Update(new) } else { Act::Create(new) },
            name,
            user: None,
            webhook: OF_SETS,
            refused: translated(&[row.refused.as_slice(), also].concat()),
            warned: translated(&row.warned),
            definition: [row.definition.as_slice(), definition].concat(),
            filled_in: None,
        }
    }

    /// Each row has a topology of its own: what refers to one must not refer to another's.
    async fn prepare_topology(&self, number: usize, row: &Row, act: &str) -> Asked {
        let (mut new, mut old) = (row.new_object(), row.old_object());
        let kind = new["kind"].as_str().expect("a kind").to_owned();
        let (plain, was_changed) =
            (object(&row.object)["metadata"]["name"].clone(), row.change.contains_key("/metadata/name"));
        let plain = plain.as_str().expect("a name").to_owned();
        let name = if was_changed {
            new["metadata"]["name"].as_str().expect("a name").to_owned()
        } else {
            format!("{plain}-{number}-{act}")
        };
        let area = format!("a-{number}-{act}");
        new["metadata"]["name"] = json!(name);
        old["metadata"]["name"] = json!(name);
        if row.facts.taken {
            let (other, template) = match kind.as_str() {
                "ClusterTopology" => ("ClusterTopologyBinding", "binding"),
                _ => ("ClusterTopology", "topology"),
            };
            let mut taken = object(template);
            taken["metadata"]["name"] = json!(name);
            self.store(other, None, taken).await;
        }
        if act == "update" {
            let stored = self.store(&kind, None, old).await;
            new["metadata"]["resourceVersion"] = json!(stored.resource_version());
            self.refer(&area, &name, &row.facts.referring, &new).await;
        }
        let translated = |texts: &[String]| {
            let translate = |text: &String| {
                let text = text.replace(&format!("{plain:?}"), &format!("{name:?}"));
                let referring = row.facts.referring.iter();
                referring.fold(text, |text, refers| {
                    text.replace(&refers.set, &refers.set.replacen("a/", &format!("{area}/"), 1))
                })
            };
            texts.iter().map(translate).collect()
        };
        Asked {
            title: format!("{}: {} ({act})", row.rule, row.case),
            path: format!("/apis/grove.io/v1alpha1/{}", plural(&kind)),
            act: if act == "update" { Act::Update(new) } else { Act::Create(new) },
            name: name.clone(),
            user: row.facts.grove.then(|| "system:serviceaccount:grove-system:topology-controller".to_owned()),
            webhook: OF_TOPOLOGIES,
            refused: translated(&row.refused),
            warned: translated(&row.warned),
            definition: row.definition.clone(),
            filled_in: None,
        }
    }

    /// Sets that refer to the topology.
    async fn refer(&self, namespace: &str, topology: &str, referring: &[Refers], new: &Value) {
        if !referring.is_empty() {
            self.namespace(namespace).await;
        }
        let levels = new["spec"]["levels"].as_array().cloned().unwrap_or_default();
        let any = levels.last().and_then(|level| level["domain"].as_str()).unwrap_or("host").to_owned();
        for refers in referring {
            let name = refers.set.split('/').next_back().expect("a name");
            let domains = if refers.domains.is_empty() { std::slice::from_ref(&any) } else { &refers.domains };
            let cliques: Vec<_> = domains.iter().enumerate().map(|(at, domain)| {
                let containers = json!([{ "name": "main", "image": "pause" }]);
                json!({ "name": format!("c{at}"), "spec": { "roleName": format!("c{at}"), "podSpec": { "containers": containers } },
                    "topologyConstraint": { "topologyName": topology, "pack": { "required": domain } } })
            }).collect();
            let set =
                json!({ "metadata": { "name": name }, "spec": { "replicas": 1, "template": { "cliques": cliques } } });
            self.store("PodCliqueSet", Some(namespace), set).await;
            if refers.scheduled {
                self.scheduled(namespace, name).await;
            }
        }
    }

    pub(super) async fn prepare_scale(&self, number: usize, row: &ScaleRow) -> Asked {
        let namespace = format!("scale-{number}");
        self.namespace(&namespace).await;
        let mut set = row.set_object();
        set["metadata"]["namespace"] = json!(namespace);
        let name = if row.of == "set" { set["metadata"]["name"].as_str().expect("a name") } else { "serve-0-model" };
        let name = row.name.clone().unwrap_or_else(|| name.to_owned());
        self.store("PodCliqueSet", Some(&namespace), set).await;
        let metadata = json!({ "name": name, "labels": { "app.kubernetes.io/part-of": "serve" } });
        let mut spec = json!({ "replicas": row.from, "minAvailable": row.min_available });
        let plural = match row.of.as_str() {
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
        Asked {
            title: format!("scale: {} {}", row.of, row.case),
            path: format!("/apis/grove.io/v1alpha1/namespaces/{namespace}/{plural}"),
            act: Act::Scale(row.to),
            name,
            user: None,
            webhook: OF_SCALES,
            refused: row.refused.clone(),
            warned: row.warned.clone(),
            definition: row.definition.clone(),
            filled_in: None,
        }
    }

    /// A clique of the set has pods on nodes.
    async fn scheduled(&self, namespace: &str, set: &str) {
        let labels = BTreeMap::from([("app.kubernetes.io/part-of", set)]);
        let containers = json!([{ "name": "main", "image": "pause" }]);
        let name = format!("{set}-0-front");
        let clique = json!({ "metadata": { "name": name, "labels": labels },
            "spec": { "replicas": 1, "minAvailable": 1, "podSpec": { "containers": containers } } });
        self.store("PodClique", Some(namespace), clique).await;
        let status = Patch::Merge(json!({ "status": { "replicas": 1, "scheduledReplicas": 1 } }));
        let cliques = self.api("PodClique", Some(namespace));
        cliques.patch_status(&name, &PatchParams::default(), &status).await.expect("the status is written");
    }

    async fn namespace(&self, name: &str) {
        self.store("Namespace", None, json!({ "metadata": { "name": name } })).await;
    }

    /// Creates it, or leaves what is there. While the API server still asks webhooks that were taken away, it is tried again.
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
                    return api.get(&name).await.expect("what is there");
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

/// Deletes the webhooks, and returns them as they can be created again.
async fn taken_away<K>(client: &Client) -> Vec<K>
where
    K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + std::fmt::Debug,
{
    let api = Api::<K>::all(client.clone());
    let ours = ListParams::default().labels("app.kubernetes.io/name=webhook-server");
    let mut all = api.list(&ours).await.expect("the webhooks").items;
    for one in &mut all {
        api.delete(&one.name_any(), &DeleteParams::default()).await.expect("it is taken away");
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
        other => panic!("{other} is not stored by this test"),
    }
}
