//! The environment variables that decide whether and where traces are sent.
//!
//! The values are OpenTelemetry's own. `opentelemetry-otlp` could read the endpoint and the timeout itself, but it does not
//! return them, and [the transport](super::transport) needs both. The library reads all further variables.

use std::time::Duration;

use opentelemetry_otlp::{
    OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_PROTOCOL, OTEL_EXPORTER_OTLP_PROTOCOL_HTTP_PROTOBUF,
    OTEL_EXPORTER_OTLP_TIMEOUT, OTEL_EXPORTER_OTLP_TIMEOUT_DEFAULT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT,
    OTEL_EXPORTER_OTLP_TRACES_PROTOCOL, OTEL_EXPORTER_OTLP_TRACES_TIMEOUT,
};

/// The two variables that turn traces off. `opentelemetry-otlp` has no constants for them.
const OTEL_SDK_DISABLED: &str = "OTEL_SDK_DISABLED";
const OTEL_TRACES_EXPORTER: &str = "OTEL_TRACES_EXPORTER";

/// Where traces are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceSettings {
    /// The URL that receives traces.
    pub endpoint: String,
    /// The timeout of one request. Default: 10 s.
    pub timeout: Duration,
    /// A variable that has no effect.
    pub warning: Option<String>,
}

impl TraceSettings {
    /// Reads the environment through `variable`. `None` if no endpoint is set, or if a variable turns traces off.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let value = |name: &str| variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let is = |name: &str, word: &str| value(name).is_some_and(|value| value.eq_ignore_ascii_case(word));
        if is(OTEL_SDK_DISABLED, "true") || is(OTEL_TRACES_EXPORTER, "none") {
            return None;
        }
        let endpoint = match value(OTEL_EXPORTER_OTLP_TRACES_ENDPOINT) {
            Some(endpoint) => endpoint,
            None => format!("{}/v1/traces", value(OTEL_EXPORTER_OTLP_ENDPOINT)?.trim_end_matches('/')),
        };
        let timeout = value(OTEL_EXPORTER_OTLP_TRACES_TIMEOUT).or_else(|| value(OTEL_EXPORTER_OTLP_TIMEOUT));
        let timeout = timeout.and_then(|value| value.parse().ok());
        let timeout = timeout.map_or(OTEL_EXPORTER_OTLP_TIMEOUT_DEFAULT, Duration::from_millis);
        let mut protocols = [OTEL_EXPORTER_OTLP_TRACES_PROTOCOL, OTEL_EXPORTER_OTLP_PROTOCOL].into_iter();
        let protocol = protocols.find_map(|name| Some((name, value(name)?)));
        let unsupported = protocol.filter(|(_, protocol)| protocol != OTEL_EXPORTER_OTLP_PROTOCOL_HTTP_PROTOBUF);
        let warning = unsupported.map(|(name, protocol)| {
            format!(
                "{name}: {protocol:?} has no effect, traces are sent as \
                 {OTEL_EXPORTER_OTLP_PROTOCOL_HTTP_PROTOBUF}, which usually has port 4318"
            )
        });
        Some(Self { endpoint, timeout, warning })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDPOINT: &str = OTEL_EXPORTER_OTLP_ENDPOINT;

    fn read(variables: &[(&str, &str)]) -> Option<TraceSettings> {
        TraceSettings::read(|name| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn traces_are_off_without_an_endpoint_and_when_a_variable_turns_them_off() {
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[(ENDPOINT, " ")]), None);
        assert_eq!(read(&[(ENDPOINT, "http://c:4318"), (OTEL_SDK_DISABLED, "True")]), None);
        assert_eq!(read(&[(ENDPOINT, "http://c:4318"), (OTEL_TRACES_EXPORTER, "none")]), None);
    }

    #[test]
    fn the_traces_endpoint_is_complete_and_the_general_endpoint_gets_a_path() {
        let endpoint = |variables: &[(&str, &str)]| read(variables).unwrap().endpoint;
        assert_eq!(endpoint(&[(ENDPOINT, "http://c:4318")]), "http://c:4318/v1/traces");
        assert_eq!(endpoint(&[(ENDPOINT, "http://c:4318/otlp/")]), "http://c:4318/otlp/v1/traces");
        let both = [(ENDPOINT, "http://c:4318"), (OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, "http://t:1/x")];
        assert_eq!(endpoint(&both), "http://t:1/x");
    }

    #[test]
    fn the_timeout_is_in_milliseconds() {
        let timeout =
            |variables: &[(&str, &str)]| read(&[&[(ENDPOINT, "http://c")], variables].concat()).unwrap().timeout;
        let (general, of_traces) = (OTEL_EXPORTER_OTLP_TIMEOUT, OTEL_EXPORTER_OTLP_TRACES_TIMEOUT);
        assert_eq!(timeout(&[]), Duration::from_secs(10));
        assert_eq!(timeout(&[(general, "2500")]), Duration::from_millis(2500));
        assert_eq!(timeout(&[(general, "2500"), (of_traces, "100")]), Duration::from_millis(100));
        assert_eq!(timeout(&[(general, "soon")]), Duration::from_secs(10));
    }

    #[test]
    fn an_unsupported_protocol_causes_a_warning() {
        let warning =
            |protocol| read(&[(ENDPOINT, "http://c"), (OTEL_EXPORTER_OTLP_PROTOCOL, protocol)]).unwrap().warning;
        assert_eq!(warning("http/protobuf"), None);
        assert_eq!(
            warning("grpc").unwrap(),
            "OTEL_EXPORTER_OTLP_PROTOCOL: \"grpc\" has no effect, traces are sent as http/protobuf, which usually has port 4318"
        );
    }
}
