//! What Grove adds to the pods of a clique. [`DECORATORS`] lists the parts in the order in which they are added. The init container of Grove
//! comes after the environment and the claims, which are for the containers of the user.

use std::collections::BTreeMap;

use grove_api_types::names::{ClaimOwner, HeadlessServiceName, Hostname, PodCliqueName, ResourceClaimName};
use grove_api_types::pod_spec::RawPodSpec;
use grove_api_types::resource_sharing::pod_claims::inject;
use grove_api_types::scheduler::{PodIdentity, PodMetadata, Scheduler};
use grove_api_types::v1alpha1::PodClique;
use grove_api_types::{environment, labels};
use kube::ResourceExt;
use serde_json::{Map, Value, json};

use super::first_pods::FirstPods;
use super::{affinity, env};
use crate::clique::observed::Observed;
use crate::gangs;
use crate::observed::CliqueIdentity;
use crate::startup;

/// The parts of a pod that are not from the template of the user.
pub(crate) const DECORATORS: &[Decorator] = &[
    Decorator { name: "identity", is_hashed: false, add: Add::All(identity) },
    Decorator { name: "subdomain", is_hashed: false, add: Add::All(subdomain) },
    Decorator { name: "PodGroup", is_hashed: false, add: Add::All(pod_group) },
    Decorator { name: "scheduler", is_hashed: false, add: Add::All(scheduler) },
    Decorator { name: "affinity", is_hashed: false, add: Add::All(pod_affinity) },
    Decorator { name: "environment", is_hashed: false, add: Add::All(variables) },
    Decorator { name: "claims of all pods", is_hashed: false, add: Add::All(claims_of_all_pods) },
    Decorator { name: "init container", is_hashed: false, add: Add::All(init_container) },
    Decorator { name: "scheduling gate", is_hashed: false, add: Add::Gated(scheduling_gate) },
    Decorator { name: "index", is_hashed: false, add: Add::Each(index_label) },
    Decorator { name: "first pods", is_hashed: false, add: Add::Each(first_pod_labels) },
    Decorator { name: "claims of one pod", is_hashed: false, add: Add::Each(claims_of_one_pod) },
    Decorator { name: "hostname", is_hashed: false, add: Add::Each(hostname) },
];

/// A part that Grove adds to pods.
#[cfg_attr(not(test), expect(dead_code, reason = "a test compares the parts with the hash of the pod template"))]
pub(crate) struct Decorator {
    /// Its name.
    pub(crate) name: &'static str,
    /// Whether the hash of the pod template contains it: then pods with another one are outdated. pcs-controller computes the hash of the
    /// template of the user.
    pub(crate) is_hashed: bool,
    /// Adds it.
    pub(crate) add: Add,
}

/// How a part is added: the variants are the pods that get it.
pub(crate) enum Add {
    /// All pods of the clique.
    All(fn(&mut CommonParts, &Observed, &CliqueIdentity)),
    /// The pods with Grove's scheduling gate; the function changes their spec.
    Gated(fn(&mut Map<String, Value>)),
    /// Each pod, by its index.
    Each(fn(&mut OwnParts, &PodsOfClique, i32)),
}

/// What the pods of a clique have in common.
pub(crate) struct CommonParts {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) spec: Map<String, Value>,
}

/// One pod of a clique.
pub(crate) struct OwnParts {
    pub(crate) labels: BTreeMap<String, String>,
    /// The fields of its spec that no other pod has. They are not in `spec`, so that most pods share one text.
    pub(crate) fields: Map<String, Value>,
    /// The other fields of its spec.
    pub(crate) spec: RawPodSpec,
}

/// What the parts of one pod follow from, besides its index.
#[derive(Debug)]
pub(crate) struct PodsOfClique {
    clique: PodCliqueName,
    /// The templates of the claims of which each pod has its own.
    templates_per_pod: Vec<String>,
    first_pods: FirstPods,
}

impl PodsOfClique {
    pub(crate) fn of(observed: &Observed) -> Self {
        Self {
            clique: observed.name(),
            templates_per_pod: observed.claims.templates_per_pod(),
            first_pods: FirstPods::of(&observed.clique),
        }
    }
}

impl CommonParts {
    /// The labels, the annotations and the spec of the clique, without those that are not for its pods.
    pub(crate) fn of(clique: &PodClique) -> Self {
        let mut labels = clique.labels().clone();
        labels.remove(labels::POD_INDEX);
        let mut annotations = clique.annotations().clone();
        let of_clique = [
            labels::LAST_APPLIED,
            labels::GENERATION_HASH,
            labels::UPDATE_BOUNDS,
            labels::POD_GROUP,
            labels::RESOURCE_CLAIMS,
            labels::FIRST_GROUP_POD_INDEX,
            labels::FIRST_SET_POD,
        ];
        annotations.retain(|key, _| !of_clique.contains(&key.as_str()));
        let mut spec = clique.spec.pod_spec.fields();
        spec.remove("hostname");
        // The pods of a set that names a PodGroup of its own are scheduled individually.
        spec.remove("schedulingGroup");
        Self { labels, annotations, spec }
    }
}

/// The labels that identify a pod, except for its index. The hash of its template is not one of them: it describes the template that
/// the pod was created from, and a later change of the clique does not change it.
pub(crate) fn common_labels(observed: &Observed, identity: &CliqueIdentity) -> BTreeMap<String, String> {
    let is_inherited =
        |key: &str| labels::is_grove_label(key) && key != labels::TEMPLATE_HASH && key != labels::POD_INDEX;
    let inherited = observed.clique.labels().iter().filter(|(key, _)| is_inherited(key));
    let mut common: BTreeMap<_, _> = inherited.map(|(key, value)| (key.clone(), value.clone())).collect();
    common.extend(labels::base(&identity.set));
    common.extend(labels::of([
        (labels::POD_CLIQUE, observed.name().as_str()),
        (labels::SET_REPLICA, &identity.replica.to_string()),
        (labels::POD_GANG, identity.gang.as_str()),
    ]));
    common
}

fn identity(pods: &mut CommonParts, observed: &Observed, identity: &CliqueIdentity) {
    pods.labels.extend(common_labels(observed, identity));
}

/// The subdomain of the headless Service.
fn subdomain(pods: &mut CommonParts, _observed: &Observed, identity: &CliqueIdentity) {
    let service_name = HeadlessServiceName::of_replica(&identity.set, identity.replica);
    pods.spec.insert("subdomain".into(), String::from(service_name).into());
}

/// The `PodGroup` of the workload API, and what later reconciles read about it.
fn pod_group(pods: &mut CommonParts, observed: &Observed, _identity: &CliqueIdentity) {
    if let Some(incarnation) = gangs::incarnation(&observed.clique) {
        pods.labels.insert(labels::POD_GANG_INCARNATION.to_owned(), incarnation.to_string());
        // A pod without the annotation was created before the annotation existed.
        pods.annotations.entry(labels::PACK_AFFINITY.to_owned()).or_default();
    }
    if let Some(name) = gangs::pod_group_of_new_pods(observed) {
        pods.spec.insert("schedulingGroup".into(), json!({ "podGroupName": name }));
    }
}

/// The default scheduler, and the metadata that the scheduler reads, if Grove knows it.
fn scheduler(pods: &mut CommonParts, observed: &Observed, identity: &CliqueIdentity) {
    let named = pods.spec.get("schedulerName").and_then(Value::as_str).filter(|name| !name.is_empty());
    let scheduler = named.map_or(Some(observed.default_scheduler), Scheduler::named);
    if named.is_none() {
        pods.spec.insert("schedulerName".into(), observed.default_scheduler.name().into());
    }
    let clique = observed.clique.metadata.name.as_deref().unwrap_or_default();
    let pod = PodIdentity { gang: identity.gang.as_str(), clique };
    if let Some(PodMetadata { labels, annotations }) = scheduler.map(|scheduler| scheduler.pod_metadata(pod)) {
        pods.labels.extend(labels);
        pods.annotations.extend(annotations);
    }
}

fn pod_affinity(pods: &mut CommonParts, observed: &Observed, identity: &CliqueIdentity) {
    affinity::add(&mut pods.spec, observed, identity);
}

fn variables(pods: &mut CommonParts, observed: &Observed, identity: &CliqueIdentity) {
    environment::prepend(&mut pods.spec, &env::variables(observed, identity));
}

fn claims_of_all_pods(pods: &mut CommonParts, observed: &Observed, _identity: &CliqueIdentity) {
    let claims = observed.claims.of_all_pods(&observed.name());
    if !claims.is_empty() {
        let mut spec = RawPodSpec::from(std::mem::take(&mut pods.spec));
        inject(&mut spec, &claims);
        pods.spec = spec.fields();
    }
}

/// The init container gets neither the environment nor claims: `inject` omits it, because the claims of one pod are added later.
fn init_container(pods: &mut CommonParts, observed: &Observed, identity: &CliqueIdentity) {
    startup::add_init_container(&mut pods.spec, &observed.startup, &identity.set);
}

/// The user's gates stay. The name of a gate is a key of the list, so the API server rejects a second gate of that name.
fn scheduling_gate(spec: &mut Map<String, Value>) {
    let gates = spec.entry("schedulingGates").or_insert_with(|| json!([]));
    if gates.is_null() {
        *gates = json!([]);
    }
    let lacks_gate = |gates: &&mut Vec<Value>| gates.iter().all(|gate| gate["name"] != labels::SCHEDULING_GATE);
    if let Some(gates) = gates.as_array_mut().filter(lacks_gate) {
        gates.push(json!({ "name": labels::SCHEDULING_GATE }));
    }
}

fn index_label(pod: &mut OwnParts, _pods: &PodsOfClique, index: i32) {
    pod.labels.insert(labels::POD_INDEX.to_owned(), index.to_string());
}

fn first_pod_labels(pod: &mut OwnParts, pods: &PodsOfClique, index: i32) {
    pod.labels.extend(pods.first_pods.labels(index));
}

fn claims_of_one_pod(pod: &mut OwnParts, pods: &PodsOfClique, index: i32) {
    if !pods.templates_per_pod.is_empty() {
        let owner = ClaimOwner::Clique(&pods.clique);
        let claim = |template: &String| ResourceClaimName::of_replica(owner, index, template);
        inject(&mut pod.spec, &pods.templates_per_pod.iter().map(claim).collect::<Vec<_>>());
    }
}

fn hostname(pod: &mut OwnParts, pods: &PodsOfClique, index: i32) {
    pod.fields.insert("hostname".to_owned(), json!(Hostname::of_pod(&pods.clique, index)));
}
