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
    ("podSpec", "The template of the pods: a core/v1 PodSpec. Its field schedulingGroup has no effect."),
    (
        "metrics",
        "The metrics of the autoscaler: autoscaling/v2 MetricSpecs. Without metrics, Kubernetes targets 80 % of the requested CPU.",
    ),
    ("templateSpec", "The template of the claims: a resource.k8s.io/v1 ResourceClaimTemplateSpec."),
];

/// The largest integer that every JSON parser represents exactly.
const MAX_INTEGER: f64 = 9_007_199_254_740_991.0;
/// The times that the services can represent. The format `date-time` of the API server allows further ones.
const TIME: &str = concat!(
    "^([0-8][0-9]{3}|9[0-8][0-9]{2}|99[0-8][0-9]|999[0-8])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])",
    r"T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$",
);

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
    add_bounds(schema);
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

/// Limits integers and times to those that the services can represent. Not every supported API server enforces the formats.
fn add_bounds(schema: &mut JSONSchemaProps) {
    let (least, most) = match schema.format.as_deref() {
        Some("int32") => (f64::from(i32::MIN), f64::from(i32::MAX)),
        Some("int64") => (-MAX_INTEGER, MAX_INTEGER),
        Some("date-time") => {
            schema.pattern = Some(TIME.to_owned());
            return;
        }
        _ => return,
    };
    schema.minimum.get_or_insert(least);
    schema.maximum.get_or_insert(most);
}

/// The schema of a list's items, or of a map's values.
fn within(schema: &mut JSONSchemaProps) -> Option<&mut JSONSchemaProps> {
    match (&mut schema.items, &mut schema.additional_properties) {
        (Some(JSONSchemaPropsOrArray::Schema(items)), _) => Some(items),
        (_, Some(JSONSchemaPropsOrBool::Schema(values))) => Some(values),
        _ => None,
    }
}
