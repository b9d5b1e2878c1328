//! The `DaemonSet` of a domain: one daemon on each node with the label of the domain.

use std::collections::BTreeMap;

use grove_api_types::compute_domain::DOMAIN_LABEL;
use grove_api_types::compute_domain::strategy::parameters::MAX_NODES_PER_CLIQUE;
use grove_api_types::finalizers;
use grove_api_types::names::DomainDaemonSetName;
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec};
use k8s_openapi::api::core::v1::{
    Container, EnvVar, EnvVarSource, ExecAction, ObjectFieldSelector, PodResourceClaim, PodSpec, PodTemplateSpec,
    Probe, ResourceClaim, ResourceRequirements, SecurityContext, Toleration,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::ResourceExt;

use crate::state_sync::observed::Observed;

/// The program, its container and its account.
pub(crate) const DAEMON: &str = "compute-domain-daemon";
/// Above 5, the daemons log each request.
const LOG_VERBOSITY: u8 = 1;
/// The claim of a daemon.
const CLAIM: &str = "compute-domain-daemon";

/// The `DaemonSet`. Its pods tolerate everything and have no resource requests, because they run where the pods of the domain run.
pub(crate) fn daemon_set(observed: &Observed) -> DaemonSet {
    let uid = observed.domain.uid().unwrap_or_default();
    let name = DomainDaemonSetName::of_domain(&uid).to_string();
    let labels = BTreeMap::from([(DOMAIN_LABEL.to_owned(), uid)]);
    let pod = PodSpec {
        service_account_name: Some(DAEMON.to_owned()),
        node_selector: Some(labels.clone()),
        tolerations: Some(vec![Toleration { operator: Some("Exists".to_owned()), ..Toleration::default() }]),
        resource_claims: Some(vec![PodResourceClaim {
            name: CLAIM.to_owned(),
            resource_claim_template_name: Some(name.clone()),
            ..PodResourceClaim::default()
        }]),
        containers: vec![container(observed)],
        ..PodSpec::default()
    };
    DaemonSet {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(observed.settings.namespace.clone()),
            labels: Some(labels.clone()),
            finalizers: Some(vec![finalizers::COMPUTE_DOMAIN_STATE.to_owned()]),
            ..ObjectMeta::default()
        },
        spec: DaemonSetSpec {
            selector: LabelSelector { match_labels: Some(labels.clone()), ..LabelSelector::default() },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(labels), ..ObjectMeta::default() }),
                spec: Some(pod),
            },
            ..DaemonSetSpec::default()
        },
        ..DaemonSet::default()
    }
}

/// The daemon. It runs as root, because it writes the hosts file of the pod. The kubelet plugin adds the variables of the domain.
fn container(observed: &Observed) -> Container {
    let fields = [
        ("NODE_NAME", "spec.nodeName"),
        ("POD_IP", "status.podIP"),
        ("POD_UID", "metadata.uid"),
        ("POD_NAME", "metadata.name"),
        ("POD_NAMESPACE", "metadata.namespace"),
    ];
    let values = [
        ("SYNC_STRATEGY", observed.strategy().name().to_owned()),
        ("FEATURE_GATES", format!("ComputeDomainCliques={}", observed.strategy().has_cliques())),
        ("MAX_NODES_PER_IMEX_DOMAIN", MAX_NODES_PER_CLIQUE.to_string()),
        ("LOG_VERBOSITY", LOG_VERBOSITY.to_string()),
        // The GPUs belong to the pods of the domain.
        ("NVIDIA_VISIBLE_DEVICES", "void".to_owned()),
    ];
    let values = values.map(|(name, value)| EnvVar { name: name.to_owned(), value: Some(value), ..EnvVar::default() });
    Container {
        name: DAEMON.to_owned(),
        image: Some(observed.settings.daemon_image.clone()),
        args: Some(vec!["run".to_owned()]),
        env: Some(fields.map(field).into_iter().chain(values).collect()),
        resources: Some(ResourceRequirements {
            claims: Some(vec![ResourceClaim { name: CLAIM.to_owned(), ..ResourceClaim::default() }]),
            ..ResourceRequirements::default()
        }),
        security_context: Some(SecurityContext { run_as_user: Some(0), ..SecurityContext::default() }),
        startup_probe: Some(Probe { period_seconds: Some(1), failure_threshold: Some(1200), ..probe() }),
        liveness_probe: Some(Probe { period_seconds: Some(60), failure_threshold: Some(20), ..probe() }),
        readiness_probe: Some(Probe { period_seconds: Some(10), failure_threshold: Some(1), ..probe() }),
        ..Container::default()
    }
}

fn field((name, path): (&str, &str)) -> EnvVar {
    let selector = ObjectFieldSelector { field_path: path.to_owned(), ..ObjectFieldSelector::default() };
    let source = EnvVarSource { field_ref: Some(selector), ..EnvVarSource::default() };
    EnvVar { name: name.to_owned(), value_from: Some(source), ..EnvVar::default() }
}

fn probe() -> Probe {
    let command = ["/usr/local/bin/service", "check"].map(str::to_owned).to_vec();
    Probe { exec: Some(ExecAction { command: Some(command) }), timeout_seconds: Some(10), ..Probe::default() }
}
