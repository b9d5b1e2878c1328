//! The log lines of the executor.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::subscriber::set_default;

use super::*;

/// The text of all log lines.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_rejected_create_is_logged_with_its_object_and_the_message_of_the_api_server() {
    let log = Log::default();
    let writer = log.clone();
    let lines = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let _guard = set_default(lines);
    for is_rejected in [true, false] {
        let response = move |_: &RecordedRequest| {
            if is_rejected {
                MockResponse::error(403, "exceeded quota")
            } else {
                MockResponse::ok(config_map("a", 1, "owner"))
            }
        };
        let plan = Plan::new().stage(Stage::new("s", [Step::create(&object("a"))]));
        executor(response).0.execute(&object("s"), &plan).await;
        let text = String::from_utf8(std::mem::take(&mut *log.0.lock())).unwrap();
        let parts = ["WARN", "write failed", "create", "ConfigMap a", "exceeded quota"];
        assert_eq!(parts.map(|part| text.contains(part)), [is_rejected; 5], "{text}");
    }
}
