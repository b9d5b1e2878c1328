//! The `OperatorConfiguration` file: read, defaulted, checked. Keys that other services read are let pass.

use std::{net::IpAddr, net::SocketAddr, path::Path};

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::telemetry::LogFormat;

mod known;

const API_VERSION: &str = "operator.config.grove.io/v1alpha1";
const KIND: &str = "OperatorConfiguration";
const SYNCS: u16 = 10;

/// What the configuration file says, with defaults for what it does not.
#[derive(Clone, Debug, PartialEq)]
pub struct OperatorConfiguration {
    /// `runtimeClientConnection`; absent means no limit.
    pub rate_limit: Option<RateLimit>,
    /// `controllers.podCliqueSet.concurrentSyncs` and its siblings, by controller.
    concurrent_syncs: std::collections::BTreeMap<String, u16>,
    /// `logLevel`.
    pub log_level: String,
    /// `logFormat`.
    pub log_format: LogFormat,
    /// `server.healthProbes`.
    pub probe_address: Option<SocketAddr>,
    /// `server.metrics`.
    pub metrics_address: Option<SocketAddr>,
}

/// How many requests may be sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// Per second.
    pub qps: f64,
    /// At once.
    pub burst: u32,
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("could not read {file}")]
    Unreadable {
        /// Its path.
        file: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The file is neither YAML nor JSON.
    #[error("{file} is not valid YAML: {message}")]
    Syntax {
        /// Its path.
        file: String,
        /// Where and why.
        message: String,
    },
    /// A field has a value that makes no sense.
    #[error("{field}: {message}")]
    Invalid {
        /// The field's path.
        field: String,
        /// What is wrong with it.
        message: String,
    },
}

impl Default for OperatorConfiguration {
    fn default() -> Self {
        Self {
            rate_limit: None,
            concurrent_syncs: std::collections::BTreeMap::new(),
            log_level: "info".into(),
            log_format: LogFormat::Json,
            probe_address: None,
            metrics_address: None,
        }
    }
}

impl OperatorConfiguration {
    /// Reads the file; without one, everything has its default. Returns warnings about unknown keys beside it.
    pub fn read(file: Option<&Path>) -> Result<(Self, Vec<String>), Error> {
        let Some(path) = file else { return Ok((Self::default(), vec![])) };
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|source| Error::Unreadable { file: file.clone(), source })?;
        let document = serde_saphyr::from_str(&text);
        let document: Value = document.map_err(|error| Error::Syntax { file, message: error.to_string() })?;
        Ok((Self::from_document(&document)?, known::unknown_keys(&document)))
    }

    /// How many objects of one kind are reconciled at the same time; `controller` as the file spells it, for example
    /// `podClique`.
    pub fn concurrent_syncs(&self, controller: &str) -> u16 {
        self.concurrent_syncs.get(controller).copied().unwrap_or(SYNCS)
    }

    fn from_document(document: &Value) -> Result<Self, Error> {
        let file = Document(document);
        file.must_be("apiVersion", API_VERSION)?;
        file.must_be("kind", KIND)?;
        Ok(Self {
            rate_limit: rate_limit(file)?,
            concurrent_syncs: concurrent_syncs(file)?,
            log_level: log_level(file)?,
            log_format: log_format(file)?,
            probe_address: address(file, "server.healthProbes", 2751)?,
            metrics_address: address(file, "server.metrics", 2752)?,
        })
    }
}

fn rate_limit(file: Document<'_>) -> Result<Option<RateLimit>, Error> {
    let qps: Option<f64> = file.get("runtimeClientConnection.qps")?;
    let burst: Option<i64> = file.get("runtimeClientConnection.burst")?;
    if let Some(qps) = qps.filter(|qps| !qps.is_finite() || *qps < 0.0) {
        return Err(invalid("runtimeClientConnection.qps", format!("must not be negative, got {qps}")));
    }
    let burst = match burst.map(u32::try_from) {
        Some(Err(_)) => return Err(invalid("runtimeClientConnection.burst", "must be non-negative")),
        Some(Ok(burst)) => Some(burst).filter(|burst| *burst > 0),
        None => None,
    };
    // Zero means the default, and the default is no limit.
    let Some(qps) = qps.filter(|qps| *qps > 0.0) else { return Ok(None) };
    Ok(Some(RateLimit { qps, burst: burst.unwrap_or(120) }))
}

fn concurrent_syncs(file: Document<'_>) -> Result<std::collections::BTreeMap<String, u16>, Error> {
    let mut syncs = std::collections::BTreeMap::new();
    for controller in ["podCliqueSet", "podClique", "podCliqueScalingGroup", "podGang"] {
        let field = format!("controllers.{controller}.concurrentSyncs");
        let Some(number) = file.get::<i64>(&field)? else { continue };
        let number = u16::try_from(number).ok().filter(|number| *number > 0);
        let number = number.ok_or_else(|| invalid(&field, "must be greater than 0 and at most 65535"))?;
        syncs.insert(controller.into(), number);
    }
    Ok(syncs)
}

fn log_level(file: Document<'_>) -> Result<String, Error> {
    match file.get::<String>("logLevel")?.as_deref() {
        None | Some("") => Ok("info".into()),
        Some(level @ ("debug" | "info" | "error")) => Ok(level.into()),
        Some(other) => Err(invalid("logLevel", format!("must be debug, info or error, got {other:?}"))),
    }
}

fn log_format(file: Document<'_>) -> Result<LogFormat, Error> {
    match file.get::<String>("logFormat")?.as_deref() {
        None | Some("" | "json") => Ok(LogFormat::Json),
        Some("text") => Ok(LogFormat::Text),
        Some(other) => Err(invalid("logFormat", format!("must be json or text, got {other:?}"))),
    }
}

fn address(file: Document<'_>, field: &str, default_port: u16) -> Result<Option<SocketAddr>, Error> {
    if file.find(field).is_none() {
        return Ok(None);
    }
    let host: Option<String> = file.get(&format!("{field}.bindAddress"))?;
    let host = host.filter(|host| !host.is_empty()).unwrap_or_else(|| "0.0.0.0".into());
    let host: IpAddr = host
        .parse()
        .map_err(|_| invalid(&format!("{field}.bindAddress"), format!("must be an IP address, got {host:?}")))?;
    let port = file.get(&format!("{field}.port"))?.unwrap_or(default_port);
    Ok(Some(SocketAddr::new(host, port)))
}

#[derive(Clone, Copy)]
struct Document<'a>(&'a Value);

impl<'a> Document<'a> {
    fn find(self, field: &str) -> Option<&'a Value> {
        field.split('.').try_fold(self.0, |value, key| value.get(key)).filter(|value| !value.is_null())
    }

    fn get<T: DeserializeOwned>(self, field: &str) -> Result<Option<T>, Error> {
        let value = self.find(field).map(T::deserialize).transpose();
        value.map_err(|error| invalid(field, error.to_string()))
    }

    fn must_be(self, field: &str, wanted: &str) -> Result<(), Error> {
        match self.find(field).and_then(Value::as_str) {
            Some(value) if value == wanted => Ok(()),
            Some(value) => Err(invalid(field, format!("must be {wanted}, got {value:?}"))),
            None => Err(invalid(field, format!("must be {wanted}"))),
        }
    }
}

fn invalid(field: &str, message: impl Into<String>) -> Error {
    Error::Invalid { field: field.into(), message: message.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(yaml: &str) -> Result<(OperatorConfiguration, Vec<String>), String> {
        let text = format!("apiVersion: {API_VERSION}\nkind: {KIND}\n{yaml}");
        let document: Value = serde_saphyr::from_str(&text).unwrap();
        let configuration = OperatorConfiguration::from_document(&document).map_err(|error| error.to_string())?;
        Ok((configuration, known::unknown_keys(&document)))
    }

    #[test]
    fn an_empty_file_has_the_defaults() {
        assert_eq!(read("").unwrap(), (OperatorConfiguration::default(), vec![]));
        assert_eq!(OperatorConfiguration::default().concurrent_syncs("podClique"), 10);
    }

    #[test]
    fn what_is_written_is_taken() {
        let (configuration, warnings) = read(
            "runtimeClientConnection: {qps: 50, burst: 100}\ncontrollers: {podClique: {concurrentSyncs: 3}}\n\
             logLevel: debug\nlogFormat: text\nserver: {metrics: {port: 9000}}\n",
        )
        .unwrap();
        assert_eq!(configuration.rate_limit, Some(RateLimit { qps: 50.0, burst: 100 }));
        assert_eq!(configuration.concurrent_syncs("podClique"), 3);
        assert_eq!((configuration.log_level.as_str(), configuration.log_format), ("debug", LogFormat::Text));
        assert_eq!(configuration.metrics_address, Some("0.0.0.0:9000".parse().unwrap()));
        assert_eq!((configuration.probe_address, warnings), (None, vec![]));
    }

    #[test]
    fn bad_values_are_refused_with_the_name_of_the_field() {
        for (yaml, message) in [
            (
                "controllers: {podClique: {concurrentSyncs: 0}}",
                "controllers.podClique.concurrentSyncs: must be greater",
            ),
            ("runtimeClientConnection: {burst: -1}", "runtimeClientConnection.burst: must be non-negative"),
            ("runtimeClientConnection: {qps: fast}", "runtimeClientConnection.qps: invalid type"),
            ("logLevel: loud", "logLevel: must be debug, info or error"),
            ("server: {metrics: {bindAddress: here}}", "server.metrics.bindAddress: must be an IP address"),
            ("server: {metrics: {port: 70000}}", "server.metrics.port: invalid value"),
        ] {
            let error = read(yaml).unwrap_err();
            assert!(error.starts_with(message), "{yaml} gave {error:?}");
        }
    }

    #[test]
    fn a_file_of_another_kind_is_refused() {
        let error = OperatorConfiguration::from_document(&serde_json::json!({ "kind": "Pod" })).unwrap_err();
        assert!(error.to_string().starts_with("apiVersion: must be"), "{error}");
    }

    #[test]
    fn unknown_keys_warn_and_upstreams_keys_do_not() {
        let (_, warnings) = read(
            "leaderElection: {enabled: true}\nscheduler: {profiles: [{name: default-scheduler, config: {a: 1}}]}\n\
             controllers: {podCliq: {}}\nautorizer: {}\n",
        )
        .unwrap();
        assert_eq!(warnings, ["unknown key autorizer", "unknown key controllers.podCliq"]);
    }
}
