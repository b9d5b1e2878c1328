//! A service that cannot begin ends at once: with a message that names what is wrong, and an exit code that says whose
//! fault it is.

use std::path::PathBuf;
use std::process::Stdio;

use e2e::plane::given;
use tokio::process::Command;

/// Of the configuration, and of the command line.
const MISCONFIGURED: i32 = 2;
const FAILED: i32 = 1;

#[tokio::test]
async fn what_is_wrong_with_the_configuration_is_named() {
    let file = configuration("level", "logLevel: loud");
    ends_with(&["--config", &file], MISCONFIGURED, &[&file, "logLevel", "loud"]).await;
    let file = configuration("syncs", "controllers: {podClique: {concurrentSyncs: -1}}");
    ends_with(&["--config", &file], MISCONFIGURED, &["controllers.podClique.concurrentSyncs", "-1"]).await;
    ends_with(&["--config", "/nowhere/config.yaml"], MISCONFIGURED, &["/nowhere/config.yaml"]).await;
    ends_with(&["--probe-address", "nowhere"], MISCONFIGURED, &["--probe-address", "nowhere"]).await;
}

#[tokio::test]
async fn a_kubeconfig_that_is_none_is_named() {
    ends_with(&["--kubeconfig", "/nowhere/kubeconfig"], FAILED, &["/nowhere/kubeconfig"]).await;
}

/// Both services, started like that, end with the code and say the words.
async fn ends_with(arguments: &[&str], code: i32, words: &[&str]) {
    for service in ["pcs-controller", "pclq-controller"] {
        let mut command = Command::new(PathBuf::from(given("GROVE_XTASK")).with_file_name(service));
        command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(e2e::world::LIMIT, command.output()).await;
        let output = output.expect("it ends").expect("it runs");
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        assert_eq!(output.status.code(), Some(code), "{service} {arguments:?} says:\n{said}");
        let missing: Vec<_> = words.iter().filter(|word| !said.contains(**word)).collect();
        assert!(missing.is_empty(), "{service} {arguments:?} does not say {missing:?} but:\n{said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}

/// A configuration with one line of its own.
fn configuration(name: &str, line: &str) -> String {
    let file = PathBuf::from(given("GROVE_TEST_DIR")).join(format!("{name}.config.yaml"));
    let head = "apiVersion: operator.config.grove.io/v1alpha1\nkind: OperatorConfiguration\n";
    std::fs::write(&file, format!("{head}{line}\n")).expect("a file in the plane's folder");
    file.display().to_string()
}
