//! The environment variables that pclq-controller prepends to those of every container, in the documented order. In the
//! cliques of a scaling group, pcs-controller adds `GROVE_PCSG_*` (`scaling_group/desired/pod_clique.rs`). All names are in
//! [`environment`].

use grove_api_types::names::HeadlessServiceName;
use grove_api_types::{environment, labels};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::clique::observed::Observed;
use crate::observed::CliqueIdentity;

/// The variables of every container of the clique's pods. Kubernetes expands `$(NAME)` in list order, so they come
/// first and in this order.
pub(super) fn variables(observed: &Observed, identity: &CliqueIdentity) -> Vec<Value> {
    let namespace = observed.clique.namespace().unwrap_or_default();
    let service_name = HeadlessServiceName::of_replica(&identity.set, identity.replica);
    let literal = |name: &str, value: String| json!({ "name": name, "value": value });
    let index_path = format!("metadata.labels['{}']", labels::POD_INDEX);
    vec![
        literal(environment::PCS_NAME, identity.set.to_string()),
        literal(environment::PCS_INDEX, identity.replica.to_string()),
        literal(environment::PCLQ_NAME, observed.name().to_string()),
        literal(environment::HEADLESS_SERVICE, service_name.address(&namespace)),
        json!({ "name": environment::PCLQ_POD_INDEX, "valueFrom": { "fieldRef": { "fieldPath": index_path } } }),
    ]
}
