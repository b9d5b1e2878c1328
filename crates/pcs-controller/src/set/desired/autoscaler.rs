//! The `HorizontalPodAutoscaler` of a clique or a scaling group.

use grove_api_types::expansion::{self, AutoscalerTarget};
use grove_api_types::labels::{self, Component};
use grove_api_types::names::PodCliqueSetName;
use grove_api_types::raw::RawMetricSpec;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use kube::{Resource, ResourceExt};
use serde_json::{Map, Value, json};

use crate::children::autoscaler::{Autoscaler, AutoscalerSpec, TargetRef};
use crate::children::desired;

/// The desired autoscaler.
pub(crate) fn autoscaler(set: &PodCliqueSet, wanted: &expansion::Autoscaler<'_, '_>) -> Autoscaler {
    let name = wanted.name.as_str();
    let set_name = PodCliqueSetName::new(set.name_any());
    let labels = desired::labels(&set_name, Component::Autoscaler, [(labels::NAME, name)]);
    let metrics = &wanted.config.metrics;
    Autoscaler {
        metadata: desired::metadata(set, name, labels),
        spec: AutoscalerSpec {
            scale_target_ref: target(wanted.target),
            min_replicas: wanted.config.min_replicas,
            max_replicas: wanted.config.max_replicas,
            metrics: if metrics.is_empty() { vec![default_metric()] } else { metrics.clone() },
        },
    }
}

fn target(target: AutoscalerTarget<'_>) -> TargetRef {
    match target {
        AutoscalerTarget::Clique(name) => target_ref::<PodClique>(name.as_str()),
        AutoscalerTarget::Group(name) => target_ref::<PodCliqueScalingGroup>(name.as_str()),
    }
}

fn target_ref<K: Resource<DynamicType = ()>>(name: &str) -> TargetRef {
    TargetRef { api_version: K::api_version(&()).into_owned(), kind: K::kind(&()).into_owned(), name: name.to_owned() }
}

/// The default metric of Kubernetes. Grove writes it explicitly, so that it replaces the metrics that a user removes from a
/// config.
fn default_metric() -> RawMetricSpec {
    let target = json!({ "type": "Utilization", "averageUtilization": 80 });
    let metric = [("type", Value::from("Resource")), ("resource", json!({ "name": "cpu", "target": target }))];
    metric.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>().into()
}
