//! The process: parses its flags, sets up the runtime and runs the controller.

use std::process::ExitCode;

use clap::Parser;
use grove_runtime::args::CommonArgs;
use grove_runtime::process;

/// Reconciles `PodCliqueSet`s into the ComputeDomains of NVIDIA's DRA driver, and reports in the `PodCliqueSet`s whether these exist.
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
    process::run(mnnvl_controller::NAME, &args.common, async |runtime| mnnvl_controller::run(runtime).await).await
}
