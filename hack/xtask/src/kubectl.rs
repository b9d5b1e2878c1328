//! kubectl as a tool: every write of the verbs goes through it, so what they do can be repeated by hand.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

#[derive(Clone, Debug)]
pub(crate) struct Kubectl {
    pub(crate) program: PathBuf,
    pub(crate) kubeconfig: PathBuf,
    /// kubectl remembers by host and port what a server offers; a new plane may reuse the port of an old one.
    pub(crate) discovery_cache: PathBuf,
}

impl Kubectl {
    pub(crate) fn new(program: &Path, dir: &Path) -> Self {
        Self {
            program: program.to_owned(),
            kubeconfig: dir.join("admin.kubeconfig"),
            discovery_cache: dir.join("kubectl-cache"),
        }
    }

    /// Runs and returns what was printed; an error carries kubectl's own words.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Result<String> {
        self.feed(arguments, "").await
    }

    /// The same, with something to read on its standard input.
    pub(crate) async fn feed(&self, arguments: &[&str], input: &str) -> Result<String> {
        let mut child = Command::new(&self.program)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .arg("--cache-dir")
            .arg(&self.discovery_cache)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot run {}", self.program.display()))?;
        let mut stdin = child.stdin.take().context("kubectl has no standard input")?;
        let feeding = async move {
            // A kubectl that fails early closes its input; its own message says more than a broken pipe.
            _ = stdin.write_all(input.as_bytes()).await;
            drop(stdin);
        };
        let ((), output) = tokio::join!(feeding, child.wait_with_output());
        let output = output?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr);
            bail!("kubectl {}: {}", arguments.join(" "), words.trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Applies manifests, server-side and by force: each in one request, whether it is new or there from an earlier `up`, and
    /// with what somebody else changed of its fields taken back.
    pub(crate) async fn apply(&self, manifests: &str) -> Result<String> {
        self.feed(&["apply", "--server-side", "--force-conflicts", "--field-manager=grove-xtask", "-f", "-"], manifests)
            .await
    }
}
