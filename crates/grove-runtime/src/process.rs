//! The process around a service: what it says when it cannot go on, and its exit code.

use std::process::ExitCode;

use crate::{api_error::error_chain, args::CommonArgs, config, runtime::Runtime, telemetry};

/// The configuration makes no sense; the same as for flags that make none.
const MISCONFIGURED: u8 = 2;

/// Starts the service and lets `work` work. Exit code 0 if it was asked to stop, 2 if its configuration makes no sense,
/// 1 for everything else; the last line of the log says why.
pub async fn run(
    name: &'static str,
    args: &CommonArgs,
    work: impl AsyncFnOnce(&Runtime) -> anyhow::Result<()>,
) -> ExitCode {
    let worked = async {
        let runtime = Runtime::start(name, args).await?;
        work(&runtime).await
    };
    match worked.await {
        Ok(()) => {
            telemetry::finish().await;
            ExitCode::SUCCESS
        }
        Err(error) => {
            tell(&error);
            code(&error)
        }
    }
}

fn tell(error: &anyhow::Error) {
    let chain = error_chain(error.as_ref());
    if tracing::dispatcher::has_been_set() {
        tracing::error!("{chain}");
    } else {
        // How logs are to look is not known yet.
        eprintln!("error: {chain}");
    }
}

fn code(error: &anyhow::Error) -> ExitCode {
    if error.is::<config::Error>() { ExitCode::from(MISCONFIGURED) } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    async fn exit(args: &CommonArgs) -> String {
        format!("{:?}", run("test", args, async |_| anyhow::Ok(())).await)
    }

    #[tokio::test]
    async fn a_configuration_that_cannot_be_used_has_an_exit_code_of_its_own() {
        let nowhere = Some(PathBuf::from("/nowhere/file"));
        let misconfigured = CommonArgs { config: nowhere.clone(), ..CommonArgs::default() };
        assert_eq!(exit(&misconfigured).await, format!("{:?}", ExitCode::from(2)));
        let disconnected = CommonArgs { kubeconfig: nowhere, ..CommonArgs::default() };
        assert_eq!(exit(&disconnected).await, format!("{:?}", ExitCode::FAILURE));
    }
}
