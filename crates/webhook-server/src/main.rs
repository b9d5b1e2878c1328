//! The process: reads its flags, puts on the shell and answers.

use std::process::ExitCode;

use clap::Parser;
use grove_runtime::args::CommonArgs;
use grove_runtime::process;
use webhook_server::args::WebhookArgs;

/// Fills in defaults of Grove's objects, refuses what makes no sense, and protects what Grove manages.
#[derive(Parser)]
#[command(version)]
struct Args {
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    webhooks: WebhookArgs,
}

// One thread is plenty: a review takes a fraction of a millisecond, and several replicas share them.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Args { common, webhooks } = Args::parse();
    let work = async |service: &_| webhook_server::run(service, &webhooks).await;
    process::run(webhook_server::NAME, &common, work).await
}
