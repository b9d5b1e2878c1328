//! grove-initc: the init container of a pod with parents. It ends when enough pods of each parent are ready, all at the same time.
//!
//! It reads the pods of its gang from the API server, with one LIST and one watch, and needs no service of Grove. The other containers of the pod
//! start after it, and a parent that loses readiness later does not stop them. Modules in reading order: [`args`] are its flags, [`client`] is its
//! connection, [`waiter`] receives the pods, and [`readiness`] counts them.

use std::process::ExitCode;

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

pub mod args;
pub mod client;
pub mod readiness;
pub mod waiter;

use args::Args;

/// The name of the process: of its user agent.
pub const NAME: &str = grove_api_types::startup::INIT_CONTAINER;

/// Runs the process. The exit code is 0 when all parents are ready, and 1 after an error,
/// SIGTERM or SIGINT.
pub async fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            // Help and the version are no errors.
            let code = if error.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
            drop(error.print());
            return code;
        }
    };
    match run(&args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> anyhow::Result<()> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        result = waiter::wait(args) => result,
        _ = terminate.recv() => anyhow::bail!("the process received SIGTERM before all parents were ready"),
        _ = interrupt.recv() => anyhow::bail!("the process received SIGINT before all parents were ready"),
    }
}
