//! MNNVL (`NVLink` between nodes): the cliques that request GPUs, the compute domains that a set needs, and the claim by which the pods
//! of a clique use their domain.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use serde_json::{Map, Value, json};

use crate::deletion::is_terminating;
use crate::labels::{AUTO_MNNVL, AUTO_MNNVL_ENABLED, MNNVL_GROUP, NO_MNNVL_GROUP};
use crate::names::{ComputeDomainName, PodClaimName, PodCliqueSetName};
use crate::pod_spec::RawPodSpec;
use crate::scheduler_v1alpha1::PodGang;
use crate::v1alpha1::{PodCliqueScalingGroupConfig, PodCliqueSet, PodCliqueTemplateSpec};

mod claim;

pub use self::claim::inject_claim;

/// The extended resource of GPUs.
const GPU: &str = "nvidia.com/gpu";

/// Whether a container or init container of the pod requests GPUs, in its limits or requests. GPUs of resource claims do not
/// count.
pub fn requests_gpu(pod: &RawPodSpec) -> bool {
    let requests = |containers: Value| containers.as_array().into_iter().flatten().any(container_requests_gpu);
    ["containers", "initContainers"].into_iter().filter_map(|field| pod.get(field)).any(requests)
}

/// A pod spec that requests GPUs exactly if `pod` does, and has no other field.
pub fn only_gpu_request(pod: &RawPodSpec) -> RawPodSpec {
    let mut only = RawPodSpec::from(Map::new());
    if requests_gpu(pod) {
        only.insert("containers", json!([{ "resources": { "limits": { GPU: 1 } } }]));
    }
    only
}

/// Whether the container requests GPUs, in its limits or requests.
fn container_requests_gpu(container: &Value) -> bool {
    gpus_of_container(container) > 0
}

/// The GPUs that a pod of this spec gets: those of its containers together, or of the init container with most, if it has more.
pub fn gpus_of_pod(pod: &RawPodSpec) -> u64 {
    let of_containers = |field: &str| {
        let containers = pod.get(field);
        let containers = containers.as_ref().and_then(Value::as_array).into_iter().flatten();
        containers.map(gpus_of_container).collect::<Vec<_>>()
    };
    let init = of_containers("initContainers").into_iter().max().unwrap_or_default();
    of_containers("containers").into_iter().fold(0, u64::saturating_add).max(init)
}

/// A positive quantity that is not written as an integer counts as more than any node has.
fn gpus_of_container(container: &Value) -> u64 {
    let integer = |quantity: &Value| quantity.as_u64().or_else(|| quantity.as_str()?.parse().ok());
    let count = |quantity| integer(quantity).unwrap_or(if is_positive(quantity) { u64::MAX } else { 0 });
    let amount = |kind: &str| container.get("resources")?.get(kind)?.get(GPU);
    ["limits", "requests"].into_iter().filter_map(amount).map(count).max().unwrap_or_default()
}

/// Whether a clique of the set spans nodes: it has several pods with GPUs, and they do not fit a node with this many GPUs together. Without
/// a number, no pods fit. The pods of a clique are the largest number that its template names.
pub fn spans_nodes(set: &PodCliqueSet, gpus_per_node: Option<u64>) -> bool {
    set.spec.template.cliques.iter().any(|clique| {
        let largest = clique.spec.auto_scaling_config.as_ref().map_or(0, |config| config.max_replicas);
        let pods = u64::try_from(clique.spec.replicas.max(largest)).unwrap_or_default();
        let gpus = gpus_of_pod(&clique.spec.pod_spec);
        let is_on_one_node = gpus_per_node.is_some_and(|node| pods.saturating_mul(gpus) <= node);
        gpus > 0 && pods > 1 && !is_on_one_node
    })
}

/// Whether a quantity is greater than 0. `0`, `"0"` and `"0.0"` are not.
fn is_positive(quantity: &Value) -> bool {
    match quantity {
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => text.bytes().any(|byte| (b'1'..=b'9').contains(&byte)),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    }
}

/// Whether the pod has a claim with the name of the claim of a compute domain.
pub fn has_domain_claim(pod: &RawPodSpec) -> bool {
    domain_claim(pod).is_some()
}

/// The `ResourceClaimTemplate` of the claim with the name of the claim of a compute domain; `None` if the pod has none.
pub fn domain_template(pod: &RawPodSpec) -> Option<String> {
    Some(domain_claim(pod)?.get("resourceClaimTemplateName")?.as_str()?.to_owned())
}

fn domain_claim(pod: &RawPodSpec) -> Option<Value> {
    let name = PodClaimName::of_compute_domain();
    let is_named = |claim: &&Value| claim.get("name").and_then(Value::as_str) == Some(name.as_str());
    pod.get("resourceClaims")?.as_array()?.iter().find(is_named).cloned()
}

/// Whether each replica of the set has one compute domain for all its cliques with GPUs.
pub fn is_auto_mnnvl(set: &PodCliqueSet) -> bool {
    set.annotations().get(AUTO_MNNVL).is_some_and(|value| value == AUTO_MNNVL_ENABLED)
}

/// The MNNVL group of a clique: the annotation of the clique, otherwise of its scaling group, otherwise of the set. The value `none`
/// ends the search.
pub fn mnnvl_group<'a>(
    set: &'a PodCliqueSet,
    group: Option<&'a PodCliqueScalingGroupConfig>,
    clique: &'a PodCliqueTemplateSpec,
) -> Option<&'a str> {
    let nearest = clique.annotations.get(MNNVL_GROUP);
    let nearest = nearest.or_else(|| group?.annotations.get(MNNVL_GROUP));
    let nearest = nearest.or_else(|| set.annotations().get(MNNVL_GROUP));
    nearest.map(String::as_str).filter(|group| *group != NO_MNNVL_GROUP)
}

/// A compute domain that a set needs. The same name has the `ResourceClaimTemplate` that NVIDIA's driver creates for the domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredDomain<'a> {
    /// The name of its `ComputeDomain`.
    pub name: ComputeDomainName,
    /// The replica of the set that uses the domain.
    pub replica: i32,
    /// The MNNVL group whose cliques share the domain; `None` if all cliques of the replica share it.
    pub group: Option<&'a str>,
}

/// The domains that the set needs for its current number of replicas, in the order of the replicas. The scale of cliques and scaling
/// groups does not matter: a domain exists before the first pod that uses it, and as long as its replica.
pub fn required_domains(set: &PodCliqueSet) -> impl Iterator<Item = RequiredDomain<'_>> {
    let (name, groups) = (PodCliqueSetName::new(set.name_any()), domain_groups(set));
    (0..set.spec.replicas).flat_map(move |replica| domains_of_replica(&name, replica, &groups))
}

/// The domain of this name, if the set needs it. Unlike a search in [`required_domains`], this does not visit all replicas.
pub fn required_domain<'a>(set: &'a PodCliqueSet, name: &str) -> Option<RequiredDomain<'a>> {
    let replica = ComputeDomainName::replica_in(&PodCliqueSetName::new(set.name_any()), name)?;
    if !(0..set.spec.replicas).contains(&replica) {
        return None;
    }
    required_domains_of_replica(set, replica).into_iter().find(|required| required.name.as_str() == name)
}

/// The domains of one replica of the set; the index may exceed the replicas of the set.
pub fn required_domains_of_replica(set: &PodCliqueSet, replica: i32) -> Vec<RequiredDomain<'_>> {
    domains_of_replica(&PodCliqueSetName::new(set.name_any()), replica, &domain_groups(set))
}

/// Whether cliques of a replica existed, so that its next cliques replace them and do not wait for compute domains. Then the base gang of the
/// replica has references to pods. As long as it has, no domain that the replica needs may disappear.
pub fn had_cliques(base_gang: &PodGang) -> bool {
    let mut groups = base_gang.spec.podgroups.iter();
    !is_terminating(base_gang) && groups.any(|group| !group.pod_references.is_empty())
}

/// The domain whose claim the pods of a clique get; `None` if the clique requests no GPUs, or uses no domain.
pub fn domain_of_clique(
    set: &PodCliqueSet,
    replica: i32,
    group: Option<&PodCliqueScalingGroupConfig>,
    clique: &PodCliqueTemplateSpec,
) -> Option<ComputeDomainName> {
    let name = PodCliqueSetName::new(set.name_any());
    let domain = if is_auto_mnnvl(set) {
        ComputeDomainName::of_replica(&name, replica)
    } else {
        ComputeDomainName::of_group(&name, replica, mnnvl_group(set, group, clique)?)
    };
    requests_gpu(&clique.spec.pod_spec).then_some(domain)
}

/// The groups that have a domain in each replica. The automatic domain of a replica has no group, and exists also without GPUs.
fn domain_groups(set: &PodCliqueSet) -> BTreeSet<Option<&str>> {
    if is_auto_mnnvl(set) {
        return BTreeSet::from([None]);
    }
    let template = &set.spec.template;
    let mut by_member = BTreeMap::new();
    for group in &template.pod_clique_scaling_groups {
        for member in &group.clique_names {
            by_member.entry(member.as_str()).or_insert(group);
        }
    }
    let with_gpu = template.cliques.iter().filter(|clique| requests_gpu(&clique.spec.pod_spec));
    let groups = with_gpu.filter_map(|clique| mnnvl_group(set, by_member.get(clique.name.as_str()).copied(), clique));
    groups.map(Some).collect()
}

fn domains_of_replica<'a>(
    set: &PodCliqueSetName,
    replica: i32,
    groups: &BTreeSet<Option<&'a str>>,
) -> Vec<RequiredDomain<'a>> {
    let name = |group: Option<&str>| match group {
        None => ComputeDomainName::of_replica(set, replica),
        Some(group) => ComputeDomainName::of_group(set, replica, group),
    };
    groups.iter().map(|group| RequiredDomain { name: name(*group), replica, group: *group }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(value: Value) -> RawPodSpec {
        serde_json::from_value(value).expect("a pod spec")
    }

    fn gpus(count: &Value) -> Value {
        json!({ "name": "c", "resources": { "limits": { "nvidia.com/gpu": count } } })
    }

    #[test]
    fn the_gpus_of_a_pod_are_those_of_its_containers_or_of_the_largest_init_container() {
        for (spec, expected) in [
            (json!({ "containers": [gpus(&json!("2")), gpus(&json!(3)), { "name": "d" }] }), 5),
            (json!({ "containers": [gpus(&json!(1))], "initContainers": [gpus(&json!(4)), gpus(&json!(3))] }), 4),
            (json!({ "containers": [{ "resources": { "requests": { "nvidia.com/gpu": "1" } } }] }), 1),
            (json!({ "containers": [gpus(&json!("0"))] }), 0),
            (json!({ "containers": [gpus(&json!("1k")), gpus(&json!(1))] }), u64::MAX),
            (json!({}), 0),
        ] {
            assert_eq!(gpus_of_pod(&pod(spec.clone())), expected, "{spec}");
        }
    }

    #[test]
    fn a_set_spans_nodes_if_the_pods_of_a_clique_do_not_fit_one() {
        let spans = |replicas: i32, max: Option<i32>, count: u64, node: Option<u64>| {
            let clique = |replicas: i32, count: u64, scaling: Value| {
                json!({ "name": "c", "spec": { "roleName": "c", "replicas": replicas, "autoScalingConfig": scaling,
                    "podSpec": { "containers": [gpus(&json!(count))] } } })
            };
            let scaling = max.map_or(Value::Null, |max| json!({ "maxReplicas": max }));
            let cliques = [clique(1, 8, Value::Null), clique(replicas, count, scaling)];
            let set = json!({ "metadata": {}, "spec": { "replicas": 1, "template": { "cliques": cliques } } });
            spans_nodes(&serde_json::from_value(set).expect("a set"), node)
        };
        assert!(!spans(4, None, 2, Some(8)));
        assert!(spans(5, None, 2, Some(8)));
        assert!(spans(1, Some(5), 2, Some(8)), "the autoscaler may create five pods");
        assert!(!spans(1, None, 16, Some(8)), "each clique has one pod");
        assert!(!spans(100, None, 0, Some(8)), "without GPUs");
        assert!(spans(2, None, 1, None), "no node has GPUs yet");
    }
}
