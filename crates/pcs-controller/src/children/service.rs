//! A headless Service and its drift. The API server fills in much of what we leave away, and nobody else has a say in it.

use grove_runtime::merge::merge_patch;
use grove_runtime::plan::Step;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use serde_json::{Map, Value, json};

use super::ByName;
use super::drift::{create_if_absent, find, patch};

/// What the API server writes where we write nothing. Compared as if we had written it, so that another value is put right.
const DEFAULTS: [(&str, &str); 3] =
    [("type", "ClusterIP"), ("sessionAffinity", "None"), ("internalTrafficPolicy", "Cluster")];
/// What the API server chooses, according to the cluster and to the fields above.
const CHOSEN: [&str; 3] = ["clusterIPs", "ipFamilies", "ipFamilyPolicy"];

/// What makes the Service of this name what it should be: labels, owner, and the whole spec but for what the API server
/// chooses. An address cannot be taken back, so a Service that has got one is made anew.
pub(crate) fn drift(existing: &ByName<Service>, desired: &Service) -> Option<Step> {
    let Some(live) = find(existing, desired) else { return create_if_absent(existing, desired) };
    if address(live).is_some_and(|address| Some(address) != address_of(desired)) {
        return Some(Step::delete(live));
    }
    let value = |service: &Service| json!({ "metadata": { "labels": service.labels() }, "spec": compared(service) });
    patch(live, desired, merge_patch(&value(live), &value(desired)))
}

/// The address that a Service keeps as long as it lives; one that is an alias has none.
fn address(service: &Service) -> Option<&str> {
    address_of(service).filter(|address| !address.is_empty())
}

fn address_of(service: &Service) -> Option<&str> {
    service.spec.as_ref()?.cluster_ip.as_deref()
}

fn compared(service: &Service) -> Map<String, Value> {
    let mut spec = match serde_json::to_value(&service.spec) {
        Ok(Value::Object(spec)) => spec,
        _ => Map::new(),
    };
    spec.retain(|key, _| !CHOSEN.contains(&key.as_str()));
    for (key, value) in DEFAULTS {
        spec.entry(key).or_insert_with(|| value.into());
    }
    // The API server leaves `false` away, and so does the wire format.
    spec.retain(|key, value| key != "publishNotReadyAddresses" || *value == json!(true));
    spec
}
