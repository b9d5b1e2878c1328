//! The process: parses its flags, and runs the daemon or the check.

use std::process::ExitCode;

use clap::Parser;
use compute_domain_daemon::args::Args;

// One thread suffices: the process waits for the API server and for IMEX.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    compute_domain_daemon::main(&Args::parse()).await
}
