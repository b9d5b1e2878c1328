//! Traces: one span for each reconcile with the object's key, and below it one span for each write. A thread of the SDK
//! sends them in batches, so the services never wait for a collector.

use std::time::Duration;

use anyhow::Context;
use opentelemetry::{Key, KeyValue, trace::TracerProvider};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::{Resource, trace::SdkTracerProvider};
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::{Layer, filter::filter_fn, registry::LookupSpan};

use super::{ServiceIdentity, settings::TraceSettings, transport::Transport};

/// The prefix of our crates. Traces contain their spans only, not the spans of libraries.
const OWN_TARGETS: &str = "grove_";
const SERVICE_NAME: &str = "service.name";
/// The SDK's value for a service without a name.
const UNKNOWN_SERVICE: &str = "unknown_service";

/// Records spans and sends them to a collector.
pub struct Traces {
    endpoint: String,
    provider: SdkTracerProvider,
}

impl Traces {
    /// Creates the exporter without a request. Needs a tokio runtime.
    ///
    /// # Errors
    /// The endpoint is not a URL, or the system's root certificates cannot be read.
    pub fn start(settings: &TraceSettings, identity: &ServiceIdentity<'_>) -> anyhow::Result<Self> {
        let TraceSettings { endpoint, timeout, warning: _ } = settings;
        let transport = Transport::new(endpoint, *timeout).context("could not read the root certificates")?;
        let exporter = SpanExporter::builder().with_http().with_http_client(transport);
        let exporter = exporter.with_protocol(Protocol::HttpBinary).with_endpoint(endpoint).with_timeout(*timeout);
        let exporter = exporter.build().with_context(|| format!("the endpoint {endpoint:?} is invalid"))?;
        let provider = SdkTracerProvider::builder().with_resource(resource(identity));
        Ok(Self { endpoint: endpoint.clone(), provider: provider.with_batch_exporter(exporter).build() })
    }

    /// The URL that receives the traces.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The layer that records the spans of this process.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
    {
        let layer = tracing_opentelemetry::layer().with_tracer(self.provider.tracer(OWN_TARGETS));
        let layer = layer.with_location(false).with_threads(false).with_tracked_inactivity(false).with_target(false);
        layer.with_filter(filter_fn(is_traced).with_max_level_hint(Level::DEBUG))
    }

    /// Sends the queued spans and stops. Spans that are not sent within `timeout` are lost. Blocks the thread. Returns
    /// whether all spans were sent.
    pub fn shutdown(&self, timeout: Duration) -> bool {
        self.provider.shutdown_with_timeout(timeout).is_ok()
    }
}

/// Whether it is one of our spans of any level, or an event from level info.
fn is_traced(metadata: &Metadata<'_>) -> bool {
    if metadata.is_span() { metadata.target().starts_with(OWN_TARGETS) } else { *metadata.level() <= Level::INFO }
}

/// The attributes of the service. The environment (`OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`) takes precedence.
fn resource(identity: &ServiceIdentity<'_>) -> Resource {
    let configured = Resource::builder().build();
    let is_unknown = |value: &opentelemetry::Value| value.as_str().starts_with(UNKNOWN_SERVICE);
    let is_missing = |key: &'static str| configured.get_ref(&Key::new(key)).is_none_or(is_unknown);
    let attributes = [
        (SERVICE_NAME, identity.service),
        ("service.version", identity.version),
        ("service.instance.id", identity.instance),
    ];
    let missing = attributes.into_iter().filter(|(key, _)| is_missing(key));
    let missing = missing.map(|(key, value)| KeyValue::new(key, value.to_owned()));
    Resource::builder().with_attributes(missing).build()
}

#[cfg(test)]
mod tests;
