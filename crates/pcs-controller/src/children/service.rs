//! The step for a headless Service: create it if it is missing, otherwise patch the fields that differ. Only Grove writes its
//! spec, except the fields that the API server sets.

use grove_api_types::labels::is_grove_label;
use grove_controller::merge::create_merge_patch;
use grove_controller::plan::Step;
use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use kube::ResourceExt;
use serde_json::json;

use super::ByName;
use super::drift::{create_if_absent, find, patch, retain_keys};

/// The step for a Service. It compares Grove's labels, the owner reference, and the spec without the fields that the API server
/// chooses. `clusterIP` is immutable, so a Service that has an address is deleted and created again.
pub(crate) fn drift(existing: &ByName<Service>, mut desired: Service) -> Option<Step> {
    let Some(live) = find(existing, &desired) else { return create_if_absent(existing, &desired) };
    if address(live).is_some_and(|address| Some(address) != address_of(&desired)) {
        return Some(Step::delete(live));
    }
    retain_keys(live.labels(), desired.labels_mut(), |key| !is_grove_label(key));
    let (live_spec, desired_spec) = (compared(live), compared(&desired));
    let differs = live.labels() != desired.labels() || live_spec != desired_spec;
    let value = |service: &Service, spec| json!({ "metadata": { "labels": service.labels() }, "spec": spec });
    let difference = || create_merge_patch(&value(live, live_spec), &value(&desired, desired_spec));
    patch(live, &desired, differs.then(difference).flatten())
}

/// The immutable address of a Service; an `ExternalName` Service has none.
fn address(service: &Service) -> Option<&str> {
    address_of(service).filter(|address| !address.is_empty())
}

fn address_of(service: &Service) -> Option<&str> {
    service.spec.as_ref()?.cluster_ip.as_deref()
}

/// The spec without the fields that the API server chooses, and with the defaults that the API server sets. So a default is no
/// difference, and a value other than the default is corrected.
fn compared(service: &Service) -> ServiceSpec {
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
