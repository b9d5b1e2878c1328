//! The process of a service: it runs the service, logs the error that ends it, and chooses the exit code.

use std::process::ExitCode;

use crate::{api_error::error_chain, args::CommonArgs, config, runtime::Runtime, telemetry};

/// The exit code for an invalid configuration. Clap uses the same code for invalid flags.
const EXIT_CONFIG_ERROR: u8 = 2;

/// The cluster lacks something without which the service does not run.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct MissingPrerequisite {
    /// The missing part, and the remedy.
    pub message: String,
    /// The exit code of the process.
    pub exit_code: u8,
}

/// Starts the service and runs `work`. The exit code is 0 after a signal to stop, 2 for an invalid configuration, that of a
/// [`MissingPrerequisite`], and 1 for every other error. The last line of the log is the error.
pub async fn run(
    name: &'static str,
    args: &CommonArgs,
    work: impl AsyncFnOnce(&Runtime) -> anyhow::Result<()>,
) -> ExitCode {
    let result = async {
        let runtime = Runtime::start(name, args).await?;
        work(&runtime).await
    };
    match result.await {
        Ok(()) => {
            telemetry::finish().await;
            ExitCode::SUCCESS
        }
        Err(error) => {
            report(&error);
            exit_code(&error)
        }
    }
}

fn report(error: &anyhow::Error) {
    let chain = error_chain(error.as_ref());
    if tracing::dispatcher::has_been_set() {
        tracing::error!("{chain}");
    } else {
        // The error came before the log format was known.
        eprintln!("error: {chain}");
    }
}

fn exit_code(error: &anyhow::Error) -> ExitCode {
    match error.downcast_ref::<MissingPrerequisite>() {
        Some(MissingPrerequisite { exit_code, .. }) => ExitCode::from(*exit_code),
        None if error.is::<config::Error>() => ExitCode::from(EXIT_CONFIG_ERROR),
        None => ExitCode::FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    async fn exit(args: &CommonArgs) -> String {
        format!("{:?}", run("test", args, async |_| anyhow::Ok(())).await)
    }

    #[tokio::test]
    async fn an_unusable_configuration_has_its_own_exit_code() {
        let missing = Some(PathBuf::from("/nowhere/file"));
        let without_config = CommonArgs { config: missing.clone(), ..CommonArgs::default() };
        assert_eq!(exit(&without_config).await, format!("{:?}", ExitCode::from(2)));
        let without_kubeconfig = CommonArgs { kubeconfig: missing, ..CommonArgs::default() };
        assert_eq!(exit(&without_kubeconfig).await, format!("{:?}", ExitCode::FAILURE));
    }

    #[test]
    fn a_missing_prerequisite_has_its_own_exit_code() {
        let missing = MissingPrerequisite { message: "no such kind".to_owned(), exit_code: 7 };
        let error = anyhow::Error::new(missing).context("could not start");
        assert_eq!(format!("{:?}", exit_code(&error)), format!("{:?}", ExitCode::from(7)));
    }
}
