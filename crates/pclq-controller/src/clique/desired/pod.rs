//! The pods of a clique. They are built from the raw pod spec, so that no field is lost. Only name, index label, hostname and the claims
//! per pod differ from pod to pod.

use std::borrow::Cow;
use std::collections::BTreeMap;

use grove_api_types::names::{ClaimOwner, HeadlessServiceName, Hostname, PodCliqueName, PodName, ResourceClaimName};
use grove_api_types::ownership::controller_owner_reference;
use grove_api_types::pod_spec::RawPodSpec;
use grove_api_types::resource_sharing::pod_claims::inject;
use grove_api_types::scheduler::{PodIdentity, PodMetadata, Scheduler};
use grove_api_types::{environment, labels};
use grove_controller::plan::{ManifestTemplate, Target};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::ApiResource;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::first_pods::FirstPods;
use super::{affinity, env};
use crate::clique::observed::{GatedPods, Observed};
use crate::observed::CliqueIdentity;

/// Everything that the pods of a clique have in common.
#[derive(Debug)]
pub(crate) struct PodTemplate {
    clique: PodCliqueName,
    /// The metadata without the name and the index label.
    metadata: ObjectMeta,
    /// The spec of the pods without the gate.
    spec: SharedSpec,
    /// The spec of the pods with Grove's scheduling gate; `None` if no pod has it.
    gated_spec: Option<SharedSpec>,
    /// The pods that have the gate.
    gating: GatedPods,
    /// The templates of the claims of which each pod has its own.
    templates_per_pod: Vec<String>,
    first_pods: FirstPods,
}

/// The fields of a spec that the pods have in common.
#[derive(Debug)]
enum SharedSpec {
    /// All fields except for the hostname: JSON text without the braces.
    Text(String),
    /// The fields of pods with claims of their own.
    WithoutOwnClaims(RawPodSpec),
}

impl PodTemplate {
    /// The template of the pods of the observed clique.
    pub(crate) fn of(observed: &Observed, identity: &CliqueIdentity) -> Self {
        let templates_per_pod = observed.claims.templates_per_pod();
        let shared = |spec: &RawPodSpec| {
            if templates_per_pod.is_empty() {
                SharedSpec::Text(fields_text(spec))
            } else {
                SharedSpec::WithoutOwnClaims(spec.clone())
            }
        };
        let (mut spec, gating) = (spec(observed, identity), observed.gating());
        let plain = shared(&spec);
        let gated_spec = (gating != GatedPods::None).then(|| {
            spec.edit(add_scheduling_gate);
            shared(&spec)
        });
        let (clique, metadata) = (observed.name(), metadata(observed, identity));
        let first_pods = FirstPods::of(&observed.clique);
        Self { clique, metadata, spec: plain, gated_spec, gating, templates_per_pod, first_pods }
    }

    /// The fields of the spec of the pod with this index, without the hostname.
    fn spec_fields(&self, index: i32) -> Cow<'_, str> {
        let gated = self.gated_spec.as_ref().filter(|_| self.gating.is_gated(index));
        match gated.unwrap_or(&self.spec) {
            SharedSpec::Text(fields) => Cow::Borrowed(fields),
            SharedSpec::WithoutOwnClaims(spec) => {
                let (mut spec, owner) = (spec.clone(), ClaimOwner::Clique(&self.clique));
                let claim = |template: &String| ResourceClaimName::of_replica(owner, index, template);
                inject(&mut spec, &self.templates_per_pod.iter().map(claim).collect::<Vec<_>>());
                Cow::Owned(fields_text(&spec))
            }
        }
    }

    /// The pod of this name, which does not exist yet.
    pub(crate) fn target(&self, name: PodName) -> Target {
        let (resource, namespace) = (ApiResource::erase::<Pod>(&()), self.metadata.namespace.clone());
        Target { resource, namespace, name: name.into(), uid: None }
    }
}

impl ManifestTemplate for PodTemplate {
    fn render(&self, name: &str, index: i32) -> String {
        let mut metadata = self.metadata.clone();
        metadata.name = Some(name.to_owned());
        let labels = metadata.labels.get_or_insert_default();
        labels.insert(labels::POD_INDEX.to_owned(), index.to_string());
        labels.extend(self.first_pods.labels(index));
        let (version, kind) = (json!(Pod::api_version(&())), json!(Pod::kind(&())));
        let (metadata, hostname) = (json_text(&metadata), json!(Hostname::of_pod(&self.clique, index)));
        let spec_fields = self.spec_fields(index);
        format!(
            r#"{{"apiVersion":{version},"kind":{kind},"metadata":{metadata},"spec":{{"hostname":{hostname},{spec_fields}}}}}"#
        )
    }
}

/// The fields as JSON text without the braces.
fn fields_text(spec: &RawPodSpec) -> String {
    let text = spec.text();
    text.strip_prefix('{').and_then(|fields| fields.strip_suffix('}')).unwrap_or_default().to_owned()
}

#[expect(clippy::expect_used, reason = "a part of a pod consists of maps with string keys, which always serialise")]
fn json_text(part: &impl Serialize) -> String {
    serde_json::to_string(part).expect("a part of a pod serialises")
}

fn metadata(observed: &Observed, identity: &CliqueIdentity) -> ObjectMeta {
    let clique = &observed.clique;
    let mut labels = clique.labels().clone();
    labels.remove(labels::POD_INDEX);
    labels.extend(common_labels(observed, identity));
    let mut annotations = clique.annotations().clone();
    let of_clique = [
        labels::LAST_APPLIED,
        labels::GENERATION_HASH,
        labels::POD_GROUP,
        labels::RESOURCE_CLAIMS,
        labels::FIRST_GROUP_POD_INDEX,
        labels::FIRST_SET_POD,
    ];
    annotations.retain(|key, _| !of_clique.contains(&key.as_str()));
    if let Some(incarnation) = observed.incarnation() {
        labels.insert(labels::POD_GANG_INCARNATION.to_owned(), incarnation.to_string());
        // A pod without the annotation was created before the annotation existed.
        annotations.entry(labels::PACK_AFFINITY.to_owned()).or_default();
    }
    let of_scheduler = scheduler(observed).map(|scheduler| {
        let pod =
            PodIdentity { gang: identity.gang.as_str(), clique: clique.metadata.name.as_deref().unwrap_or_default() };
        scheduler.pod_metadata(pod)
    });
    if let Some(PodMetadata { labels: read_labels, annotations: read_annotations }) = of_scheduler {
        labels.extend(read_labels);
        annotations.extend(read_annotations);
    }
    ObjectMeta {
        namespace: clique.namespace(),
        labels: Some(labels),
        annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
        owner_references: Some(controller_owner_reference(clique)),
        ..ObjectMeta::default()
    }
}

/// The scheduler of the pods, if Grove knows it.
fn scheduler(observed: &Observed) -> Option<Scheduler> {
    let named = observed.clique.spec.pod_spec.string("schedulerName").filter(|name| !name.is_empty());
    named.map_or(Some(observed.default_scheduler), |name| Scheduler::named(&name))
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

/// The user's spec with the subdomain of the pods, the default scheduler, the `PodGroup` and the affinity of the gang, Grove's environment
/// variables, and the claims that all pods of the clique use.
fn spec(observed: &Observed, identity: &CliqueIdentity) -> RawPodSpec {
    let mut spec = observed.clique.spec.pod_spec.fields();
    spec.remove("hostname");
    let service_name = HeadlessServiceName::of_replica(&identity.set, identity.replica);
    spec.insert("subdomain".into(), String::from(service_name).into());
    if spec.get("schedulerName").and_then(Value::as_str).is_none_or(str::is_empty) {
        spec.insert("schedulerName".into(), observed.default_scheduler.name().into());
    }
    // The pods of a set that names a PodGroup of its own are scheduled individually.
    spec.remove("schedulingGroup");
    if let Some(name) = observed.pod_group_of_new_pods() {
        spec.insert("schedulingGroup".into(), json!({ "podGroupName": name }));
    }
    affinity::add(&mut spec, observed, identity);
    environment::prepend(&mut spec, &env::variables(observed, identity));
    let mut spec = RawPodSpec::from(spec);
    inject(&mut spec, &observed.claims.of_all_pods(&observed.name()));
    spec
}

/// Adds Grove's scheduling gate. The user's gates stay. The name of a gate is a key of the list, so the API server rejects a second gate of that name.
fn add_scheduling_gate(spec: &mut Map<String, Value>) {
    let gates = spec.entry("schedulingGates").or_insert_with(|| json!([]));
    if gates.is_null() {
        *gates = json!([]);
    }
    let lacks_gate = |gates: &&mut Vec<Value>| gates.iter().all(|gate| gate["name"] != labels::SCHEDULING_GATE);
    if let Some(gates) = gates.as_array_mut().filter(lacks_gate) {
        gates.push(json!({ "name": labels::SCHEDULING_GATE }));
    }
}
