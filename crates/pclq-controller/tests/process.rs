//! The process as who runs it sees it: exit codes, what it prints, and what it answers while it cannot work.

#![allow(clippy::unwrap_used, clippy::panic, reason = "whatever fails here fails the test")]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A test that has waited this long has failed. It bounds a hang; no test measures with it.
const LIMIT: Duration = Duration::from_secs(60);

fn command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_pclq-controller"))
}

fn run(arguments: &[&str]) -> Output {
    command().args(arguments).output().unwrap()
}

/// A file of this test, in the folder that Cargo gives for such.
fn file(name: &str, content: &str) -> PathBuf {
    // Of its own for each run, since two may share a target folder.
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
    fs::write(&path, content).unwrap();
    path
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// Asks until the answer contains `words`.
fn until(address: SocketAddr, path: &str, words: &str) -> String {
    let began = Instant::now();
    loop {
        let answer = get(address, path).unwrap_or_default();
        if answer.contains(words) {
            return answer;
        }
        assert!(began.elapsed() < LIMIT, "{path} never said {words:?}, but {answer:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A process that does not outlive its test.
struct Running(Child);

impl Running {
    fn terminated(mut self) -> Option<i32> {
        let status = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status().unwrap();
        assert!(status.success());
        self.0.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended by itself if all went well.
        let _ = self.0.kill();
    }
}

#[test]
fn a_configuration_that_makes_no_sense_ends_it_with_every_problem() {
    let config = file(
        "bad.yaml",
        "apiVersion: operator.config.grove.io/v1alpha1\nkind: OperatorConfiguration\n\
         logLevel: loud\ncontrollers: {podClique: {concurrentSyncs: 0}}\n",
    );
    let output = run(&["--config", config.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<_> = text.lines().skip(1).collect();
    let expected = [
        "  controllers.podClique.concurrentSyncs: Invalid value: 0: must be greater than 0 and at most 65535",
        "  logLevel: Unsupported value: \"loud\": supported values: debug, info, error",
    ];
    assert_eq!(lines, expected, "{text}");
}

#[test]
fn flags_that_make_no_sense_and_a_missing_cluster_are_told_apart() {
    let output = run(&["--confg", "x"]);
    assert_eq!(output.status.code(), Some(2));
    let output = run(&["--kubeconfig", "/nowhere/kubeconfig"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("could not use kubeconfig /nowhere/kubeconfig"), "{text}");
}

#[test]
fn without_an_api_server_it_waits_says_why_and_stops_when_asked() {
    let nobody = free_address();
    let kubeconfig = file(
        "unreachable.kubeconfig",
        &format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             clusters: [{{name: c, cluster: {{server: 'http://{nobody}'}}}}]\n\
             contexts: [{{name: c, context: {{cluster: c, user: c}}}}]\nusers: [{{name: c, user: {{}}}}]\n"
        ),
    );
    let (probes, metrics) = (free_address(), free_address());
    let child = command()
        .args(["--kubeconfig", kubeconfig.to_str().unwrap()])
        .args(["--probe-address", &probes.to_string(), "--metrics-address", &metrics.to_string()])
        .stderr(Stdio::null())
        .spawn();
    let child = Running(child.unwrap());
    let answer = until(probes, "/readyz", "waiting for podcliques: the API server cannot be reached");
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(get(probes, "/healthz").unwrap().starts_with("HTTP/1.1 200"), "it lives");
    until(metrics, "/metrics", "leader_election_master_status");
    assert_eq!(running.terminated(), Some(0));
}
