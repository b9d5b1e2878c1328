//! Logs as JSON or text, and traces if the environment names a collector.

pub mod settings;
pub mod traces;
mod transport;

use std::{sync::OnceLock, time::Duration};

use anyhow::{Context, anyhow};
use grove_api_types::configuration;
use tracing::Subscriber;
use tracing_subscriber::{EnvFilter, Layer, fmt, prelude::*, registry::LookupSpan};

use self::{settings::TraceSettings, traces::Traces};
use crate::api_error::error_chain;

/// Time for sending the last traces at the end of the process.
const TRACE_FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// The traces of this process.
static TRACES: OnceLock<Traces> = OnceLock::new();

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// One JSON object per line.
    #[default]
    Json,
    /// Text for human readers.
    Text,
}

impl From<configuration::LogFormat> for LogFormat {
    fn from(format: configuration::LogFormat) -> Self {
        match format {
            configuration::LogFormat::Json => Self::Json,
            configuration::LogFormat::Text => Self::Text,
        }
    }
}

/// The source of traces.
#[derive(Clone, Copy, Debug)]
pub struct ServiceIdentity<'a> {
    /// The name of the service.
    pub service: &'a str,
    /// The version of the service.
    pub version: &'a str,
    /// The identity of this replica.
    pub instance: &'a str,
}

/// Starts logging to standard error, and traces if the environment names a collector. Invalid trace settings cause a
/// warning and no error. Needs a tokio runtime.
///
/// `level` is `error`, `info` or `debug`, or a filter in the syntax of `tracing-subscriber` such as `info,kube=debug`.
///
/// # Errors
/// `level` is not a valid filter, or the process already has a logger.
pub fn start(format: LogFormat, level: &str, identity: &ServiceIdentity<'_>) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter_directives(level));
    let filter = filter.with_context(|| format!("the log level {level:?} is invalid"))?;
    let settings = TraceSettings::read(environment_variable);
    let traces = settings.as_ref().map(|settings| Traces::start(settings, identity));
    let registry = tracing_subscriber::registry();
    let started = match &traces {
        // The log level must not filter traces, so the filter belongs to the log lines only.
        Some(Ok(traces)) => registry.with(log_lines(format).with_filter(filter)).with(traces.layer()).try_init(),
        None | Some(Err(_)) => registry.with(filter).with(log_lines(format)).try_init(),
    };
    started.map_err(|error| anyhow!("could not start logging: {error}"))?;
    match traces {
        Some(Ok(traces)) => install(traces),
        Some(Err(error)) => warn(&format!("could not start sending traces: {}", error_chain(error.as_ref()))),
        None => {}
    }
    if let Some(warning) = settings.and_then(|settings| settings.warning) {
        warn(&warning);
    }
    Ok(())
}

/// The filter for a level. kube logs responses that it cannot decode as warnings, and a response may contain secrets. `level`
/// comes later, so that it can allow these warnings.
fn filter_directives(level: &str) -> String {
    let requests = match level {
        // The callers of kube log connection errors themselves.
        "info" | "error" => ",kube_client::client::builder=off",
        "debug" => ",kube_client::client::builder=debug",
        _ => "",
    };
    format!("kube_client::client=error,{level}{requests}")
}

fn install(traces: Traces) {
    tracing::info!(endpoint = traces.endpoint(), "sending traces");
    // `start` succeeds once, so the cell is empty.
    let _ = TRACES.set(traces);
}

fn warn(message: &str) {
    tracing::warn!("{message}");
}

/// Sends the queued traces, for at most two seconds.
pub async fn finish() {
    let Some(traces) = TRACES.get() else { return };
    // The call blocks, and this thread may have to send the requests.
    if !tokio::task::spawn_blocking(move || traces.shutdown(TRACE_FLUSH_TIMEOUT)).await.unwrap_or_default() {
        tracing::warn!("could not send the last traces");
    }
}

#[expect(clippy::disallowed_methods, reason = "OpenTelemetry's settings are environment variables")]
fn environment_variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn log_lines<S>(format: LogFormat) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let lines = fmt::layer().with_writer(std::io::stderr);
    match format {
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
        LogFormat::Text => lines.with_ansi(false).boxed(),
    }
}

#[cfg(test)]
mod tests {
    use tracing::{Level, enabled, subscriber::with_default};

    use super::*;

    /// Whether a filter logs responses, connection errors of requests, and requests.
    fn logged(level: &str) -> [bool; 3] {
        let filter = EnvFilter::try_new(filter_directives(level)).unwrap();
        with_default(tracing_subscriber::registry().with(filter), || {
            [
                enabled!(target: "kube_client::client", Level::WARN),
                enabled!(target: "kube_client::client::builder", Level::ERROR),
                enabled!(target: "kube_client::client::builder", Level::DEBUG),
            ]
        })
    }

    #[test]
    fn no_response_is_logged_unless_the_filter_names_the_client_of_kube() {
        assert_eq!(logged("info"), [false, false, false]);
        assert_eq!(logged("error"), [false, false, false]);
        assert_eq!(logged("debug"), [false, true, true]);
        assert_eq!(logged("info,kube=debug"), [false, true, false]);
        assert!(logged("info,kube_client::client=debug")[0]);
    }
}
