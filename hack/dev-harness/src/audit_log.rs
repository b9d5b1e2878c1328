//! The audit log of an API server: the user, the object and the response of each request.

use grove_api_types::SERVICE_USER_PREFIX;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::Deserialize;
use serde_json::Value;

const FILE: &str = "audit.log";
const READ_VERBS: [&str; 3] = ["get", "list", "watch"];

/// The fields of an `audit.k8s.io/v1` Event that the tests and the benchmark use. Absent fields are empty.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Event {
    /// `get`, `create`, `deletecollection`, …
    pub verb: String,
    /// The user that the API server authenticated.
    pub user: User,
    /// The user agent of the client.
    pub user_agent: String,
    /// The object or the collection of the request; absent for paths that are no resource.
    pub object_ref: Option<ObjectRef>,
    /// The outcome.
    pub response_status: ResponseStatus,
    /// In RFC 3339 with microseconds and in UTC, so that timestamps sort as text.
    pub request_received_timestamp: String,
    annotations: Annotations,
}

/// A user.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct User {
    /// For example `system:serviceaccount:grove-system:pcs-controller`.
    pub username: String,
}

/// The object or the collection of a request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObjectRef {
    /// Empty for the core group.
    pub api_group: String,
    /// The plural name of the kind.
    pub resource: String,
    /// Empty for cluster-scoped kinds.
    pub namespace: String,
    /// Empty if the request addresses the object itself.
    pub subresource: String,
    /// Empty for collections.
    pub name: String,
}

/// The outcome of a request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResponseStatus {
    /// The HTTP status code.
    pub code: u16,
    /// Why the API server rejected the request.
    pub message: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Annotations {
    #[serde(rename = "authorization.k8s.io/decision")]
    decision: String,
}

impl Event {
    /// The ServiceAccount in `grove-system` that sent the request, or `None` for any other user.
    pub fn service_account(&self) -> Option<&str> {
        self.user.username.strip_prefix(SERVICE_USER_PREFIX)
    }

    /// When the API server received the request; `None` if the event has no valid timestamp.
    pub fn received_at(&self) -> Option<SystemTime> {
        let timestamp = Value::from(self.request_received_timestamp.as_str());
        serde_json::from_value(timestamp).ok().map(|MicroTime(timestamp)| timestamp.into())
    }

    /// Whether the verb can change an object.
    pub fn is_write(&self) -> bool {
        !READ_VERBS.contains(&self.verb.as_str())
    }

    /// Whether the API server answered with a 2xx code.
    pub fn is_accepted(&self) -> bool {
        (200..300).contains(&self.response_status.code)
    }

    /// Whether the authorizer allowed the request.
    pub fn is_allowed(&self) -> bool {
        self.annotations.decision == "allow"
    }

    /// Whether the authorizer forbade the request.
    pub fn is_forbidden(&self) -> bool {
        self.annotations.decision == "forbid"
    }
}

impl ObjectRef {
    /// The resource, with the subresource behind a slash: `pods/status`.
    pub fn full_resource(&self) -> String {
        let Self { resource, subresource, .. } = self;
        if subresource.is_empty() { resource.clone() } else { format!("{resource}/{subresource}") }
    }
}

/// Parses the lines of an audit log.
///
/// # Errors
/// If a line is not an audit event.
pub fn parse(text: &str) -> Result<Vec<Event>> {
    text.lines().map(parse_line).collect()
}

/// Reads the complete lines of the audit log in the folder `dir` of a control plane. The API server may still be writing the
/// last line.
///
/// # Errors
/// If there is no audit log, or a line is not an audit event.
pub fn read(dir: &Path) -> Result<Vec<Event>> {
    read_with(dir, 0, "")
}

/// Like [`read`], but from this position, and parses only the lines that contain the text.
///
/// # Errors
/// Those of [`read`].
pub fn read_with(dir: &Path, position: u64, part: &str) -> Result<Vec<Event>> {
    let path = dir.join(FILE);
    let mut file = File::open(&path).with_context(|| format!("cannot read {}", path.display()))?;
    file.seek(SeekFrom::Start(position))?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let complete = text.rfind('\n').map_or(0, |end| end + 1);
    text[..complete].lines().filter(|line| line.contains(part)).map(parse_line).collect()
}

/// The position behind the last complete line.
///
/// # Errors
/// If there is no audit log.
pub fn end(dir: &Path) -> Result<u64> {
    let path = dir.join(FILE);
    let file = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let complete = file.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    Ok(u64::try_from(complete)?)
}

fn parse_line(line: &str) -> Result<Event> {
    serde_json::from_str(line).with_context(|| format!("the audit log has a line that is not an event: {line}"))
}

/// Reads an audit log while the API server writes it, across log rotations.
pub struct Tail {
    path: PathBuf,
    file: BufReader<File>,
    /// The begin of a line that the API server has not completed.
    partial: String,
}

impl Tail {
    /// Starts at the end of the audit log in the folder `dir`.
    ///
    /// # Errors
    /// If there is no audit log, or a line is not an audit event.
    pub fn from_end(dir: &Path) -> Result<Self> {
        let path = dir.join(FILE);
        let mut tail = Self { file: open(&path)?, path, partial: String::new() };
        tail.read_new()?;
        Ok(tail)
    }

    /// Reads the events since the last call.
    ///
    /// # Errors
    /// If the audit log cannot be read, or a line is not an audit event.
    pub fn read_new(&mut self) -> Result<Vec<Event>> {
        let mut events = Vec::new();
        loop {
            while self.file.read_line(&mut self.partial)? > 0 && self.partial.ends_with('\n') {
                events.push(parse_line(&self.partial)?);
                self.partial.clear();
            }
            let current = open(&self.path)?;
            if current.get_ref().metadata()?.ino() == self.file.get_ref().metadata()?.ino() {
                return Ok(events);
            }
            self.file = current;
        }
    }
}

fn open(path: &Path) -> Result<BufReader<File>> {
    let file = File::open(path).with_context(|| format!("cannot read the audit log {}", path.display()))?;
    Ok(BufReader::new(file))
}

#[cfg(test)]
mod tests {
    use super::{Tail, end, parse, read, read_with};
    use std::io::Write as _;

    fn line(verb: &str, resource: &str, code: u32) -> String {
        format!(
            "{{\"verb\":\"{verb}\",\"user\":{{\"username\":\"system:serviceaccount:grove-system:a\"}},\
             \"objectRef\":{{\"resource\":\"{resource}\"}},\"responseStatus\":{{\"code\":{code}}},\
             \"annotations\":{{\"authorization.k8s.io/decision\":\"allow\"}}}}\n"
        )
    }

    #[test]
    fn the_fields_of_an_event_are_read() {
        let event = &parse(&line("create", "pods", 409)).unwrap()[0];
        assert_eq!(event.service_account(), Some("a"));
        assert!(event.is_write() && !event.is_accepted() && event.is_allowed() && !event.is_forbidden());
        let stranger = &parse(r#"{"verb":"get","user":{"username":"admin"},"requestURI":"/readyz"}"#).unwrap()[0];
        assert!(stranger.service_account().is_none() && !stranger.is_write() && stranger.object_ref.is_none());
        assert!(parse("{\"verb\"").is_err());
    }

    #[test]
    fn timestamps_are_parsed_with_microseconds() {
        let event = &parse(r#"{"requestReceivedTimestamp":"1970-01-01T00:00:01.000002Z"}"#).unwrap()[0];
        let received = event.received_at().unwrap().duration_since(std::time::UNIX_EPOCH).unwrap();
        assert_eq!(received.as_micros(), 1_000_002);
        assert!(parse("{}").unwrap()[0].received_at().is_none());
    }

    #[test]
    fn a_subresource_follows_its_resource() {
        let event = &parse(r#"{"objectRef":{"resource":"pods","subresource":"status"}}"#).unwrap()[0];
        assert_eq!(event.object_ref.as_ref().unwrap().full_resource(), "pods/status");
    }

    #[test]
    fn a_tail_reads_partial_lines_and_follows_rotations() {
        let dir = std::env::temp_dir().join(format!("grove-audit-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("audit.log");
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(line("create", "pods", 201).as_bytes()).unwrap();
        let mut tail = Tail::from_end(&dir).unwrap();
        let (first, second) = (line("patch", "pods", 200), line("delete", "pods", 200));
        let (begin, rest) = first.split_at(20);
        file.write_all(begin.as_bytes()).unwrap();
        assert!(tail.read_new().unwrap().is_empty());
        assert_eq!(read(&dir).unwrap().len(), 1, "the second line is not complete");
        assert!(read_with(&dir, end(&dir).unwrap(), "").unwrap().is_empty(), "neither is it for a later reader");
        file.write_all(rest.as_bytes()).unwrap();
        std::fs::rename(&path, dir.join("audit-1.log")).unwrap();
        std::fs::write(&path, second).unwrap();
        let verbs: Vec<String> = tail.read_new().unwrap().into_iter().map(|event| event.verb).collect();
        assert_eq!(verbs, ["patch", "delete"]);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
