//! Bad input and what the user is told: each row is tried, and the table of the answers is a document.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use e2e::kubectl::kubectl;
use e2e::{Namespace, Plane, http, in_namespace, sets};
use grove_api_types::core::PodCliqueSet;
use serde_json::{Value, json};
use tokio::process::Command;

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
async fn bad_input_is_answered_with_the_field_and_the_remedy() {
    in_namespace("e2e-bad-input", async |ns| {
        let mut document = INTRODUCTION.to_owned();
        document += "\n## Sets\n\n| wrong | the answer |\n|---|---|\n";
        for (what, replaced, by) in SETS {
            document += &row(what, &refused(ns, what, &with_scheduler(replaced, by)).await);
        }
        document += &row("a size below zero by `kubectl scale`", &scaled_below_zero(ns).await);
        document += "\n## Starting a service\n\n| wrong | exit code | the last words |\n|---|---|---|\n";
        for (what, arguments) in starts() {
            let (code, words) = started(&arguments).await;
            document += &row_of_start(what, code, &words);
        }
        document += "\n## A service that waits\n\nIt says why in its log and to whoever asks `/readyz`, tries again, and ends with code 0 when it is asked to.\n";
        document += "\n| wrong | `/readyz` |\n|---|---|\n";
        for (what, kubeconfig) in waits(ns).await {
            document += &row(what, &waiting(&kubeconfig).await);
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

/// Mistakes at the start of a service.
fn starts() -> Vec<(&'static str, Vec<String>)> {
    let file = |name: &str, text: &str| {
        let path = folder().join(name);
        std::fs::write(&path, text).expect("the file is written");
        path.display().to_string()
    };
    let head = "apiVersion: operator.config.grove.io/v1alpha1\nkind: OperatorConfiguration\n";
    let several = format!("{head}logLevel: loud\nleaderElection: {{leaseDuration: 5s, renewDeadline: 10s}}\n");
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

fn folder() -> PathBuf {
    let folder = Plane::shared().dir().join("bad-input");
    std::fs::create_dir_all(&folder).expect("a folder for the files of this test");
    folder
}

fn row_of_start(what: &str, code: i32, words: &str) -> String {
    format!("| {what} | {code} | {} |\n", cell(words))
}

/// The exit code of a service and its last words, without what differs from machine to machine.
async fn started(arguments: &[String]) -> (i32, String) {
    let xtask = std::env::var_os("GROVE_XTASK").expect("run by `cargo xtask test`");
    let service = Path::new(&xtask).with_file_name("pcs-controller");
    let mut command = Command::new(service);
    command.args(arguments).args(["--log-format", "text"]).stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await.expect("the service runs");
    let words = [output.stdout, output.stderr].concat();
    let words = String::from_utf8(words).expect("text").replace(&folder().display().to_string(), "FOLDER");
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

/// What a service with this kubeconfig says it waits for. It ends when it is asked to.
async fn waiting(kubeconfig: &str) -> String {
    let xtask = std::env::var_os("GROVE_XTASK").expect("run by `cargo xtask test`");
    let ports = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").expect("a port"));
    let [probes, metrics] = ports.map(|listener| listener.local_addr().expect("an address"));
    let mut command = Command::new(Path::new(&xtask).with_file_name("pcs-controller"));
    command.args(["--kubeconfig", kubeconfig, "--probe-address", &probes.to_string(), "--metrics-address"]);
    command
        .arg(metrics.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let mut service = command.spawn().expect("the service starts");
    let said = e2e::plane::until_said(async || {
        let answer = http::ask(probes.port(), "GET", "/readyz", "").await;
        let (_, said) = answer.ok().filter(|(status, _)| *status == 503)?;
        let line = said.lines().find(|line| line.starts_with("waiting for podcliquesets: "))?;
        Some(line.to_owned())
    });
    let said = said.await;
    let pid = i32::try_from(service.id().expect("it runs")).expect("a pid");
    let pid = rustix::process::Pid::from_raw(pid).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it is asked to stop");
    let ended = tokio::time::timeout(e2e::world::LIMIT, service.wait()).await.expect("it ends").expect("it ended");
    assert_eq!(ended.code(), Some(0), "{kubeconfig}");
    said
}
