//! A headless Service and its drift. The API server fills in much of what we leave away, and nobody else has a say in its spec.

use grove_api_types::labels::is_grove_label;
use grove_controller::merge::create_merge_patch;
use grove_controller::plan::Step;
use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use kube::ResourceExt;
use serde_json::json;

use super::ByName;
use super::drift::{create_if_absent, find, patch, retain_foreign_keys};

/// What makes the Service of this name what it should be: Grove's labels, owner, and the whole spec but for what the API
/// server chooses. An address cannot be taken back, so a Service that has got one is made anew.
pub(crate) fn drift(existing: &ByName<Service>, mut desired: Service) -> Option<Step> {
    let Some(live) = find(existing, &desired) else { return create_if_absent(existing, &desired) };
    if address(live).is_some_and(|address| Some(address) != address_of(&desired)) {
        return Some(Step::delete(live));
    }
    retain_foreign_keys(live.labels(), desired.labels_mut(), |key| !is_grove_label(key));
    let (live_spec, desired_spec) = (compared(live), compared(&desired));
    let differs = live.labels() != desired.labels() || live_spec != desired_spec;
    let value = |service: &Service, spec| json!({ "metadata": { "labels": service.labels() }, "spec": spec });
    let difference = || create_merge_patch(&value(live, live_spec), &value(&desired, desired_spec));
    patch(live, &desired, differs.then(difference).flatten())
}

/// The address that a Service keeps as long as it lives; one that is an alias has none.
fn address(service: &Service) -> Option<&str> {
    address_of(service).filter(|address| !address.is_empty())
}

fn address_of(service: &Service) -> Option<&str> {
    service.spec.as_ref()?.cluster_ip.as_deref()
}

/// The spec without what the API server chooses, according to the cluster and to the other fields. What it writes where we
/// write nothing is compared as if we had written it, so that another value is put right.
fn compared(service: &Service) -> ServiceSpec {
    let spec = service.spec.clone().unwrap_or_default();
    ServiceSpec {
        type_: spec.type_.or_else(|| Some("ClusterIP".to_owned())),
        session_affinity: spec.session_affinity.or_else(|| Some("None".to_owned())),
        internal_traffic_policy: spec.internal_traffic_policy.or_else(|| Some("Cluster".to_owned())),
        // The API server leaves `false` away, and so does the wire format.
        publish_not_ready_addresses: spec.publish_not_ready_addresses.filter(|publish| *publish),
        cluster_ips: None,
        ip_families: None,
        ip_family_policy: None,
        ..spec
    }
}
