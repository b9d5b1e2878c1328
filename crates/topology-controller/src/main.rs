//! The process: parses its flags, sets up the runtime and runs the controller.

use std::process::ExitCode;

use clap::Parser;
use grove_runtime::args::CommonArgs;
use grove_runtime::process;

/// Reconciles `PodGang`s into the `PodGroup`s of their schedulers, and reports in the `PodGang`s how they are scheduled.
#[derive(Parser)]
#[command(version)]
struct Args {
    #[command(flatten)]
    common: CommonArgs,
}

// The process mostly waits for the API server, so one thread suffices; each further thread has its own heap. Only the leader
// election has another thread.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = Args::parse();
    process::run(topology_controller::NAME, &args.common, async |runtime| topology_controller::run(runtime).await).await
}
