//! What a namespace holds, as text that is the same in every run that ends the same way: names that are derived from uids,
//! and whatever tells of time and place, are taken out.

use std::collections::{BTreeMap, BTreeSet};

use grove_dev_harness::live_objects::LiveObjects;
use k8s_openapi::api::core::v1::Pod;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::shown::hostname;
use crate::world::{World, is_ready};
use grove_api_types::deletion::is_terminating;

/// Fields of an object's metadata that no two runs share.
const OF_THE_RUN: [&str; 5] = ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"];

/// One line per object.
///
/// # Panics
/// When an object does not serialise.
pub fn of(world: &World) -> BTreeSet<String> {
    let names = Names::of(world);
    let LiveObjects { sets, groups, cliques, gangs, services, autoscalers, pods } = &world.objects;
    let mut lines = BTreeSet::new();
    lines.extend(sets.values().map(|object| names.line(object)));
    lines.extend(groups.values().map(|object| names.line(object)));
    lines.extend(cliques.values().map(|object| names.line(object)));
    lines.extend(gangs.values().map(|object| names.line(object)));
    lines.extend(services.values().map(|object| names.line(object)));
    lines.extend(autoscalers.values().map(|object| names.line(&spec_alone(object.clone()))));
    lines.extend(pods.values().map(|pod| names.pod(pod)));
    lines
}

/// What stock controllers say about it depends on the time.
fn spec_alone(
    object: k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler,
) -> k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler {
    k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler { status: None, ..object }
}

/// Names that stand for others: of a pod its host name, of a uid the name of its object.
struct Names(BTreeMap<String, String>);

impl Names {
    fn of(world: &World) -> Self {
        let mut names = BTreeMap::new();
        for pod in world.pods.values() {
            names.insert(pod.name_any(), format!("pod {}", hostname(pod)));
            names.extend(pod.namespace().map(|namespace| (namespace, "namespace".to_owned())));
        }
        let sets = world.sets.values().map(|set| (set.uid(), set.name_any()));
        let groups = world.groups.values().map(|group| (group.uid(), group.name_any()));
        let cliques = world.cliques.values().map(|clique| (clique.uid(), clique.name_any()));
        names
            .extend(sets.chain(groups).chain(cliques).filter_map(|(uid, name)| Some((uid?, format!("uid of {name}")))));
        Self(names)
    }

    fn line<K: Resource<DynamicType = ()> + Serialize>(&self, object: &K) -> String {
        let mut value = serde_json::to_value(object).expect("an object serialises");
        let generation = value["metadata"]["generation"].clone();
        for field in OF_THE_RUN {
            value["metadata"].as_object_mut().expect("metadata").remove(field);
        }
        let value = self.normal(&value, &generation);
        format!("{} {}: {value}", K::kind(&()), object.name_any())
    }

    /// Of a pod, what Grove decides and whether it runs; the rest is stock admission's, the scheduler's and the kubelet's.
    fn pod(&self, pod: &Pod) -> String {
        let spec = pod.spec.clone().unwrap_or_default();
        let of_node = |key: &String| key.starts_with("topology.kubernetes.io/");
        let labels: BTreeMap<_, _> = pod.labels().iter().filter(|(key, _)| !of_node(key)).collect();
        let containers = spec.containers.iter().map(|c| json!({"name": c.name, "image": c.image, "env": c.env}));
        let value = json!({
            "labels": labels,
            "annotations": pod.annotations(),
            "owners": pod.owner_references(),
            "finalizers": pod.finalizers(),
            "subdomain": spec.subdomain,
            "gates": spec.scheduling_gates,
            "containers": containers.collect::<Vec<_>>(),
            "terminating": is_terminating(pod),
            "ready": is_ready(pod),
        });
        format!("Pod {}: {}", hostname(pod), self.normal(&value, &Value::Null))
    }

    fn normal(&self, value: &Value, generation: &Value) -> Value {
        match value {
            Value::String(text) => self.0.get(text).map_or_else(|| value.clone(), |name| json!(name)),
            Value::Array(items) => {
                let mut items: Vec<_> = items.iter().map(|item| self.normal(item, generation)).collect();
                // References are sorted by the names of pods.
                if items.iter().all(|item| item["namespace"].is_string()) {
                    items.sort_by_key(ToString::to_string);
                }
                Value::Array(items)
            }
            Value::Object(fields) => Value::Object(self.fields(fields, generation)),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    fn fields(&self, fields: &Map<String, Value>, generation: &Value) -> Map<String, Value> {
        let normal = |(field, value): (&String, &Value)| match field.as_str() {
            "lastTransitionTime" => None,
            "observedGeneration" if value == generation => Some((field.clone(), json!("current"))),
            "env" => Some((field.clone(), json!(value.to_string().replace(&self.namespace(), "namespace")))),
            _ => Some((field.clone(), self.normal(value, generation))),
        };
        fields.iter().filter_map(normal).collect()
    }

    /// It is part of host names in environment variables.
    fn namespace(&self) -> String {
        let named = self.0.iter().find(|(_, stands_for)| *stands_for == "namespace");
        named.map_or_else(|| "no namespace".to_owned(), |(name, _)| name.clone())
    }
}
