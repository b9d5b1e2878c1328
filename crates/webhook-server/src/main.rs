//! The process: parses the flags and runs the service.

use std::process::ExitCode;

use clap::Parser;
use grove_runtime::args::CommonArgs;
use grove_runtime::process;
use webhook_server::args::WebhookArgs;

/// Admission webhooks of Grove: set defaults, validate objects, and protect managed objects.
#[derive(Parser)]
#[command(version)]
struct Args {
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    webhooks: WebhookArgs,
}

// One thread is enough: a review takes a fraction of a millisecond, and several replicas share the load.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Args { common, webhooks } = Args::parse();
    let work = async |runtime: &_| webhook_server::run(runtime, &webhooks).await;
    process::run(webhook_server::NAME, &common, work).await
}
