//! The custom resource definitions of every kind, ready to be written out and applied.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;

use crate::core::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use crate::scheduler_group::PodGang;

/// Fields whose type is Kubernetes' own, and what is said of them.
const FOREIGN: [(&str, &str); 3] = [
    ("podSpec", "The pods, as Kubernetes knows them: a core/v1 PodSpec."),
    (
        "metrics",
        "What the autoscaler looks at: autoscaling/v2 MetricSpecs. Without any, Kubernetes aims at 80 % of the requested CPU.",
    ),
    ("templateSpec", "What the claims ask for: a resource.k8s.io/v1 ResourceClaimTemplateSpec."),
];

/// All definitions, in the order of the reference. Descriptions within pod specs are left out: they are Kubernetes' own,
/// and with them a definition would be too large for a plain `kubectl apply`.
pub fn crds() -> Vec<CustomResourceDefinition> {
    let mut crds = vec![PodCliqueSet::crd(), PodClique::crd(), PodCliqueScalingGroup::crd(), PodGang::crd()];
    for schema in crds.iter_mut().flat_map(|crd| &mut crd.spec.versions).filter_map(|version| version.schema.as_mut()) {
        if let Some(root) = &mut schema.open_api_v3_schema {
            trim_pod_specs(root);
        }
    }
    crds
}

fn trim_pod_specs(schema: &mut JSONSchemaProps) {
    for (name, property) in schema.properties.iter_mut().flatten() {
        property.nullable = None;
        if let Some((_, description)) = FOREIGN.iter().find(|(foreign, _)| foreign == name) {
            drop_descriptions(property);
            property.description = Some((*description).to_owned());
        } else {
            trim_pod_specs(property);
        }
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        trim_pod_specs(items);
    }
}

fn drop_descriptions(schema: &mut JSONSchemaProps) {
    schema.description = None;
    schema.properties.iter_mut().flatten().for_each(|(_, property)| drop_descriptions(property));
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        drop_descriptions(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        drop_descriptions(values);
    }
}
