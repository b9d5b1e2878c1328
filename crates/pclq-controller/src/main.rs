//! The process: parses its flags, sets up the runtime and runs the controller.

use std::process::ExitCode;

use clap::Parser;
use grove_api_types::startup::{self, DEFAULT_IMAGE, IMAGE_VARIABLE};
use grove_runtime::args::CommonArgs;
use grove_runtime::process;

/// Reconciles `PodClique`s into Pods.
#[derive(Parser)]
#[command(version)]
struct Args {
    #[command(flatten)]
    common: CommonArgs,

    /// Image of the init container of pods that start after others. Without a tag or digest, it has the tag of this version. If it is empty, such
    /// pods are not created.
    #[arg(long, env = IMAGE_VARIABLE, default_value = DEFAULT_IMAGE, value_name = "IMAGE")]
    init_container_image: String,
}

// The process mostly waits for the API server, so one thread suffices; each further thread has its own heap. Only the leader
// election has another thread.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = Args::parse();
    let image = startup::image(&args.init_container_image, env!("CARGO_PKG_VERSION"));
    process::run(pclq_controller::NAME, &args.common, async |runtime| pclq_controller::run(runtime, image).await).await
}
