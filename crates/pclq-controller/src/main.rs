//! The process: reads its flags, puts on the shell and runs the controller.

use clap::Parser;
use grove_runtime::args::CommonArgs;
use grove_runtime::service::Service;

/// Turns `PodClique`s into pods.
#[derive(Parser)]
#[command(version)]
struct Args {
    #[command(flatten)]
    common: CommonArgs,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let service = Service::start(pclq_controller::NAME, &args.common).await?;
    pclq_controller::run(&service).await
}
