//! Bad input and what the user is told: each row is tried, and the table of the answers is a document.

use std::net::TcpListener;
use std::path::PathBuf;

use e2e::apart::{self, Apart};
use e2e::kubectl::kubectl;
use e2e::{Namespace, Plane, in_namespace, sets};
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_dev_harness::http;
use serde_json::{Value, json};

/// A set that is right but for `replaced`, which stands in the place of `by`.
fn wrong(replaced: &str, by: &str) -> String {
    let right = sets::grouped("bad", 1, "");
    assert!(right.contains(replaced), "{replaced:?} is not in\n{right}");
    right.replacen(replaced, by, 1)
}

/// What is wrong with a set, the place in a right one, and what stands there instead.
const SETS: &[(&str, &str, &str)] = &[
    ("a misspelt field", "  replicas: 1\n", "  replcas: 1\n"),
    ("a misspelt field of a pod spec", "schedulerName: x, ", "schedulerNam: x, "),
    ("more objects than any cluster holds", "  replicas: 1\n", "  replicas: 100000\n"),
    ("a negative size", "  replicas: 1\n", "  replicas: -1\n"),
    ("a text for a number", "minAvailable: 1", "minAvailable: one"),
    ("two cliques of one name", "- {name: p,", "- {name: d,"),
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
        document += "\n## Sets\n\n| wrong | the answer |\n|---|---|\n";
        for (what, replaced, by) in SETS {
            document += &row(what, &refused(ns, what, &with_scheduler(replaced, by)).await);
        }
        document += &row("a size below zero by `kubectl scale`", &scaled_below_zero(ns).await);
        document += "\n## Starting a service\n\n| wrong | exit code | the last words |\n|---|---|---|\n";
        for (service, mistakes) in [("pcs-controller", starts()), ("webhook-server", starts_of_webhooks())] {
            for (what, flags) in mistakes {
                let (code, words) = started(service, &flags).await;
                document += &row_of_start(what, code, &words);
            }
        }
        for (what, service, flag) in PLACES {
            let (code, words) = started_where_somebody_is(service, flag).await;
            document += &row_of_start(what, code, &words);
        }
        document += "\n## A service that waits\n\nIt says why in its log and to whoever asks `/readyz`, tries again, and ends with code 0 when it is asked to.\n";
        document += "\n| wrong | `/readyz` |\n|---|---|\n";
        for (what, kubeconfig) in waits(ns).await {
            document += &row(what, &waiting("pcs-controller", &["--kubeconfig", &kubeconfig], "podcliquesets").await);
        }
        for (what, flags) in waits_of_webhooks() {
            let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
            document += &row(what, &waiting("webhook-server", &flags, "the certificate").await);
        }
        let path = format!("{}/../docs/bad-input.md", env!("CARGO_MANIFEST_DIR"));
        expect_test::expect_file![path].assert_eq(&document);
        let left = ns.api::<PodCliqueSet>().list(&kube::api::ListParams::default()).await.expect("a list");
        assert_eq!(left.items.len(), 1, "only the set that was right is there");
    })
    .await;
}

const INTRODUCTION: &str = "# Bad input

What users are told when something is wrong. A test makes each of these mistakes and compares the answers with this page. The keys
of the configuration and what is said about each of them: [configuration.md](configuration.md).
";

/// A scheduler's name gives the row about pod specs something to misspell.
fn with_scheduler(replaced: &str, by: &str) -> String {
    if replaced.starts_with("schedulerName") { sets::grouped("bad", 1, by) } else { wrong(replaced, by) }
}

async fn refused(ns: &Namespace, what: &str, set: &str) -> String {
    let answer = kubectl(&["--namespace", &ns.name, "create", "--filename", "-"], set).await;
    answer.expect_err(what)
}

async fn scaled_below_zero(ns: &Namespace) -> String {
    ns.create_yaml::<PodCliqueSet>(&sets::three_cliques("right", 0)).await;
    let patch = r#"{"spec": {"replicas": -1}}"#;
    let arguments =
        ["--namespace", &ns.name, "patch", "pcs", "right", "--subresource=scale", "--type=merge", "-p", patch];
    kubectl(&arguments, "").await.expect_err("the size is refused")
}

fn row(what: &str, answer: &str) -> String {
    format!("| {what} | {} |\n", cell(answer))
}

/// Text that fits into a cell of a table.
fn cell(text: &str) -> String {
    let text = text.trim().replace('|', "\\|");
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let lines: Vec<_> = lines.map(|line| format!("`{}`", line.trim().replace('`', "'"))).collect();
    lines.join("<br>")
}

/// What a configuration begins with.
const HEAD: &str = "apiVersion: operator.config.grove.io/v1alpha1\nkind: OperatorConfiguration\n";

/// Mistakes at the start of a service.
fn starts() -> Vec<(&'static str, Vec<String>)> {
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
        ("an unknown form of the log", flag("--log-format", "xml".to_owned())),
        ("an address without a port", flag("--probe-address", "127.0.0.1".to_owned())),
        ("a configuration that is not there", flag("--config", folder().join("nowhere.yaml").display().to_string())),
        ("a configuration that is no YAML", flag("--config", file("no-yaml.yaml", "a: [b"))),
        ("a configuration of another kind", flag("--config", file("kind.yaml", "apiVersion: v1\nkind: ConfigMap\n"))),
        ("several values that make no sense", flag("--config", file("several.yaml", &several))),
        ("a kubeconfig that is not there", flag("--kubeconfig", folder().join("nowhere").display().to_string())),
        ("a kubeconfig without a context", flag("--kubeconfig", file("no-context.yaml", kubeconfig))),
        ("a kubeconfig that is no YAML", flag("--kubeconfig", file("no-kubeconfig.yaml", "a: [b"))),
        ("neither a kubeconfig nor a pod to run in", Vec::new()),
    ]
}

/// Mistakes with the flags that only webhook-server has.
fn starts_of_webhooks() -> Vec<(&'static str, Vec<String>)> {
    let flag = |flag: &str, value: &str| vec![flag.to_owned(), value.to_owned()];
    vec![
        ("webhooks at an address without a port", flag("--webhook-address", "0.0.0.0")),
        ("an unknown origin of certificates", flag("--cert-provision-mode", "cert-manager")),
        ("a certificate's period without a unit", flag("--certificate-period", "60")),
        ("a certificate that is renewed all the time", flag("--certificate-period", "0s")),
        ("an authority for longer than certificates can say", flag("--ca-period", "9999999h")),
        ("a delay that is no duration", flag("--shutdown-delay-duration", "soon")),
        ("a delay that is longer than the process may take to end", flag("--shutdown-delay-duration", "1m")),
        ("a certificate's name that is an URL", flag("--certificate-names", "webhooks,https://grove.example.com")),
        (
            "an account with its namespace",
            flag("--grove-accounts", "system:serviceaccount:grove-system:pcs-controller"),
        ),
    ]
}

/// Where services listen.
const PLACES: [(&str, &str, &str); 3] = [
    ("an address for probes that is taken", "pcs-controller", "--probe-address"),
    ("an address for metrics that is taken", "pcs-controller", "--metrics-address"),
    ("an address for webhooks that is taken", "webhook-server", "--webhook-address"),
];

/// The exit code and the last words of a service that cannot listen where this flag says.
async fn started_where_somebody_is(service: &str, flag: &str) -> (i32, String) {
    let somebody = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = somebody.local_addr().expect("an address").to_string();
    let mut flags = vec!["--kubeconfig".to_owned(), apart::nowhere(&folder())];
    // Probes and metrics all services serve.
    for (_, _, place) in PLACES.iter().filter(|(_, of, _)| *of == "pcs-controller" || *of == service) {
        let address = if *place == flag { &taken } else { "127.0.0.1:0" };
        flags.extend([(*place).to_owned(), address.to_owned()]);
    }
    let (code, words) = started(service, &flags).await;
    (code, words.replace(&taken, "ADDRESS:PORT"))
}

fn folder() -> PathBuf {
    let folder = Plane::shared().dir().join("bad-input");
    std::fs::create_dir_all(&folder).expect("a folder for the files of this test");
    folder
}

fn without_folder(words: &str) -> String {
    words.replace(&folder().display().to_string(), "FOLDER")
}

fn row_of_start(what: &str, code: i32, words: &str) -> String {
    format!("| {what} | {code} | {} |\n", cell(words))
}

/// The exit code of a service and its last words, without what differs from machine to machine.
async fn started(service: &str, flags: &[String]) -> (i32, String) {
    let output = apart::output(service, &[flags, &["--log-format=text".to_owned()]].concat()).await;
    let words = [output.stdout, output.stderr].concat();
    let words = without_folder(&String::from_utf8(words).expect("text"));
    // A line of the log begins with the time.
    let words = words.split_once("ERROR ").map_or(words.clone(), |(_, said)| format!("ERROR {said}"));
    (output.status.code().expect("it was not killed"), words)
}

/// Kubeconfigs by which no list comes about.
async fn waits(ns: &Namespace) -> Vec<(&'static str, String)> {
    let plane = Plane::shared();
    let own = std::fs::read_to_string(plane.dir().join("admin.kubeconfig")).expect("the plane's kubeconfig");
    let own: Value = serde_saphyr::from_str(&own).expect("YAML");
    let cluster = &own["clusters"][0]["cluster"];
    let kubeconfig = |name: &str, cluster: &Value, token: &str| {
        let text = json!({ "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{ "name": "c", "cluster": cluster }], "users": [{ "name": "u", "user": { "token": token } }],
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }] });
        let path = folder().join(name);
        std::fs::write(&path, text.to_string()).expect("the file is written");
        path.display().to_string()
    };
    let nobody = json!({ "server": "https://127.0.0.1:1" });
    let foreign = json!({ "server": cluster["server"] });
    let account = kubectl(&["--namespace", &ns.name, "create", "token", "default"], "").await.expect("a token");
    vec![
        ("a server that is not there", kubeconfig("nobody.yaml", &nobody, "t")),
        ("a server that nobody vouches for", kubeconfig("foreign.yaml", &foreign, "t")),
        ("a token that is none", kubeconfig("token.yaml", cluster, "t")),
        ("an account without rules", kubeconfig("account.yaml", cluster, account.trim())),
    ]
}

/// Webhook servers that have no certificate.
fn waits_of_webhooks() -> Vec<(&'static str, Vec<String>)> {
    let key = || rcgen::KeyPair::generate().expect("a key");
    let certificate = rcgen::CertificateParams::default().self_signed(&key()).expect("a certificate").pem();
    let nobody = apart::nowhere(&folder());
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
            ["--kubeconfig", &nobody, "--cert-provision-mode=manual", "--config", &config.display().to_string()];
        flags.map(str::to_owned).to_vec()
    };
    vec![
        ("certificates made by others, and none there", of("without", &[])),
        ("a certificate without a key", of("keyless", &[("tls.crt", &certificate)])),
        (
            "a file that is no certificate",
            of("no-certificate", &[("tls.crt", "x"), ("tls.key", &key().serialize_pem())]),
        ),
        (
            "a key that does not fit the certificate",
            of("foreign-key", &[("tls.crt", &certificate), ("tls.key", &key().serialize_pem())]),
        ),
    ]
}

/// What a service says it waits for before this is there. It ends when it is asked to.
async fn waiting(service: &str, flags: &[&str], what: &str) -> String {
    let service = Apart::start(service, flags);
    let begins = format!("waiting for {what}: ");
    let said = e2e::plane::until_said(async || {
        let answer = http::send(service.probes, "GET", "/readyz", "").await;
        let (_, said) = answer.ok().filter(|(status, _)| *status == 503)?;
        let line = said.lines().find(|line| line.starts_with(&begins))?;
        Some(without_folder(line))
    });
    let said = said.await;
    service.end().await;
    said
}
