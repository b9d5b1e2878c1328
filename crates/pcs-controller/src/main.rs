//! The process: reads its flags, puts on the shell and runs the controller.

use std::process::ExitCode;

use clap::Parser;
use grove_runtime::args::CommonArgs;
use grove_runtime::process;

/// Turns `PodCliqueSet`s into `PodCliqueScalingGroup`s, `PodClique`s, headless Services, base and scaled `PodGang`s and
/// autoscalers, and `PodCliqueScalingGroup`s into their `PodClique`s.
#[derive(Parser)]
#[command(version)]
struct Args {
    #[command(flatten)]
    common: CommonArgs,
}

// One thread is plenty for a process that waits for the API server, and each further one has a heap of its own.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = Args::parse();
    process::run(pcs_controller::NAME, &args.common, async |service| pcs_controller::run(service).await).await
}
