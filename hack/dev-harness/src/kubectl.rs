//! Runs kubectl against one cluster.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// A kubectl program and the cluster that it talks to.
#[derive(Clone, Debug)]
pub struct Kubectl {
    /// The program.
    pub program: PathBuf,
    /// The kubeconfig; kubectl ignores the variable `KUBECONFIG`.
    pub kubeconfig: PathBuf,
    /// kubectl caches discovery by host and port, and a new cluster may reuse the port of an earlier one.
    pub discovery_cache: PathBuf,
}

/// Why a command printed no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program did not start, or its output could not be read.
    #[error("cannot run {}", program.display())]
    Run {
        /// The program.
        program: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// kubectl exited with a failure.
    #[error("kubectl {arguments}: {}", stderr.trim())]
    Failed {
        /// The arguments, joined by blanks.
        arguments: String,
        /// The standard error output, unchanged.
        stderr: String,
    },
}

impl Kubectl {
    /// A kubectl for the cluster whose `admin.kubeconfig` is in `dir`. The discovery cache is in `dir`, too.
    pub fn new(program: &Path, dir: &Path) -> Self {
        Self {
            program: program.to_owned(),
            kubeconfig: dir.join("admin.kubeconfig"),
            discovery_cache: dir.join("kubectl-cache"),
        }
    }

    /// Runs kubectl and returns its standard output.
    ///
    /// # Errors
    /// [`Error::Run`] if kubectl cannot be run, [`Error::Failed`] if it exits with a failure.
    pub async fn run(&self, arguments: &[&str]) -> Result<String, Error> {
        self.run_with_input(arguments, "").await
    }

    /// Runs kubectl with `input` on its standard input and returns its standard output.
    ///
    /// # Errors
    /// The same as [`Kubectl::run`].
    pub async fn run_with_input(&self, arguments: &[&str], input: &str) -> Result<String, Error> {
        let failed_to_run = |source| Error::Run { program: self.program.clone(), source };
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
            .map_err(failed_to_run)?;
        let stdin = child.stdin.take();
        let write_input = async move {
            if let Some(mut stdin) = stdin {
                // A kubectl that fails early closes its input. Its own message explains more than a broken pipe.
                _ = stdin.write_all(input.as_bytes()).await;
            }
        };
        let ((), output) = tokio::join!(write_input, child.wait_with_output());
        let output = output.map_err(failed_to_run)?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(Error::Failed { arguments: arguments.join(" "), stderr });
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Applies manifests with server-side apply and forced ownership: one request per object, whether the object exists or
    /// not, and fields that another manager changed are overwritten.
    ///
    /// # Errors
    /// The same as [`Kubectl::run`].
    pub async fn apply(&self, manifests: &str) -> Result<String, Error> {
        let arguments = ["apply", "--server-side", "--force-conflicts", "--field-manager=grove-xtask", "-f", "-"];
        self.run_with_input(&arguments, manifests).await
    }
}

#[cfg(test)]
mod tests {
    use super::{Error, Kubectl};
    use std::path::Path;

    #[tokio::test]
    async fn a_missing_program_is_named() {
        let kubectl = Kubectl::new(Path::new("/does/not/exist/kubectl"), Path::new("/tmp"));
        let error = kubectl.run(&["version"]).await.unwrap_err();
        assert!(matches!(error, Error::Run { .. }));
        assert_eq!(error.to_string(), "cannot run /does/not/exist/kubectl");
    }

    #[test]
    fn a_failure_shows_the_arguments_and_the_message() {
        let error = Error::Failed { arguments: "get pods".to_owned(), stderr: "no such kind\n".to_owned() };
        assert_eq!(error.to_string(), "kubectl get pods: no such kind");
    }
}
