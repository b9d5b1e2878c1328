//! The headless Service of a replica: it gives each pod of the replica a DNS name.

use grove_api_types::events;
use grove_api_types::expansion::SetReplica;
use grove_api_types::labels::{self, Component, is_grove_label};
use grove_api_types::names::PodCliqueSetName;
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_controller::children::{ChildEvents, ChildKind, DecodedChild, DesiredChild, decode_child};
use grove_controller::merge_patch::create_merge_patch;
use grove_controller::plan::Step;
use grove_runtime::rbac::{PolicyRule, Verb};
use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;

use crate::children::desired::{self, metadata};
use crate::children::drift::{patch, retain_keys};
use crate::set::observed::{SetExpansion, SetOwner};

/// One headless Service per replica.
pub(crate) struct HeadlessServices;

impl ChildKind for HeadlessServices {
    type Owner = SetOwner;
    type Object = SlimService;

    const STAGE: &'static str = "services";
    const EVENTS: ChildEvents = ChildEvents {
        created_or_updated: None,
        create_or_update_failed: events::SERVICE_CREATE_OR_UPDATE_FAILED,
        deleted: None,
    };

    fn rules() -> Vec<PolicyRule> {
        let reason = "create, patch and delete the headless Service of each replica";
        vec![PolicyRule::for_resource::<Service>(&Verb::MANAGE, reason)]
    }

    fn desired<'r, 'a: 'r>(
        expansion: &'r SetExpansion<'a>,
    ) -> impl Iterator<Item = DesiredChild<'r, impl FnOnce() -> SlimService>> {
        let service = move |replica: &'r SetReplica| {
            let build = move || headless_service(expansion.set, replica);
            DesiredChild::new(replica.service_name.as_str(), build).in_failure_domain(replica.index)
        };
        expansion.replicas.iter().map(service)
    }

    /// Compares Grove's labels, the owner reference, and the spec without the fields that the API server chooses. Only Grove
    /// writes the other fields. `clusterIP` is immutable, so a Service that has an address is deleted and created again.
    fn patch(live: &SlimService, mut desired: SlimService) -> Option<Step> {
        if address(live).is_some_and(|address| Some(address) != address_of(&desired)) {
            return Some(Step::delete(live));
        }
        retain_keys(live.labels(), desired.labels_mut(), |key| !is_grove_label(key));
        let (live_spec, desired_spec) = (compared(live), compared(&desired));
        let differs = live.labels() != desired.labels() || live_spec != desired_spec;
        let value = |service: &SlimService, spec| json!({ "metadata": { "labels": service.labels() }, "spec": spec });
        let difference = || create_merge_patch(&value(live, live_spec), &value(&desired, desired_spec));
        patch(live, &desired, differs.then(difference).flatten())
    }
}

/// A Service as Grove writes it and as the cache stores it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Resource)]
#[resource(inherit = Service)]
pub(crate) struct SlimService {
    /// Its metadata.
    pub(crate) metadata: ObjectMeta,
    /// Its spec; absent if the Service is no child of a set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) spec: Option<ServiceSpec>,
}

impl<'de> Deserialize<'de> for SlimService {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let DecodedChild { metadata, spec, status: _ } = decode_child::<PodCliqueSet, _, _, IgnoredAny>(from)?;
        Ok(Self { metadata, spec })
    }
}

/// The Service of one replica of `set`. It has no ports, because it only publishes DNS names.
fn headless_service(set: &PodCliqueSet, replica: &SetReplica) -> SlimService {
    let index = replica.index.to_string();
    let name = replica.service_name.as_str();
    let own = [(labels::NAME, name), (labels::SET_REPLICA, index.as_str())];
    let mut selector = labels::base(&PodCliqueSetName::new(set.name_any()));
    selector.extend(labels::of([(labels::SET_REPLICA, index.as_str())]));
    let publish = set.spec.template.headless_service_config.clone().unwrap_or_default().publish_not_ready_addresses;
    let labels = desired::labels(&PodCliqueSetName::new(set.name_any()), Component::HeadlessService, own);
    SlimService {
        metadata: metadata(set, name, labels),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            selector: Some(selector),
            publish_not_ready_addresses: publish.then_some(true),
            ..ServiceSpec::default()
        }),
    }
}

/// The immutable address of a Service; an `ExternalName` Service has none.
fn address(service: &SlimService) -> Option<&str> {
    address_of(service).filter(|address| !address.is_empty())
}

fn address_of(service: &SlimService) -> Option<&str> {
    service.spec.as_ref()?.cluster_ip.as_deref()
}

/// The spec without the fields that the API server chooses, and with the defaults that the API server sets. So a default is no
/// difference, and a value other than the default is corrected.
fn compared(service: &SlimService) -> ServiceSpec {
    let spec = service.spec.clone().unwrap_or_default();
    ServiceSpec {
        type_: spec.type_.or_else(|| Some("ClusterIP".to_owned())),
        session_affinity: spec.session_affinity.or_else(|| Some("None".to_owned())),
        internal_traffic_policy: spec.internal_traffic_policy.or_else(|| Some("Cluster".to_owned())),
        // The API server omits `false`, and so does Grove.
        publish_not_ready_addresses: spec.publish_not_ready_addresses.filter(|publish| *publish),
        cluster_ips: None,
        ip_families: None,
        ip_family_policy: None,
        ..spec
    }
}
