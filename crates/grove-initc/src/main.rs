//! The process: parses its flags, and waits.

use std::process::ExitCode;

// One thread suffices: the process waits for the API server.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    grove_initc::main().await
}
