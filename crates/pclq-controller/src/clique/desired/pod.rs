//! The pods of a clique. They are built from the raw pod spec, so that no field is lost. [`DECORATORS`] lists what Grove adds to them.

use grove_api_types::names::PodName;
use grove_api_types::ownership::controller_owner_reference;
use grove_api_types::pod_spec::RawPodSpec;
use grove_controller::plan::{ManifestTemplate, Target};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::ApiResource;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde_json::{Map, json};

use super::decorators::{Add, CommonParts, DECORATORS, OwnParts, PodsOfClique};
use crate::clique::observed::Observed;
use crate::gangs::GatedPods;
use crate::observed::CliqueIdentity;

/// Everything that the pods of a clique have in common.
#[derive(Debug)]
pub(crate) struct PodTemplate {
    /// The metadata without the name and the labels of one pod.
    metadata: ObjectMeta,
    /// The spec of the pods without the gate.
    spec: RawPodSpec,
    /// The spec of the pods with Grove's scheduling gate; `None` if no pod has it.
    gated_spec: Option<RawPodSpec>,
    /// The pods that have the gate.
    gating: GatedPods,
    /// What the parts of one pod follow from.
    pods: PodsOfClique,
}

impl PodTemplate {
    /// The template of the pods of the observed clique.
    pub(crate) fn of(observed: &Observed, identity: &CliqueIdentity) -> Self {
        let (clique, gating) = (&observed.clique, observed.gang.gating());
        let mut common = CommonParts::of(clique);
        for decorator in DECORATORS {
            if let Add::All(add) = decorator.add {
                add(&mut common, observed, identity);
            }
        }
        let CommonParts { labels, annotations, spec } = common;
        let gated_spec = (gating != GatedPods::None).then(|| {
            let mut spec = spec.clone();
            for decorator in DECORATORS {
                if let Add::Gated(add) = decorator.add {
                    add(&mut spec);
                }
            }
            RawPodSpec::from(spec)
        });
        let metadata = ObjectMeta {
            namespace: clique.namespace(),
            labels: Some(labels),
            annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
            owner_references: Some(controller_owner_reference(clique)),
            ..ObjectMeta::default()
        };
        Self { metadata, spec: spec.into(), gated_spec, gating, pods: PodsOfClique::of(observed) }
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
        let spec = self.gated_spec.as_ref().filter(|_| self.gating.is_gated(index)).unwrap_or(&self.spec).clone();
        let mut pod = OwnParts { labels: metadata.labels.take().unwrap_or_default(), fields: Map::new(), spec };
        for decorator in DECORATORS {
            if let Add::Each(add) = decorator.add {
                add(&mut pod, &self.pods, index);
            }
        }
        metadata.labels = Some(pod.labels);
        let (version, kind) = (json!(Pod::api_version(&())), json!(Pod::kind(&())));
        let (metadata, own) = (json_text(&metadata), json_text(&pod.fields));
        let (own, fields) = (fields_of(&own), fields_of(pod.spec.text()));
        format!(r#"{{"apiVersion":{version},"kind":{kind},"metadata":{metadata},"spec":{{{own},{fields}}}}}"#)
    }
}

/// The text of an object without the braces.
fn fields_of(object: &str) -> &str {
    object.strip_prefix('{').and_then(|fields| fields.strip_suffix('}')).unwrap_or_default()
}

#[expect(clippy::expect_used, reason = "a part of a pod consists of maps with string keys, which always serialise")]
fn json_text(part: &impl Serialize) -> String {
    serde_json::to_string(part).expect("a part of a pod serialises")
}
