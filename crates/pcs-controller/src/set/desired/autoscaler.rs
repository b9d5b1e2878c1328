//! The `HorizontalPodAutoscaler` of a clique or a scaling group.

use grove_api_types::events;
use grove_api_types::expansion::{AutoscalerTarget, ConfiguredAutoscaler};
use grove_api_types::labels::{self, Component};
use grove_api_types::names::PodCliqueSetName;
use grove_api_types::raw::RawMetricSpec;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_controller::children::{ChildEvents, ChildKind, DecodedChild, DesiredChild, decode_child};
use grove_controller::plan::Step;
use grove_runtime::rbac::{PolicyRule, Verb};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use crate::children::desired;
use crate::children::drift::{difference, patch};
use crate::set::observed::{SetExpansion, SetOwner};

mod quantity;

/// The autoscalers of cliques and scaling groups.
pub(crate) struct Autoscalers;

impl ChildKind for Autoscalers {
    type Owner = SetOwner;
    type Object = SlimAutoscaler;

    const STAGE: &'static str = "autoscalers";
    const EVENTS: ChildEvents = ChildEvents {
        created_or_updated: None,
        create_or_update_failed: events::HORIZONTAL_POD_AUTOSCALER_CREATE_OR_UPDATE_FAILED,
        deleted: None,
    };

    fn rules() -> Vec<PolicyRule> {
        let reason = "create, patch and delete the autoscalers of cliques and scaling groups";
        vec![PolicyRule::for_resource::<HorizontalPodAutoscaler>(&Verb::MANAGE, reason)]
    }

    fn desired<'r, 'a: 'r>(
        expansion: &'r SetExpansion<'a>,
    ) -> impl Iterator<Item = DesiredChild<'r, impl FnOnce() -> SlimAutoscaler>> {
        expansion.replicas.iter().flat_map(move |replica| {
            replica.autoscalers().into_iter().map(move |configured| {
                let name = configured.name.to_string();
                let build = move || autoscaler(expansion.set, &configured);
                DesiredChild::new(name, build).in_failure_domain(replica.index)
            })
        })
    }

    /// Compares the target, the bounds and the metrics; `children/drift.rs` compares the labels and the owner reference. Grove sets no
    /// annotations, so the live ones stay. A retained minimum stays, too. The metrics are compared as one list, with
    /// quantities compared as numbers.
    fn patch(live: &SlimAutoscaler, mut desired: SlimAutoscaler) -> Option<Step> {
        if std::mem::take(&mut desired.spec.retains_min_replicas) {
            let retained = live.spec.min_replicas.map(|retained| retained.min(desired.spec.max_replicas));
            desired.spec.min_replicas = retained.or(desired.spec.min_replicas);
        }
        desired.metadata.annotations.clone_from(&live.metadata.annotations);
        if same_metrics(&live.spec.metrics, &desired.spec.metrics) {
            desired.spec.metrics.clone_from(&live.spec.metrics);
        }
        patch(live, &desired, difference(live, &desired, |autoscaler| &autoscaler.spec))
    }
}

/// An autoscaler as Grove writes it and as the cache stores it. Other fields, for example `behavior`, belong to users.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Resource)]
#[resource(inherit = HorizontalPodAutoscaler)]
pub(crate) struct SlimAutoscaler {
    /// It has the name of its scale target.
    pub(crate) metadata: ObjectMeta,
    /// Its scale target, bounds and metrics; empty if the autoscaler is no child of a set.
    pub(crate) spec: SlimAutoscalerSpec,
}

impl<'de> Deserialize<'de> for SlimAutoscaler {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let DecodedChild { metadata, spec, status: _ } = decode_child::<PodCliqueSet, _, _, IgnoredAny>(from)?;
        Ok(Self { metadata, spec: spec.unwrap_or_default() })
    }
}

/// The scale target, bounds and metrics of an autoscaler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SlimAutoscalerSpec {
    /// The object with the scale subresource that it writes.
    pub(crate) scale_target_ref: TargetRef,
    /// The minimum number of replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) min_replicas: Option<i32>,
    /// Whether an existing autoscaler retains its `minReplicas`, because the template contains none. Not part of the object.
    #[serde(skip)]
    pub(crate) retains_min_replicas: bool,
    /// The maximum number of replicas.
    pub(crate) max_replicas: i32,
    /// The metrics that it follows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) metrics: Vec<RawMetricSpec>,
}

/// An object with a scale subresource. The API server stores one without `apiVersion`, too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct TargetRef {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
}

/// The desired autoscaler.
fn autoscaler(set: &PodCliqueSet, configured: &ConfiguredAutoscaler<'_>) -> SlimAutoscaler {
    let name = configured.name.as_str();
    let set_name = PodCliqueSetName::new(set.name_any());
    let labels = desired::labels(&set_name, Component::Autoscaler, [(labels::NAME, name)]);
    let metrics = &configured.config.metrics;
    SlimAutoscaler {
        metadata: desired::metadata(set, name, labels),
        spec: SlimAutoscalerSpec {
            scale_target_ref: target(configured.target),
            min_replicas: configured.min_replicas,
            retains_min_replicas: configured.retains_min_replicas,
            max_replicas: configured.config.max_replicas,
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

fn same_metrics(live: &[RawMetricSpec], desired: &[RawMetricSpec]) -> bool {
    let normalized = |metrics: &[RawMetricSpec]| with_normalized_quantities(json!(metrics));
    normalized(live) == normalized(desired)
}

/// The metrics with the quantities of their targets as numbers.
fn with_normalized_quantities(mut metrics: Value) -> Value {
    let sources = metrics.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut);
    for target in sources.flat_map(Map::values_mut).filter_map(|source| source.get_mut("target")) {
        for key in ["value", "averageValue"] {
            let Some(quantity) = target.get_mut(key) else { continue };
            let text = quantity.as_str().map_or_else(|| quantity.to_string(), str::to_owned);
            if let Some(number) = quantity::to_nano(&text) {
                *quantity = number.to_string().into();
            }
        }
    }
    metrics
}
