//! Reads the certificate from files, and again when they change (controller-runtime: `certwatcher`). The kubelet writes
//! such files for a mounted Secret.

use std::io;
use std::path::Path;
use std::time::Duration;

use grove_runtime::failure_log::FailureLog;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::net::unix::pipe::Receiver;
use tokio::time::sleep;

use super::readiness::CertReadiness;
use super::secret::{CERTIFICATE, CERTIFICATE_KEY};
use super::serving_cert::ServingCert;
use crate::metrics::WebhookMetrics;

/// Interval of the retries while the directory cannot be watched, for example because it does not exist yet.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
const REMEDY: &str = "certProvisionMode is manual, so this directory must contain tls.crt and the matching tls.key";
/// Size of the buffer for inotify events. Their content is not used.
const EVENT_BUFFER: usize = 4096;

/// Serves the certificate in `directory`. If it cannot be read, the previous one stays in use. Returns only on an error
/// of inotify.
pub(crate) async fn watch(
    directory: &Path,
    serving_cert: &ServingCert,
    mut readiness: CertReadiness,
    metrics: &WebhookMetrics,
) -> io::Result<()> {
    let mut failures = FailureLog::default();
    loop {
        // The watch starts before the files are read, so that no change is missed.
        let events = watch_directory(directory);
        let error = load(directory, serving_cert, metrics);
        let error = error.err().map(|error| format!("{}: {error}; {REMEDY}", directory.display()));
        readiness.update(error.as_deref());
        report(&mut failures, error.as_deref());
        match events {
            Ok(events) => next_event(&events).await?,
            Err(_) => sleep(RETRY_INTERVAL).await,
        }
    }
}

fn report(failures: &mut FailureLog, error: Option<&str>) {
    match error {
        Some(error) if failures.should_log_failure(error) => log_failure(error),
        None if failures.should_log_recovery() => tracing::info!("loaded the certificate after an error"),
        Some(_) | None => {}
    }
}

fn log_failure(error: &str) {
    tracing::warn!("cannot load the certificate, the previous one stays in use: {error}");
}

fn load(directory: &Path, serving_cert: &ServingCert, metrics: &WebhookMetrics) -> Result<(), String> {
    let read = |name: &str| std::fs::read(directory.join(name)).map_err(|error| format!("{name}: {error}"));
    let (certificate, key) = (read(CERTIFICATE)?, read(CERTIFICATE_KEY)?);
    serving_cert.load(&certificate, &key, metrics).map_err(|error| error.to_string())
}

/// Watches the directory. The kubelet replaces the link `..data` in it; other programs write the files themselves.
fn watch_directory(directory: &Path) -> io::Result<Receiver> {
    let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
    let events = WatchFlags::CREATE
        | WatchFlags::MOVED_TO
        | WatchFlags::CLOSE_WRITE
        | WatchFlags::DELETE
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF;
    inotify::add_watch(&inotify, directory, events)?;
    // tokio has no type for inotify. Reading from it works like reading from a pipe.
    Receiver::from_owned_fd_unchecked(inotify)
}

/// Returns after the next event.
async fn next_event(events: &Receiver) -> io::Result<()> {
    loop {
        events.readable().await?;
        match events.try_read(&mut [0; EVENT_BUFFER]) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
