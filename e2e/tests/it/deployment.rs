//! The bases as they are shipped: the API server takes them, and the services take the flags that they are given there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use e2e::apart::{self, Apart};
use e2e::kubectl::kubectl;
use e2e::kustomize::{differences, overlay, rendered};
use e2e::metrics::{self, Samples};
use e2e::{Plane, plane};
use serde_json::{Value, json};
use tokio::process::Command;

const SERVICES: [&str; 3] = ["pcs-controller", "pclq-controller", "webhook-server"];

fn base(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/base")).join(name)
}

#[tokio::test]
async fn kubectl_applies_every_base() {
    for name in ["common"].into_iter().chain(SERVICES) {
        let folder = base(name).display().to_string();
        let applied = kubectl(&["apply", "--dry-run=server", "-k", &folder], "").await.expect("kubectl applies it");
        let expected = if name == "common" { "configmap/" } else { "deployment.apps/" };
        assert!(applied.contains(expected), "{name}: {applied}");
    }
}

/// The one of cert-manager is shown where its Secret is written as well.
#[tokio::test]
async fn components_add_only_their_own_objects() {
    let plane = Plane::shared();
    let components = [
        ("webhook-server", "authorizer", &["ValidatingWebhookConfiguration/authorizer-webhook is added"][..]),
        (
            "common",
            "admission-policy",
            &[
                "ValidatingAdmissionPolicy/podcliquesets.grove.io is added",
                "ValidatingAdmissionPolicyBinding/podcliquesets.grove.io is added",
            ],
        ),
    ];
    for (base, component, expected) in components {
        let folder = overlay(&plane, base, &[component]);
        let plain = rendered(&plane, &overlay(&plane, base, &[])).await;
        let whole = rendered(&plane, &folder).await;
        assert_eq!(differences(&plain, &whole), expected, "{component}");
        let applied = kubectl(&["apply", "--dry-run=server", "-k", &folder.display().to_string()], "").await;
        applied.unwrap_or_else(|words| panic!("{component}: {words}"));
    }
}

/// The pod that a service is deployed as.
fn pod_of(service: &str) -> Value {
    let text = std::fs::read_to_string(base(service).join("deployment.yaml")).expect("the Deployment");
    let deployment: Value = serde_saphyr::from_str(&text).expect("YAML");
    deployment["spec"]["template"]["spec"].clone()
}

#[tokio::test]
async fn services_accept_the_flags_of_their_deployments() {
    for service in SERVICES {
        let pod = pod_of(service);
        let arguments = pod["containers"][0]["args"].as_array().expect("arguments").iter();
        let flags: Vec<&str> = arguments.filter_map(|flag| flag.as_str()?.split('=').next()).collect();
        let help = apart::output(service, &["--help".to_owned()]).await.stdout;
        let help = String::from_utf8_lossy(&help);
        let unknown: Vec<_> = flags.iter().filter(|flag| !help.contains(**flag)).collect();
        assert!(flags.contains(&"--identity") && unknown.is_empty(), "{service} does not know {unknown:?}:\n{help}");
        assert_eq!(pod["serviceAccountName"], service);
    }
}

#[test]
fn all_services_read_one_config_map() {
    let text = std::fs::read_to_string(base("common").join("operator-configuration.yaml")).expect("the ConfigMap");
    let shared: Value = serde_saphyr::from_str(&text).expect("YAML");
    assert!(shared["data"]["config.yaml"].is_string(), "{text}");
    for service in SERVICES {
        let pod = pod_of(service);
        let volumes = pod["volumes"].as_array().expect("volumes");
        let name = &shared["metadata"]["name"];
        let volume =
            volumes.iter().find(|volume| volume["configMap"]["name"] == *name).expect("its volume")["name"].clone();
        let container = &pod["containers"][0];
        let mounts = container["volumeMounts"].as_array().expect("mounts");
        let mount = mounts.iter().find(|mount| mount["name"] == volume).expect("its mount");
        let flag = format!("--config={}/config.yaml", mount["mountPath"].as_str().expect("a path"));
        assert!(container["args"].as_array().expect("arguments").contains(&json!(flag)), "{service} lacks {flag}");
    }
}

/// The hashes that a service says of its configuration.
fn hashes_in(samples: &Samples) -> impl Iterator<Item = (String, f64)> {
    samples.iter().filter_map(|(name, value)| {
        let hash = name.strip_prefix("grove_config_info{hash=\"")?.strip_suffix("\"}")?;
        Some((hash.to_owned(), *value))
    })
}

/// The one hash that a service says of its configuration.
fn hash_in(samples: &Samples) -> String {
    let mut hashes = hashes_in(samples);
    let found = (hashes.next(), hashes.next());
    let (Some((hash, 1.0)), None) = found else { panic!("not one hash of value 1: {found:?} in {samples:#?}") };
    hash
}

/// The same, of a service that is started with this file.
async fn hash_with(service: &str, file: &Path) -> String {
    let nowhere = apart::nowhere(file.parent().expect("a folder"));
    let process = Apart::start(service, &["--kubeconfig", &nowhere, "--config", &file.display().to_string()]);
    let says_one = |samples: &Samples| hashes_in(samples).next().is_some();
    let samples = plane::until_said(async || metrics::at(process.metrics).await.filter(says_one)).await;
    process.end().await;
    hash_in(&samples)
}

/// As `docs/operations.md` says how to come by it.
async fn first_digits_of_sha256sum(file: &Path) -> String {
    let output = Command::new("sha256sum").arg(file).kill_on_drop(true).output().await.expect("sha256sum runs");
    String::from_utf8_lossy(&output.stdout).chars().take(16).collect()
}

#[tokio::test]
async fn the_config_hash_metric_depends_only_on_the_file() {
    let plane = Plane::shared();
    let shared = plane.dir().join("config.yaml");
    let expected = first_digits_of_sha256sum(&shared).await;
    for service in ["pcs-controller", "pclq-controller"] {
        assert_eq!(hash_in(&metrics::of(&plane, service).await), expected, "{service} of the plane");
    }
    let folder = plane.dir().join("configurations");
    std::fs::create_dir_all(&folder).expect("a folder");
    let files = [("same.yaml", ""), ("other.yaml", "# A comment makes it another file.\n")].map(|(name, more)| {
        let text = std::fs::read_to_string(&shared).expect("the configuration");
        let file = folder.join(name);
        std::fs::write(&file, text + more).expect("the file is written");
        file
    });
    let mut said = Vec::new();
    for file in &files {
        let mut of_services = BTreeSet::new();
        for service in SERVICES {
            of_services.insert(hash_with(service, file).await);
        }
        assert_eq!(of_services, BTreeSet::from([first_digits_of_sha256sum(file).await]), "{}", file.display());
        said.extend(of_services);
    }
    assert!(said[0] == expected && said[1] != expected, "{said:?}, and {expected} on the plane");
}
