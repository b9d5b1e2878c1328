//! Invalid input and the error messages that users see. The test writes them as a table and compares it with
//! `docs/bad-input.md`.

use std::net::TcpListener;
use std::path::PathBuf;

use e2e::kubectl::kubectl;
use e2e::standalone::{self, StandaloneService};
use e2e::{Namespace, TestCluster, fixtures, in_namespace};
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_dev_harness::readiness_probe;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

/// A valid set in which `by` replaces the text `replaced`.
fn invalid_set(replaced: &str, by: &str) -> String {
    let valid = fixtures::with_scaling_group("bad", 1, "");
    assert!(valid.contains(replaced), "{replaced:?} is not in\n{valid}");
    valid.replacen(replaced, by, 1)
}

/// The mistake in a set, a text of the valid set, and its replacement.
const SETS: &[(&str, &str, &str)] = &[
    ("a misspelt field", "  replicas: 1\n", "  replcas: 1\n"),
    ("a misspelt field in a pod spec", "schedulerName: x, ", "schedulerNam: x, "),
    ("more objects than the limit", "  replicas: 1\n", "  replicas: 100000\n"),
    ("negative replicas", "  replicas: 1\n", "  replicas: -1\n"),
    ("a string for a number", "minAvailable: 1", "minAvailable: one"),
    ("two cliques with the same name", "- {name: p,", "- {name: d,"),
    ("a clique without a name", "- {name: p, spec:", "- {spec:"),
    ("an unknown startup type", "    cliques:", "    cliqueStartupType: InOrder\n    cliques:"),
    ("an unknown update strategy", "  replicas: 1\n", "  replicas: 1\n  updateStrategy: {type: Rolling}\n"),
    ("a duration without a unit", "    cliques:", "    terminationDelay: '4'\n    cliques:"),
    ("an autoscaler without a maximum", "autoScalingConfig: {maxReplicas: 4}", "autoScalingConfig: {minReplicas: 4}"),
    ("a scaling group without cliques", "      cliqueNames: [p, d]\n", ""),
    ("a pod spec without containers", "containers: [{name: main", "initContainers: [{name: main"),
    (
        "two domains for one constraint",
        "    cliques:",
        "    topologyConstraint: {topologyName: t, packDomain: rack, pack: {required: zone}}\n    cliques:",
    ),
];

#[tokio::test]
async fn invalid_input_is_rejected_with_the_field_and_the_remedy() {
    in_namespace("e2e-bad-input", async |ns| {
        let mut document = INTRODUCTION.to_owned();
        document += "\n## Sets\n\n| mistake | message |\n|---|---|\n";
        for (what, replaced, by) in SETS {
            document += &row(what, &rejection(ns, what, &with_scheduler(replaced, by)).await);
        }
        document += &row("negative replicas through the scale subresource", &scaled_below_zero(ns).await);
        document += "\n## Starting a service\n\n| mistake | exit code | message |\n|---|---|---|\n";
        for (service, mistakes) in
            [("pcs-controller", start_mistakes()), ("webhook-server", webhook_server_start_mistakes())]
        {
            for (what, flags) in mistakes {
                let (code, output) = run(service, &flags).await;
                document += &start_row(what, code, &output);
            }
        }
        for (what, service, flag) in ADDRESSES {
            let (code, output) = run_with_address_in_use(service, flag).await;
            document += &start_row(what, code, &output);
        }
        let daemon = standalone::run_to_exit("compute-domain-daemon", &["run".to_owned()]).await;
        let (code, output) = (daemon.status.code().expect("an exit code"), String::from_utf8_lossy(&daemon.stderr));
        document += &start_row("a daemon of a ComputeDomain without the variables of its claim", code, &output);
        document += NOT_READY;
        for (what, kubeconfig) in failing_kubeconfigs(ns).await {
            document +=
                &row(what, &readiness_message("pcs-controller", &["--kubeconfig", &kubeconfig], "podcliquesets").await);
        }
        for (what, flags) in without_certificate() {
            let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
            document += &row(what, &readiness_message("webhook-server", &flags, "the certificate").await);
        }
        let path = format!("{}/../docs/bad-input.md", env!("CARGO_MANIFEST_DIR"));
        expect_test::expect_file![path].assert_eq(&document);
        let stored = ns.api::<PodCliqueSet>().list(&kube::api::ListParams::default()).await.expect("a list");
        assert_eq!(stored.items.len(), 1, "only the valid set is stored");
    })
    .await;
}

/// The API server stores the deletion time of a server-side apply that creates an object.
#[tokio::test]
async fn an_applied_set_with_a_deletion_time_is_validated() {
    in_namespace("e2e-applied-deletion-time", async |ns| {
        let mut set: Value =
            serde_saphyr::from_str(&invalid_set("  replicas: 1\n", "  replicas: 100000\n")).expect("YAML");
        set["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let applied = ns.api::<PodCliqueSet>().patch("bad", &PatchParams::apply("user"), &Patch::Apply(&set)).await;
        let error = applied.expect_err("the set is denied").to_string();
        assert!(error.contains("pcs.validating.webhooks.grove.io"), "{error}");
    })
    .await;
}

const INTRODUCTION: &str = "# Bad input

The error messages for invalid input. A test makes each of these mistakes and compares the messages with this page.
[configuration.md](configuration.md) describes the configuration and its errors.
";

const NOT_READY: &str = "
## A service that is not ready

The service reports the reason in its log and at `/readyz`, retries, and exits with code 0 on SIGTERM.

| mistake | `/readyz` |
|---|---|
";

/// The row about pod specs misspells the scheduler name, which the other rows do not need.
fn with_scheduler(replaced: &str, by: &str) -> String {
    if replaced.starts_with("schedulerName") {
        fixtures::with_scaling_group("bad", 1, by)
    } else {
        invalid_set(replaced, by)
    }
}

async fn rejection(ns: &Namespace, what: &str, set: &str) -> String {
    let result = kubectl(&["--namespace", &ns.name, "create", "--filename", "-"], set).await;
    result.expect_err(what)
}

async fn scaled_below_zero(ns: &Namespace) -> String {
    ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("right", 0)).await;
    let patch = r#"{"spec": {"replicas": -1}}"#;
    let arguments =
        ["--namespace", &ns.name, "patch", "pcs", "right", "--subresource=scale", "--type=merge", "-p", patch];
    kubectl(&arguments, "").await.expect_err("the API server rejects the size")
}

fn row(what: &str, message: &str) -> String {
    format!("| {what} | {} |\n", cell(message))
}

/// Formats a text as a table cell.
fn cell(text: &str) -> String {
    let text = text.trim().replace('|', "\\|");
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let lines: Vec<_> = lines.map(|line| format!("`{}`", line.trim().replace('`', "'"))).collect();
    lines.join("<br>")
}

/// The first lines of a configuration.
const HEAD: &str = "apiVersion: operator.config.grove.io/v1alpha1\nkind: OperatorConfiguration\n";

/// Invalid flags and files of any service.
fn start_mistakes() -> Vec<(&'static str, Vec<String>)> {
    let file = |name: &str, text: &str| {
        let path = folder().join(name);
        std::fs::write(&path, text).expect("the file is written");
        path.display().to_string()
    };
    let several = format!("{HEAD}logLevel: loud\nleaderElection: {{leaseDuration: 5s, renewDeadline: 10s}}\n");
    let kubeconfig = "apiVersion: v1\nkind: Config\nclusters: []\ncontexts: []\nusers: []\n";
    let flag = |flag: &str, value: String| vec![flag.to_owned(), value];
    vec![
        ("an unknown flag", vec!["--nonsense".to_owned()]),
        ("an unknown log format", flag("--log-format", "xml".to_owned())),
        ("an address without a port", flag("--probe-address", "127.0.0.1".to_owned())),
        ("a missing configuration file", flag("--config", folder().join("nowhere.yaml").display().to_string())),
        ("a configuration that is not YAML", flag("--config", file("no-yaml.yaml", "a: [b"))),
        ("a configuration of another kind", flag("--config", file("kind.yaml", "apiVersion: v1\nkind: ConfigMap\n"))),
        ("several invalid values", flag("--config", file("several.yaml", &several))),
        ("a missing kubeconfig", flag("--kubeconfig", folder().join("nowhere").display().to_string())),
        ("a kubeconfig without a context", flag("--kubeconfig", file("no-context.yaml", kubeconfig))),
        ("a kubeconfig that is not YAML", flag("--kubeconfig", file("no-kubeconfig.yaml", "a: [b"))),
        ("no kubeconfig outside of a pod", Vec::new()),
    ]
}

/// Invalid flags that only webhook-server has.
fn webhook_server_start_mistakes() -> Vec<(&'static str, Vec<String>)> {
    let flag = |flag: &str, value: &str| vec![flag.to_owned(), value.to_owned()];
    vec![
        ("a webhook address without a port", flag("--webhook-address", "0.0.0.0")),
        ("an unknown certificate mode", flag("--cert-provision-mode", "cert-manager")),
        ("a certificate period without a unit", flag("--certificate-period", "60")),
        ("a certificate period of zero", flag("--certificate-period", "0s")),
        ("a CA period above the maximum", flag("--ca-period", "9999999h")),
        ("a shutdown delay that is no duration", flag("--shutdown-delay-duration", "soon")),
        ("a shutdown delay above the maximum", flag("--shutdown-delay-duration", "1m")),
        ("a URL as certificate name", flag("--certificate-names", "webhooks,https://grove.example.com")),
        (
            "a ServiceAccount with its namespace",
            flag("--grove-accounts", "system:serviceaccount:grove-system:pcs-controller"),
        ),
    ]
}

/// The addresses that services listen on.
const ADDRESSES: [(&str, &str, &str); 3] = [
    ("a probe address in use", "pcs-controller", "--probe-address"),
    ("a metrics address in use", "pcs-controller", "--metrics-address"),
    ("a webhook address in use", "webhook-server", "--webhook-address"),
];

/// The exit code and the output of a service whose address of this flag is in use.
async fn run_with_address_in_use(service: &str, flag: &str) -> (i32, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let used = listener.local_addr().expect("an address").to_string();
    let mut flags = vec!["--kubeconfig".to_owned(), standalone::unreachable_kubeconfig(&folder())];
    // Every service has the addresses of probes and metrics.
    for (_, _, other) in ADDRESSES.iter().filter(|(_, of, _)| *of == "pcs-controller" || *of == service) {
        let address = if *other == flag { &used } else { "127.0.0.1:0" };
        flags.extend([(*other).to_owned(), address.to_owned()]);
    }
    let (code, output) = run(service, &flags).await;
    (code, output.replace(&used, "ADDRESS:PORT"))
}

fn folder() -> PathBuf {
    let folder = TestCluster::shared().dir().join("bad-input");
    std::fs::create_dir_all(&folder).expect("a folder for the files of this test");
    folder
}

fn without_folder(text: &str) -> String {
    text.replace(&folder().display().to_string(), "FOLDER")
}

fn start_row(what: &str, code: i32, output: &str) -> String {
    format!("| {what} | {code} | {} |\n", cell(output))
}

/// The exit code and the output of a service, without text that differs between machines.
async fn run(service: &str, flags: &[String]) -> (i32, String) {
    let output = standalone::run_to_exit(service, &[flags, &["--log-format=text".to_owned()]].concat()).await;
    let text = [output.stdout, output.stderr].concat();
    let text = without_folder(&String::from_utf8(text).expect("text"));
    // A log line begins with the time.
    let text = text.split_once("ERROR ").map_or(text.clone(), |(_, error)| format!("ERROR {error}"));
    (output.status.code().expect("an exit code"), text)
}

/// Kubeconfigs with which every list fails.
async fn failing_kubeconfigs(ns: &Namespace) -> Vec<(&'static str, String)> {
    let cluster = TestCluster::shared();
    let admin = std::fs::read_to_string(cluster.dir().join("admin.kubeconfig")).expect("the cluster's kubeconfig");
    let admin: Value = serde_saphyr::from_str(&admin).expect("YAML");
    let entry = &admin["clusters"][0]["cluster"];
    let kubeconfig = |name: &str, entry: &Value, token: &str| {
        let text = json!({ "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{ "name": "c", "cluster": entry }], "users": [{ "name": "u", "user": { "token": token } }],
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }] });
        let path = folder().join(name);
        std::fs::write(&path, text.to_string()).expect("the file is written");
        path.display().to_string()
    };
    let unreachable = json!({ "server": "https://127.0.0.1:1" });
    let untrusted = json!({ "server": entry["server"] });
    let account = kubectl(&["--namespace", &ns.name, "create", "token", "default"], "").await.expect("a token");
    vec![
        ("an unreachable API server", kubeconfig("unreachable.yaml", &unreachable, "t")),
        ("an API server with an untrusted certificate", kubeconfig("untrusted.yaml", &untrusted, "t")),
        ("an invalid token", kubeconfig("token.yaml", entry, "t")),
        ("a ServiceAccount without permissions", kubeconfig("account.yaml", entry, account.trim())),
    ]
}

/// Flags of webhook servers without a usable certificate.
fn without_certificate() -> Vec<(&'static str, Vec<String>)> {
    let key = || rcgen::KeyPair::generate().expect("a key");
    let certificate = rcgen::CertificateParams::default().self_signed(&key()).expect("a certificate").pem();
    let kubeconfig = standalone::unreachable_kubeconfig(&folder());
    let of = |name: &str, files: &[(&str, &str)]| {
        let certificates = folder().join(name);
        std::fs::create_dir_all(&certificates).expect("a folder");
        for (file, text) in files {
            std::fs::write(certificates.join(file), text).expect("the file is written");
        }
        let config = folder().join(name).with_added_extension("yaml");
        let text = format!("{HEAD}server: {{webhooks: {{serverCertDir: '{}'}}}}\n", certificates.display());
        std::fs::write(&config, text).expect("the file is written");
        let flags =
            ["--kubeconfig", &kubeconfig, "--cert-provision-mode=manual", "--config", &config.display().to_string()];
        flags.map(str::to_owned).to_vec()
    };
    vec![
        ("manual certificates, but an empty folder", of("without", &[])),
        ("a certificate without a key", of("keyless", &[("tls.crt", &certificate)])),
        (
            "a file without a certificate",
            of("no-certificate", &[("tls.crt", "x"), ("tls.key", &key().serialize_pem())]),
        ),
        (
            "a key that does not fit the certificate",
            of("foreign-key", &[("tls.crt", &certificate), ("tls.key", &key().serialize_pem())]),
        ),
    ]
}

/// The readiness message of a service that waits for `what`. The service then stops on SIGTERM.
async fn readiness_message(service: &str, flags: &[&str], what: &str) -> String {
    let service = StandaloneService::start(service, flags);
    let prefix = format!("waiting for {what}: ");
    let message = e2e::poll::poll_until(async || {
        let response = readiness_probe::send(service.probes).await;
        let (_, body) = response.ok().filter(|(status, _)| *status == 503)?;
        let line = body.lines().find(|line| line.starts_with(&prefix))?;
        Some(without_folder(line))
    });
    let message = message.await;
    service.stop().await;
    message
}
