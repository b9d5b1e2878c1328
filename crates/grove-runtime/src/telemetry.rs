//! Logs: structured, as JSON or text, with the whole chain of an error in one line. And traces, for whoever asks for them.

pub mod settings;
pub mod traces;
mod transport;

use std::{sync::OnceLock, time::Duration};

use anyhow::{Context, anyhow};
use grove_api_types::configuration;
use tracing::Subscriber;
use tracing_subscriber::{EnvFilter, Layer, fmt, prelude::*, registry::LookupSpan};

use self::{settings::Settings, traces::Traces};
use crate::api_error::error_chain;

/// The last traces may take this long.
const FLUSH: Duration = Duration::from_secs(2);

/// Those of this process, as its logs are.
static TRACES: OnceLock<Traces> = OnceLock::new();

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// One JSON object per line.
    #[default]
    Json,
    /// For people.
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

/// The process that tells.
#[derive(Clone, Copy, Debug)]
pub struct Who<'a> {
    /// The name of the service.
    pub service: &'a str,
    /// Its version.
    pub version: &'a str,
    /// The name of this replica.
    pub identity: &'a str,
}

/// Starts logging to standard error, and traces if the environment names a collector; a trouble with those stops nobody.
/// Needs a tokio runtime.
///
/// `level` is `error`, `info` or `debug`, or a filter of `tracing`'s own syntax such as `info,kube=debug`.
pub fn start(format: LogFormat, level: &str, who: &Who<'_>) -> anyhow::Result<()> {
    // What cannot be reached is told by who wanted to reach it.
    let quiet = if matches!(level, "info" | "error") { ",kube_client::client::builder=off" } else { "" };
    let filter = EnvFilter::try_new(format!("{level}{quiet}"));
    let filter = filter.with_context(|| format!("log level {level:?} is not understood"))?;
    let settings = Settings::read(environment);
    let traces = settings.as_ref().map(|settings| Traces::start(settings, who));
    let registry = tracing_subscriber::registry();
    let started = match &traces {
        // What is logged is no longer all that is listened to, so the level is that of the lines.
        Some(Ok(traces)) => registry.with(lines(format).with_filter(filter)).with(traces.layer()).try_init(),
        None | Some(Err(_)) => registry.with(filter).with(lines(format)).try_init(),
    };
    started.map_err(|error| anyhow!("could not start logging: {error}"))?;
    match traces {
        Some(Ok(traces)) => keep(traces),
        Some(Err(error)) => warn(&format!("no traces are sent: {}", error_chain(error.as_ref()))),
        None => {}
    }
    if let Some(warning) = settings.and_then(|settings| settings.warning) {
        warn(&warning);
    }
    Ok(())
}

fn keep(traces: Traces) {
    tracing::info!(endpoint = traces.endpoint(), "traces are sent");
    // It is empty: there is one subscriber, and it was just set.
    let _ = TRACES.set(traces);
}

fn warn(words: &str) {
    tracing::warn!("{words}");
}

/// Sends the traces that were not sent yet, for at most two seconds.
pub async fn finish() {
    let Some(traces) = TRACES.get() else { return };
    // On a thread that may wait: this one carries what is sent.
    if !tokio::task::spawn_blocking(move || traces.finish(FLUSH)).await.unwrap_or_default() {
        tracing::warn!("the last traces could not be sent");
    }
}

#[expect(clippy::disallowed_methods, reason = "OpenTelemetry's libraries read its other variables from there, too")]
fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn lines<S>(format: LogFormat) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let lines = fmt::layer().with_writer(std::io::stderr);
    match format {
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
        LogFormat::Text => lines.with_ansi(false).boxed(),
    }
}
