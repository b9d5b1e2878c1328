//! The bases and components in `deploy/`: the API server accepts them, and the services accept the flags in them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use e2e::TestCluster;
use e2e::kubectl::kubectl;
use e2e::kustomize::{differences, overlay, render};
use e2e::metrics::{self, Samples};
use e2e::poll::poll_until;
use e2e::standalone::{self, StandaloneService};
use serde_json::{Value, json};
use tokio::process::Command;

const SERVICES: [&str; 5] =
    ["pcs-controller", "pclq-controller", "topology-controller", "mnnvl-controller", "webhook-server"];

fn base(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/base")).join(name)
}

#[tokio::test]
async fn kubectl_applies_every_base() {
    for name in ["common"].into_iter().chain(SERVICES) {
        let folder = base(name).display().to_string();
        let applied =
            kubectl(&["apply", "--dry-run=server", "-k", &folder], "").await.expect("kubectl applies the base");
        let expected = if name == "common" { "configmap/" } else { "deployment.apps/" };
        assert!(applied.contains(expected), "{name}: {applied}");
    }
}

/// A base, a component, and the differences that the component makes. The test of certificates covers the component for cert-manager.
const COMPONENTS: [(&str, &str, &[&str]); 8] = [
    ("webhook-server", "authorizer", &["ValidatingWebhookConfiguration/authorizer-webhook is added"]),
    (
        "webhook-server",
        "network-policy",
        &["NetworkPolicy/grove-controllers is added", "NetworkPolicy/webhook-server is added"],
    ),
    (
        "common",
        "admission-policy",
        &[
            "ValidatingAdmissionPolicy/podcliquesets.grove.io is added",
            "ValidatingAdmissionPolicyBinding/podcliquesets.grove.io is added",
        ],
    ),
    (
        "common",
        "controller-policy",
        &[
            "ValidatingAdmissionPolicy/mnnvl-controller-children.grove.io is added",
            "ValidatingAdmissionPolicy/mnnvl-controller-daemons.grove.io is added",
            "ValidatingAdmissionPolicy/mnnvl-controller-nodes.grove.io is added",
            "ValidatingAdmissionPolicy/pclq-controller-children.grove.io is added",
            "ValidatingAdmissionPolicy/pclq-controller-cliques.grove.io is added",
            "ValidatingAdmissionPolicy/pcs-controller-children.grove.io is added",
            "ValidatingAdmissionPolicy/pcs-controller-dry-runs.grove.io is added",
            "ValidatingAdmissionPolicy/pcs-controller-identities.grove.io is added",
            "ValidatingAdmissionPolicy/pcs-controller-sets.grove.io is added",
            "ValidatingAdmissionPolicy/topology-controller-children.grove.io is added",
            "ValidatingAdmissionPolicy/topology-controller-topologies.grove.io is added",
            "ValidatingAdmissionPolicyBinding/mnnvl-controller-children.grove.io is added",
            "ValidatingAdmissionPolicyBinding/mnnvl-controller-daemons.grove.io is added",
            "ValidatingAdmissionPolicyBinding/mnnvl-controller-nodes.grove.io is added",
            "ValidatingAdmissionPolicyBinding/pclq-controller-children.grove.io is added",
            "ValidatingAdmissionPolicyBinding/pclq-controller-cliques.grove.io is added",
            "ValidatingAdmissionPolicyBinding/pcs-controller-children.grove.io is added",
            "ValidatingAdmissionPolicyBinding/pcs-controller-dry-runs.grove.io is added",
            "ValidatingAdmissionPolicyBinding/pcs-controller-identities.grove.io is added",
            "ValidatingAdmissionPolicyBinding/pcs-controller-sets.grove.io is added",
            "ValidatingAdmissionPolicyBinding/topology-controller-children.grove.io is added",
            "ValidatingAdmissionPolicyBinding/topology-controller-topologies.grove.io is added",
        ],
    ),
    (
        "common",
        "compute-domain-state",
        &[
            "ClusterRole/compute-domain-daemon is added",
            "ClusterRole/mnnvl-controller-compute-domain-state is added",
            "ClusterRoleBinding/compute-domain-daemon is added",
            "ClusterRoleBinding/mnnvl-controller-compute-domain-state is added",
            "Namespace/grove-system.metadata.labels.pod-security.kubernetes.io/enforce: \"baseline\"",
            "Role/compute-domain-daemon is added",
            "Role/mnnvl-controller-compute-domain-state is added",
            "RoleBinding/compute-domain-daemon is added",
            "RoleBinding/mnnvl-controller-compute-domain-state is added",
            "ServiceAccount/compute-domain-daemon is added",
        ],
    ),
    (
        "topology-controller",
        "default-scheduler",
        &[
            "ClusterRole/pcs-controller-default-scheduler is added",
            "ClusterRole/topology-controller-default-scheduler is added",
            "ClusterRoleBinding/pcs-controller-default-scheduler is added",
            "ClusterRoleBinding/topology-controller-default-scheduler is added",
        ],
    ),
    (
        "topology-controller",
        "kai-scheduler",
        &[
            "ClusterRole/topology-controller-kai-scheduler is added",
            "ClusterRoleBinding/topology-controller-kai-scheduler is added",
        ],
    ),
    (
        "topology-controller",
        "volcano",
        &[
            "ClusterRole/topology-controller-volcano is added",
            "ClusterRole/webhook-server-volcano is added",
            "ClusterRoleBinding/topology-controller-volcano is added",
            "ClusterRoleBinding/webhook-server-volcano is added",
        ],
    ),
];

#[tokio::test]
async fn components_add_only_their_own_objects() {
    let cluster = TestCluster::shared();
    for (base, component, expected) in COMPONENTS {
        let folder = overlay(&cluster, base, &[component]);
        let plain = render(&cluster, &overlay(&cluster, base, &[])).await;
        let with_component = render(&cluster, &folder).await;
        assert_eq!(differences(&plain, &with_component), expected, "{component}");
        let applied = kubectl(&["apply", "--dry-run=server", "-k", &folder.display().to_string()], "").await;
        applied.unwrap_or_else(|error| panic!("{component}: {error}"));
    }
}

/// The pod spec in the Deployment of a service.
fn pod_spec(service: &str) -> Value {
    let text = std::fs::read_to_string(base(service).join("deployment.yaml")).expect("the Deployment");
    let deployment: Value = serde_saphyr::from_str(&text).expect("YAML");
    deployment["spec"]["template"]["spec"].clone()
}

#[tokio::test]
async fn services_accept_the_flags_of_their_deployments() {
    for service in SERVICES {
        let pod = pod_spec(service);
        let arguments = pod["containers"][0]["args"].as_array().expect("arguments").iter();
        let flags: Vec<&str> = arguments.filter_map(|flag| flag.as_str()?.split('=').next()).collect();
        let help = standalone::run_to_exit(service, &["--help".to_owned()]).await.stdout;
        let help = String::from_utf8_lossy(&help);
        let unknown: Vec<_> = flags.iter().filter(|flag| !help.contains(**flag)).collect();
        assert!(flags.contains(&"--identity") && unknown.is_empty(), "{service} has no flags {unknown:?}:\n{help}");
        assert_eq!(pod["serviceAccountName"], service);
    }
}

#[test]
fn all_services_read_one_config_map() {
    let text = std::fs::read_to_string(base("common").join("operator-configuration.yaml")).expect("the ConfigMap");
    let shared: Value = serde_saphyr::from_str(&text).expect("YAML");
    assert!(shared["data"]["config.yaml"].is_string(), "{text}");
    for service in SERVICES {
        let pod = pod_spec(service);
        let volumes = pod["volumes"].as_array().expect("volumes");
        let name = &shared["metadata"]["name"];
        let volume = volumes
            .iter()
            .find(|volume| volume["configMap"]["name"] == *name)
            .expect("the volume of the ConfigMap")["name"]
            .clone();
        let container = &pod["containers"][0];
        let mounts = container["volumeMounts"].as_array().expect("mounts");
        let mount = mounts.iter().find(|mount| mount["name"] == volume).expect("the mount of the volume");
        let flag = format!("--config={}/config.yaml", mount["mountPath"].as_str().expect("a path"));
        assert!(container["args"].as_array().expect("arguments").contains(&json!(flag)), "{service} lacks {flag}");
    }
}

/// The configuration hashes in the metrics of a service.
fn hashes_in(samples: &Samples) -> impl Iterator<Item = (String, f64)> {
    samples.iter().filter_map(|(name, value)| {
        let hash = name.strip_prefix("grove_config_info{hash=\"")?.strip_suffix("\"}")?;
        Some((hash.to_owned(), *value))
    })
}

/// The only configuration hash in the metrics of a service.
fn hash_in(samples: &Samples) -> String {
    let mut hashes = hashes_in(samples);
    let found = (hashes.next(), hashes.next());
    let (Some((hash, 1.0)), None) = found else { panic!("expected one hash with value 1: {found:?} in {samples:#?}") };
    hash
}

/// The configuration hash of a service started with this file.
async fn hash_with(service: &str, file: &Path) -> String {
    let kubeconfig = standalone::unreachable_kubeconfig(file.parent().expect("a folder"));
    let process =
        StandaloneService::start(service, &["--kubeconfig", &kubeconfig, "--config", &file.display().to_string()]);
    let has_hash = |samples: &Samples| hashes_in(samples).next().is_some();
    let samples = poll_until(async || metrics::scrape_port(process.metrics).await.filter(has_hash)).await;
    process.stop().await;
    hash_in(&samples)
}

/// The command that `docs/operations.md` gives for the hash.
async fn first_digits_of_sha256sum(file: &Path) -> String {
    let output = Command::new("sha256sum").arg(file).kill_on_drop(true).output().await.expect("sha256sum runs");
    String::from_utf8_lossy(&output.stdout).chars().take(16).collect()
}

#[tokio::test]
async fn the_config_hash_metric_depends_only_on_the_file() {
    let cluster = TestCluster::shared();
    let shared = cluster.dir().join("config.yaml");
    let expected = first_digits_of_sha256sum(&shared).await;
    for service in ["pcs-controller", "pclq-controller", "topology-controller", "mnnvl-controller"] {
        assert_eq!(hash_in(&metrics::scrape(&cluster, service).await), expected, "{service} of the cluster");
    }
    let folder = cluster.dir().join("configurations");
    std::fs::create_dir_all(&folder).expect("a folder");
    let files = [("same.yaml", ""), ("other.yaml", "# A comment makes it another file.\n")].map(|(name, more)| {
        let text = std::fs::read_to_string(&shared).expect("the configuration");
        let file = folder.join(name);
        std::fs::write(&file, text + more).expect("the file is written");
        file
    });
    let mut hashes = Vec::new();
    for file in &files {
        let mut service_hashes = BTreeSet::new();
        for service in SERVICES {
            service_hashes.insert(hash_with(service, file).await);
        }
        assert_eq!(service_hashes, BTreeSet::from([first_digits_of_sha256sum(file).await]), "{}", file.display());
        hashes.extend(service_hashes);
    }
    assert!(hashes[0] == expected && hashes[1] != expected, "{hashes:?}, and {expected} in the cluster");
}
