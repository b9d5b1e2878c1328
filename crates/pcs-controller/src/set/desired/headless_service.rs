//! The headless Service of a replica: it gives each pod of the replica a DNS name.

use grove_api_types::expansion::SetReplica;
use grove_api_types::labels::{self, Component};
use grove_api_types::names::PodCliqueSetName;
use grove_api_types::v1alpha1::PodCliqueSet;
use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use kube::ResourceExt;

use crate::children::desired::{self, metadata};

/// The Service of one replica of `set`. It has no ports, because it only publishes DNS names.
pub(crate) fn headless_service(set: &PodCliqueSet, replica: &SetReplica<'_>) -> Service {
    let index = replica.index.to_string();
    let name = replica.service.as_str();
    let own = [(labels::NAME, name), (labels::SET_REPLICA, index.as_str())];
    let mut selector = labels::base(&PodCliqueSetName::new(set.name_any()));
    selector.extend(labels::of([(labels::SET_REPLICA, index.as_str())]));
    let publish = set.spec.template.headless_service_config.clone().unwrap_or_default().publish_not_ready_addresses;
    Service {
        metadata: metadata(
            set,
            name,
            desired::labels(&PodCliqueSetName::new(set.name_any()), Component::HeadlessService, own),
        ),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            selector: Some(selector),
            publish_not_ready_addresses: publish.then_some(true),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}
