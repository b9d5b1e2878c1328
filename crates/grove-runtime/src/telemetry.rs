//! Logs: structured, as JSON or text, with the whole chain of an error in one line.

use std::error::Error;

use anyhow::{Context, anyhow};
use grove_api_types::configuration;
use tracing_subscriber::{EnvFilter, fmt, prelude::*};

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

/// Starts logging to standard error.
///
/// `level` is `error`, `info` or `debug`, or a filter of `tracing`'s own syntax such as `info,kube=debug`.
pub fn start(format: LogFormat, level: &str) -> anyhow::Result<()> {
    // What cannot be reached is told by who wanted to reach it.
    let quiet = if matches!(level, "info" | "error") { ",kube_client::client::builder=off" } else { "" };
    let filter = EnvFilter::try_new(format!("{level}{quiet}"));
    let filter = filter.with_context(|| format!("log level {level:?} is not understood"))?;
    let lines = fmt::layer().with_writer(std::io::stderr);
    let lines = match format {
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
        LogFormat::Text => lines.with_ansi(false).boxed(),
    };
    let subscriber = tracing_subscriber::registry().with(filter).with(lines);
    subscriber.try_init().map_err(|error| anyhow!("could not start logging: {error}"))
}

/// The error and everything that led to it, joined by colons. What an error repeats of its source is said once.
pub fn error_chain(error: &dyn Error) -> String {
    let mut chain = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let text = source.to_string();
        if !chain.contains(&text) {
            chain += ": ";
            chain += &text;
        }
        next = source.source();
    }
    chain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Link {
        text: &'static str,
        #[source]
        source: Option<Box<Link>>,
    }

    #[test]
    fn a_chain_is_printed_once_without_repetition() {
        let root = Link { text: "refused", source: None };
        let repeats = Link { text: "could not connect: refused", source: Some(Box::new(root)) };
        let top = Link { text: "could not observe", source: Some(Box::new(repeats)) };
        assert_eq!(error_chain(&top), "could not observe: could not connect: refused");
    }
}
