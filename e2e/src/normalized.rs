//! The objects of a namespace as normalised text: two runs with the same end state yield the same lines. UIDs, names derived
//! from UIDs, times and the name of the namespace are replaced or removed.

use std::collections::{BTreeMap, BTreeSet};

use grove_dev_harness::live_objects::LiveObjects;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::namespace_state::{NamespaceState, is_ready};
use crate::native_gangs::named_pod_group;
use crate::snapshot::hostname;
use grove_api_types::deletion::is_terminating;
use grove_api_types::labels::RESOURCE_CLAIMS;
use grove_api_types::pod_group::number;

/// Fields of an object's metadata that differ between runs.
const RUN_SPECIFIC_FIELDS: [&str; 5] = ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"];

/// One normalised line per object.
///
/// # Panics
/// If an object cannot be serialised.
pub fn lines(state: &NamespaceState) -> BTreeSet<String> {
    let aliases = Aliases::of(state);
    object_lines(state, &aliases).collect()
}

/// Whether the objects have these lines. Stops at the first difference: waiting tests call this after every watch event.
///
/// # Panics
/// If an object cannot be serialised.
pub fn has_lines(state: &NamespaceState, expected: &BTreeSet<String>) -> bool {
    let aliases = Aliases::of(state);
    let mut count = 0;
    let is_expected = |line: String| {
        count += 1;
        expected.contains(&line)
    };
    object_lines(state, &aliases).all(is_expected) && count == expected.len()
}

/// The lines. Those of sets are first, because the status of a set is complete last.
fn object_lines<'s>(state: &'s NamespaceState, aliases: &'s Aliases) -> impl Iterator<Item = String> + 's {
    let LiveObjects { sets, groups, cliques, gangs, services, autoscalers, claims, pods } = &state.objects;
    let without_allocation = |claim: &ResourceClaim| ResourceClaim { status: None, ..claim.clone() };
    let sets = sets.values().map(|object| aliases.object_line(object));
    let gangs = gangs.values().map(|object| aliases.object_line(object));
    let groups = groups.values().map(|object| aliases.object_line(object));
    let cliques = cliques.values().map(|object| aliases.object_line(object));
    let services = services.values().map(|object| aliases.object_line(object));
    let autoscalers = autoscalers.values().map(|object| aliases.object_line(&without_status(object.clone())));
    let claims = claims.values().map(move |claim| aliases.object_line(&without_allocation(claim)));
    let pods = pods.values().map(|pod| aliases.pod_line(pod));
    sets.chain(gangs).chain(groups).chain(cliques).chain(services).chain(autoscalers).chain(claims).chain(pods)
}

/// The status that Kubernetes' own controller writes depends on timing.
fn without_status(
    object: k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler,
) -> k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler {
    k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler { status: None, ..object }
}

/// Replacements of run-specific texts: a pod's name by its host name, a UID by the name of its object, the name of a `PodGroup` by that of
/// its gang, the number of its incarnation by `current`.
struct Aliases {
    names: BTreeMap<String, String>,
    /// The name of the namespace, which is part of host names in environment variables.
    namespace: Option<String>,
}

impl Aliases {
    fn of(state: &NamespaceState) -> Self {
        let mut names = BTreeMap::new();
        for pod in state.pods.values() {
            names.insert(pod.name_any(), format!("pod {}", hostname(pod)));
        }
        let sets = state.sets.values().map(|set| (set.uid(), set.name_any()));
        let groups = state.groups.values().map(|group| (group.uid(), group.name_any()));
        let cliques = state.cliques.values().map(|clique| (clique.uid(), clique.name_any()));
        names
            .extend(sets.chain(groups).chain(cliques).filter_map(|(uid, name)| Some((uid?, format!("uid of {name}")))));
        let pod_groups = state.gangs.keys().filter_map(|gang| Some((named_pod_group(state, gang)?, gang)));
        for (group, gang) in pod_groups {
            // Two gangs may have the same number.
            names.extend(number(gang, group).map(|number| (number.incarnation.to_string(), "current".to_owned())));
            names.insert(group.to_owned(), format!("PodGroup of {gang}"));
        }
        let namespace = state.pods.values().find_map(ResourceExt::namespace);
        names.extend(namespace.clone().map(|namespace| (namespace, "namespace".to_owned())));
        Self { names, namespace }
    }

    fn object_line<K: Resource<DynamicType = ()> + Serialize>(&self, object: &K) -> String {
        let mut value = serde_json::to_value(object).expect("JSON");
        let generation = value["metadata"]["generation"].clone();
        for field in RUN_SPECIFIC_FIELDS {
            value["metadata"].as_object_mut().expect("metadata").remove(field);
        }
        let value = self.normalize_value(&value, &generation);
        format!("{} {}: {value}", K::kind(&()), object.name_any())
    }

    /// The fields of a pod that Grove decides, and its readiness. Admission plugins, the scheduler and the kubelet write the
    /// rest.
    fn pod_line(&self, pod: &Pod) -> String {
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
            "group": spec.scheduling_group,
            "containers": containers.collect::<Vec<_>>(),
            "terminating": is_terminating(pod),
            "ready": is_ready(pod),
        });
        format!("Pod {}: {}", hostname(pod), self.normalize_value(&value, &Value::Null))
    }

    fn normalize_value(&self, value: &Value, generation: &Value) -> Value {
        match value {
            Value::String(text) => self.names.get(text).map_or_else(|| value.clone(), |name| json!(name)),
            Value::Array(items) => {
                let mut items: Vec<_> = items.iter().map(|item| self.normalize_value(item, generation)).collect();
                // Pod references are sorted by the original names of the pods, which differ between runs. Several services write
                // conditions of gangs, in any order.
                let has_any_order = |item: &Value| item["namespace"].is_string() || item["reason"].is_string();
                if items.iter().all(has_any_order) {
                    items.sort_by_key(ToString::to_string);
                }
                Value::Array(items)
            }
            Value::Object(fields) => Value::Object(self.normalize_fields(fields, generation)),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    fn normalize_fields(&self, fields: &Map<String, Value>, generation: &Value) -> Map<String, Value> {
        let normalized = |(field, value): (&String, &Value)| match field.as_str() {
            "lastTransitionTime" | "lastScheduled" | "updateStartedAt" | "updateEndedAt" | "lastProgressedAt" => None,
            "observedGeneration" if value == generation => Some((field.clone(), json!("current"))),
            // The value is JSON with a UID.
            RESOURCE_CLAIMS => {
                let claims =
                    value.as_str().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_else(|| value.clone());
                Some((field.clone(), self.normalize_value(&claims, generation)))
            }
            "env" => Some((field.clone(), json!(self.without_namespace(&value.to_string())))),
            _ => Some((field.clone(), self.normalize_value(value, generation))),
        };
        fields.iter().filter_map(normalized).collect()
    }

    fn without_namespace(&self, text: &str) -> String {
        self.namespace.as_ref().map_or_else(|| text.to_owned(), |namespace| text.replace(namespace, "namespace"))
    }
}
