//! Traces: a span for each reconciliation with the object's key, and below it one for each write. Sent in batches by a
//! thread of their own, so that nothing ever waits for a collector.

use std::time::Duration;

use anyhow::Context;
use opentelemetry::{Key, KeyValue, trace::TracerProvider};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::{Layer, filter::filter_fn, registry::LookupSpan};

use super::{Who, settings::Settings, transport::Transport};

/// Whose spans are sent; those of libraries say nothing of Grove.
const OURS: &str = "grove_";
const NAME: &str = "service.name";
const UNNAMED: &str = "unknown_service";

/// Makes spans, and sends them.
pub struct Traces {
    endpoint: String,
    provider: SdkTracerProvider,
}

impl Traces {
    /// Nothing is sent yet. Needs a tokio runtime.
    pub fn start(settings: &Settings, who: &Who<'_>) -> anyhow::Result<Self> {
        let Settings { endpoint, timeout, warning: _ } = settings;
        let transport = Transport::new(endpoint, *timeout).context("could not read the certificates of authorities")?;
        let exporter = SpanExporter::builder().with_http().with_http_client(transport);
        let exporter = exporter.with_protocol(Protocol::HttpBinary).with_endpoint(endpoint).with_timeout(*timeout);
        let exporter =
            exporter.build().with_context(|| format!("the collector's address {endpoint:?} is not usable"))?;
        let provider = SdkTracerProvider::builder().with_resource(resource(who)).with_batch_exporter(exporter).build();
        Ok(Self { endpoint: endpoint.clone(), provider })
    }

    /// Where they go.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// What turns the spans of this process into traces.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
    {
        let layer = tracing_opentelemetry::layer().with_tracer(self.provider.tracer(OURS));
        let layer = layer.with_location(false).with_threads(false).with_tracked_inactivity(false).with_target(false);
        layer.with_filter(filter_fn(is_traced).with_max_level_hint(Level::DEBUG))
    }

    /// Sends what was not sent yet; after that time it is lost. Blocks.
    pub fn finish(&self, within: Duration) -> bool {
        self.provider.shutdown_with_timeout(within).is_ok()
    }
}

/// Our spans, whatever their level, and what is logged within them.
fn is_traced(metadata: &Metadata<'_>) -> bool {
    if metadata.is_span() { metadata.target().starts_with(OURS) } else { *metadata.level() <= Level::INFO }
}

/// Who sends: what the environment says, and what it does not say as we know it.
fn resource(who: &Who<'_>) -> Resource {
    let told = Resource::builder().build();
    let is_unnamed = |value: &opentelemetry::Value| value.as_str().starts_with(UNNAMED);
    let known = [
        (NAME, who.service, told.get_ref(&Key::new(NAME)).is_none_or(is_unnamed)),
        ("service.version", who.version, told.get_ref(&Key::new("service.version")).is_none()),
        ("service.instance.id", who.identity, told.get_ref(&Key::new("service.instance.id")).is_none()),
    ];
    let missing = known.into_iter().filter(|(.., is_missing)| *is_missing);
    let missing = missing.map(|(key, value, _)| KeyValue::new(key, value.to_owned()));
    Resource::builder().with_attributes(missing).build()
}

#[cfg(test)]
mod tests;
