//! What the environment asks for: OpenTelemetry's own variables, because whoever runs a collector knows them already and
//! injects them into every pod alike.

use std::time::Duration;

/// The collector of traces, as a complete address.
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
/// The collector of everything; traces have a path of their own below it.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TRACES_PATH: &str = "v1/traces";

const TRACES_TIMEOUT: &str = "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT";
const TIMEOUT: &str = "OTEL_EXPORTER_OTLP_TIMEOUT";
const USUAL_TIMEOUT: Duration = Duration::from_secs(10);

const TRACES_PROTOCOL: &str = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL";
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
const SPOKEN: &str = "http/protobuf";

const DISABLED: &str = "OTEL_SDK_DISABLED";
const EXPORTER: &str = "OTEL_TRACES_EXPORTER";

/// Where traces go, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The address of the collector.
    pub endpoint: String,
    /// What one batch may take.
    pub timeout: Duration,
    /// What was asked for and is not done.
    pub warning: Option<String>,
}

impl Settings {
    /// `None` if no collector is named, which is how it is unless somebody asks.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let written =
            |name: &str| variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let is = |name: &str, word: &str| written(name).is_some_and(|value| value.eq_ignore_ascii_case(word));
        if is(DISABLED, "true") || is(EXPORTER, "none") {
            return None;
        }
        let endpoint = match written(TRACES_ENDPOINT) {
            Some(endpoint) => endpoint,
            None => format!("{}/{TRACES_PATH}", written(ENDPOINT)?.trim_end_matches('/')),
        };
        let timeout = [TRACES_TIMEOUT, TIMEOUT].into_iter().find_map(&written);
        let timeout = timeout.and_then(|value| value.parse().ok()).map_or(USUAL_TIMEOUT, Duration::from_millis);
        let protocol = [TRACES_PROTOCOL, PROTOCOL].into_iter().find_map(|name| Some((name, written(name)?)));
        let warning = protocol.filter(|(_, protocol)| protocol != SPOKEN).map(|(name, protocol)| {
            format!("{name}: {protocol:?} has no effect, traces are sent as {SPOKEN}, mostly to port 4318")
        });
        Some(Self { endpoint, timeout, warning })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Option<Settings> {
        Settings::read(|name| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn traces_are_off_unless_a_collector_is_named() {
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[(ENDPOINT, " ")]), None);
        assert_eq!(read(&[(ENDPOINT, "http://c:4318"), (DISABLED, "True")]), None);
        assert_eq!(read(&[(ENDPOINT, "http://c:4318"), (EXPORTER, "none")]), None);
    }

    #[test]
    fn the_address_of_traces_is_complete_and_that_of_everything_has_a_path_below_it() {
        let endpoint = |variables: &[(&str, &str)]| read(variables).unwrap().endpoint;
        assert_eq!(endpoint(&[(ENDPOINT, "http://c:4318")]), "http://c:4318/v1/traces");
        assert_eq!(endpoint(&[(ENDPOINT, "http://c:4318/otlp/")]), "http://c:4318/otlp/v1/traces");
        assert_eq!(endpoint(&[(ENDPOINT, "http://c:4318"), (TRACES_ENDPOINT, "http://t:1/x")]), "http://t:1/x");
    }

    #[test]
    fn how_long_a_batch_may_take_is_in_milliseconds() {
        let timeout =
            |variables: &[(&str, &str)]| read(&[&[(ENDPOINT, "http://c")], variables].concat()).unwrap().timeout;
        assert_eq!(timeout(&[]), USUAL_TIMEOUT);
        assert_eq!(timeout(&[(TIMEOUT, "2500")]), Duration::from_millis(2500));
        assert_eq!(timeout(&[(TIMEOUT, "2500"), (TRACES_TIMEOUT, "100")]), Duration::from_millis(100));
        assert_eq!(timeout(&[(TIMEOUT, "soon")]), USUAL_TIMEOUT);
    }

    #[test]
    fn who_asks_for_another_protocol_is_told() {
        let warning = |protocol| read(&[(ENDPOINT, "http://c"), (PROTOCOL, protocol)]).unwrap().warning;
        assert_eq!(warning(SPOKEN), None);
        assert_eq!(
            warning("grpc").unwrap(),
            "OTEL_EXPORTER_OTLP_PROTOCOL: \"grpc\" has no effect, traces are sent as http/protobuf, mostly to port 4318"
        );
    }
}
