//! The `CustomResourceDefinition`s of all kinds.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;

use crate::scheduler_v1alpha1::PodGang;
use crate::v1alpha1::{ClusterTopology, ClusterTopologyBinding, PodClique, PodCliqueScalingGroup, PodCliqueSet};

mod cel_rules;
mod kubernetes;

/// Fields with a type of Kubernetes, and their descriptions.
const KUBERNETES_FIELDS: [(&str, &str); 3] = [
    ("podSpec", "The template of the pods: a core/v1 PodSpec."),
    (
        "metrics",
        "The metrics of the autoscaler: autoscaling/v2 MetricSpecs. Without metrics, Kubernetes targets 80 % of the requested CPU.",
    ),
    ("templateSpec", "The template of the claims: a resource.k8s.io/v1 ResourceClaimTemplateSpec."),
];

/// All CRDs. The schemas of Kubernetes' own types have no descriptions: with them a CRD would be too large for a plain
/// `kubectl apply`.
pub fn crds() -> Vec<CustomResourceDefinition> {
    let mut crds = vec![
        PodCliqueSet::crd(),
        PodClique::crd(),
        PodCliqueScalingGroup::crd(),
        ClusterTopologyBinding::crd(),
        ClusterTopology::crd(),
        PodGang::crd(),
    ];
    for spec in crds.iter_mut().map(|crd| &mut crd.spec) {
        for schema in spec.versions.iter_mut().filter_map(|version| version.schema.as_mut()) {
            if let Some(root) = &mut schema.open_api_v3_schema {
                // `kubectl explain` shows the description of the root, the derive macro describes the spec.
                root.description = root.properties.as_ref().and_then(|fields| fields.get("spec")?.description.clone());
                finish(root);
                cel_rules::add(&spec.names.kind, root);
            }
        }
    }
    crds
}

/// Completes the schema of our own fields, and of the fields with a type of Kubernetes. No field is nullable: the API server
/// drops a null before it stores the object, as for Kubernetes' own kinds.
fn finish(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    for (name, field) in schema.properties.iter_mut().flatten() {
        if let Some((_, description)) = KUBERNETES_FIELDS.iter().find(|(known, _)| known == name) {
            kubernetes::finish(field, name);
            field.description = Some((*description).to_owned());
        } else {
            finish(field);
        }
        if name == "conditions" {
            kubernetes::finish_conditions(field);
        }
    }
    within(schema).into_iter().for_each(finish);
}

/// The schema of a list's items, or of a map's values.
fn within(schema: &mut JSONSchemaProps) -> Option<&mut JSONSchemaProps> {
    match (&mut schema.items, &mut schema.additional_properties) {
        (Some(JSONSchemaPropsOrArray::Schema(items)), _) => Some(items),
        (_, Some(JSONSchemaPropsOrBool::Schema(values))) => Some(values),
        _ => None,
    }
}
