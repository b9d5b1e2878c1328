//! The probe: whether IMEX is ready.

use std::time::Duration;

use anyhow::{Context, bail};
use tokio::time::timeout;

use crate::args::{ImexArgs, NodeArgs};

/// The time limit of the status command. It is shorter than that of the probes, so that this process ends the command.
const STATUS_TIMEOUT: Duration = Duration::from_secs(8);

/// Succeeds if the status command prints READY, or if the node has no fabric.
///
/// # Errors
/// If IMEX is not ready, or its state cannot be read.
pub async fn run(node: &NodeArgs, imex: &ImexArgs) -> anyhow::Result<()> {
    if node.clique_id.is_empty() {
        return Ok(());
    }
    let command = &imex.imex_status_command;
    let mut status = command.to_process();
    let output = timeout(STATUS_TIMEOUT, status.kill_on_drop(true).output()).await;
    let output = output.with_context(|| format!("\"{command}\" did not end within {STATUS_TIMEOUT:?}"))?;
    let output = output.with_context(|| format!("could not run \"{command}\" (IMEX_STATUS_COMMAND)"))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    match printed.trim() {
        "READY" => Ok(()),
        state => bail!("IMEX is not ready: \"{command}\" printed {state:?} and ended with {}", output.status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn check(clique: &str, command: &str) -> Result<(), String> {
        let node = NodeArgs { clique_id: clique.to_owned(), ..NodeArgs::default() };
        let imex = ImexArgs {
            imex_command: "imex".parse().unwrap(),
            imex_status_command: command.parse().unwrap(),
            imex_dir: "/nowhere".into(),
            hosts_file: "/nowhere".into(),
        };
        run(&node, &imex).await.map_err(|error| format!("{error:#}"))
    }

    #[tokio::test]
    async fn the_status_command_must_print_ready() {
        assert_eq!(check("fabric.7", "echo READY").await, Ok(()));
        let error = check("fabric.7", "echo UNAVAILABLE").await.unwrap_err();
        assert_eq!(
            error,
            "IMEX is not ready: \"echo UNAVAILABLE\" printed \"UNAVAILABLE\" and ended with exit status: 0"
        );
        let error = check("fabric.7", "no-such-command -q").await.unwrap_err();
        assert!(error.starts_with("could not run \"no-such-command -q\" (IMEX_STATUS_COMMAND): "), "{error}");
    }

    #[tokio::test]
    async fn a_node_without_fabric_is_ready() {
        assert_eq!(check("", "no-such-command").await, Ok(()));
    }
}
