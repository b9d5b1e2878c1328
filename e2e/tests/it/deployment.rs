//! The bases as they are shipped: the API server takes them, and the services take the flags that they are given there.

use std::path::PathBuf;
use std::process::Stdio;

use e2e::Plane;
use e2e::kubectl::kubectl;
use e2e::kustomize::{differences, overlay, rendered};
use e2e::plane::given;
use serde_json::Value;
use tokio::process::Command;

const SERVICES: [&str; 3] = ["pcs-controller", "pclq-controller", "webhook-server"];

fn base(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/base")).join(name)
}

#[tokio::test]
async fn every_base_can_be_applied_plainly() {
    for name in ["common"].into_iter().chain(SERVICES) {
        let folder = base(name).display().to_string();
        let applied = kubectl(&["apply", "--dry-run=server", "-k", &folder], "").await.expect("kubectl applies it");
        let expected = if name == "common" { "configmap/" } else { "deployment.apps/" };
        assert!(applied.contains(expected), "{name}: {applied}");
    }
}

/// The one of cert-manager is shown where its Secret is written as well.
#[tokio::test]
async fn components_add_what_they_are_for_and_nothing_else() {
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

#[tokio::test]
async fn the_services_take_the_flags_of_their_deployments() {
    for service in SERVICES {
        let text = std::fs::read_to_string(base(service).join("deployment.yaml")).expect("the Deployment");
        let deployment: Value = serde_saphyr::from_str(&text).expect("YAML");
        let pod = &deployment["spec"]["template"]["spec"];
        let arguments = pod["containers"][0]["args"].as_array().expect("arguments").iter();
        let flags: Vec<&str> = arguments.filter_map(|flag| flag.as_str()?.split('=').next()).collect();
        let mut command = Command::new(PathBuf::from(given("GROVE_XTASK")).with_file_name(service));
        let help =
            command.arg("--help").stdin(Stdio::null()).kill_on_drop(true).output().await.expect("it runs").stdout;
        let help = String::from_utf8_lossy(&help);
        let unknown: Vec<_> = flags.iter().filter(|flag| !help.contains(**flag)).collect();
        assert!(flags.contains(&"--identity") && unknown.is_empty(), "{service} does not know {unknown:?}:\n{help}");
        assert_eq!(pod["serviceAccountName"], service);
    }
}
