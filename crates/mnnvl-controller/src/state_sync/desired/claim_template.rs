//! The templates of the claims of a domain: of its daemons, and of the pods that use it.

use std::collections::BTreeMap;

use grove_api_types::compute_domain::{
    CHANNEL_CLASS, DAEMON_CLASS, DOMAIN_LABEL, DRIVER, GROUP, TARGET_LABEL, VERSION,
};
use grove_api_types::finalizers;
use grove_api_types::names::DomainDaemonSetName;
use k8s_openapi::api::resource::v1::{
    DeviceClaim, DeviceClaimConfiguration, DeviceRequest, ExactDeviceRequest, OpaqueDeviceConfiguration,
    ResourceClaimSpec, ResourceClaimTemplate, ResourceClaimTemplateSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::state_sync::objects::ClaimTarget;
use crate::state_sync::observed::Observed;

/// The template for these pods.
pub(crate) fn claim_template(observed: &Observed, target: ClaimTarget) -> ResourceClaimTemplate {
    let uid = observed.domain.uid().unwrap_or_default();
    let (name, namespace) = match target {
        ClaimTarget::Daemon => (DomainDaemonSetName::of_domain(&uid).to_string(), observed.settings.namespace.clone()),
        ClaimTarget::Workload => {
            let name = observed.domain.spec.channel.resource_claim_template.name.clone();
            (name, observed.domain.namespace().unwrap_or_default())
        }
    };
    let labels = [(DOMAIN_LABEL, uid.as_str()), (TARGET_LABEL, target.label())];
    let labels: BTreeMap<_, _> = labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    ResourceClaimTemplate {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(namespace),
            labels: Some(labels),
            finalizers: Some(vec![finalizers::COMPUTE_DOMAIN_STATE.to_owned()]),
            ..ObjectMeta::default()
        },
        spec: Some(ResourceClaimTemplateSpec {
            spec: Some(claim(observed, &uid, target)),
            ..ResourceClaimTemplateSpec::default()
        }),
    }
}

/// One device, with the UID of the domain for the kubelet plugin.
fn claim(observed: &Observed, uid: &str, target: ClaimTarget) -> ResourceClaimSpec {
    let mode = observed.domain.spec.channel.allocation_mode.as_deref().unwrap_or("Single");
    let (request, class, parameters) = match target {
        ClaimTarget::Daemon => {
            ("daemon", DAEMON_CLASS, parameters("ComputeDomainDaemonConfig", json!({ "domainID": uid })))
        }
        ClaimTarget::Workload => {
            let fields = json!({ "domainID": uid, "allocationMode": mode });
            ("channel", CHANNEL_CLASS, parameters("ComputeDomainChannelConfig", fields))
        }
    };
    let exactly = ExactDeviceRequest { device_class_name: class.to_owned(), ..ExactDeviceRequest::default() };
    let opaque = OpaqueDeviceConfiguration { driver: DRIVER.to_owned(), parameters: RawExtension(parameters) };
    let config = DeviceClaimConfiguration { opaque: Some(opaque), requests: Some(vec![request.to_owned()]) };
    let request = DeviceRequest { name: request.to_owned(), exactly: Some(exactly), ..DeviceRequest::default() };
    let devices = DeviceClaim { requests: Some(vec![request]), config: Some(vec![config]), ..DeviceClaim::default() };
    ResourceClaimSpec { devices: Some(devices) }
}

fn parameters(kind: &str, mut fields: Value) -> Value {
    fields["apiVersion"] = json!([GROUP, VERSION].join("/"));
    fields["kind"] = json!(kind);
    fields
}
