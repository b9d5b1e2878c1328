//! kubectl, as users run it.

use std::process::Stdio;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::plane::Plane;

/// Runs kubectl, with a memory of its own of what the server offers, against the shared plane as cluster admin.
/// `input` is what it reads. Gives what it printed, or its words of refusal.
///
/// # Panics
/// When kubectl cannot be run.
pub async fn kubectl(arguments: &[&str], input: &str) -> Result<String, String> {
    kubectl_on(&Plane::shared(), arguments, input).await
}

/// The same, against another plane.
///
/// # Panics
/// When kubectl cannot be run.
pub async fn kubectl_on(plane: &Plane, arguments: &[&str], input: &str) -> Result<String, String> {
    let mut child = Command::new(plane.dir().join("kubectl"))
        .arg("--kubeconfig")
        .arg(plane.dir().join("admin.kubeconfig"))
        .arg("--cache-dir")
        .arg(plane.dir().join("kubectl-cache-of-users"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("kubectl runs");
    let mut stdin = child.stdin.take().expect("kubectl reads");
    // A kubectl that refuses its arguments has closed its input; its words say why.
    let _ = stdin.write_all(input.as_bytes()).await;
    drop(stdin);
    let output = child.wait_with_output().await.expect("kubectl ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("kubectl writes text");
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}
