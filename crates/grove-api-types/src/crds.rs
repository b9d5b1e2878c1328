//! The custom resource definitions of every kind, ready to be written out and applied.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;

use crate::scheduler_v1alpha1::PodGang;
use crate::v1alpha1::{ClusterTopology, ClusterTopologyBinding, PodClique, PodCliqueScalingGroup, PodCliqueSet};

mod kubernetes;
mod rules;

/// Fields whose type is Kubernetes' own, and what is said of them.
const FOREIGN: [(&str, &str); 3] = [
    ("podSpec", "The pods, as Kubernetes knows them: a core/v1 PodSpec."),
    (
        "metrics",
        "What the autoscaler looks at: autoscaling/v2 MetricSpecs. Without any, Kubernetes aims at 80 % of the requested CPU.",
    ),
    ("templateSpec", "What the claims ask for: a resource.k8s.io/v1 ResourceClaimTemplateSpec."),
];

/// All definitions, in the order of the reference. What Kubernetes says of its own fields is left out: with it a
/// definition would be too large for a plain `kubectl apply`.
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
                // What the kind is for is said of its spec; `kubectl explain` asks for it here.
                root.description = root.properties.as_ref().and_then(|fields| fields.get("spec")?.description.clone());
                finish(root);
                rules::add(&spec.names.kind, root);
            }
        }
    }
    crds
}

/// Finishes the schema of our own fields, and those of Kubernetes within them. No field is nullable, so a null is
/// dropped by the API server before it is stored, as everywhere in Kubernetes.
fn finish(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    for (name, field) in schema.properties.iter_mut().flatten() {
        if let Some((_, description)) = FOREIGN.iter().find(|(foreign, _)| foreign == name) {
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
