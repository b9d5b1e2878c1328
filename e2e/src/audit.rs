//! What the API server's audit log says that our accounts did.

use std::path::Path;

use serde_json::Value;

const ACCOUNTS: &str = "system:serviceaccount:grove-system:";
const READS: [&str; 3] = ["get", "list", "watch"];

/// Whole lines of the audit log so far, as the mark from which [`writes_since`] looks.
///
/// # Panics
/// When the log cannot be read.
pub fn mark(dir: &Path) -> usize {
    read(dir).lines().count()
}

/// Requests of our accounts since the mark that changed something, Leases excepted: `verb resource name (account)`.
///
/// # Panics
/// When the log cannot be read or is not what an API server writes.
pub fn writes_since(dir: &Path, mark: usize) -> Vec<String> {
    let events =
        read(dir).lines().skip(mark).map(|line| serde_json::from_str(line).expect("JSON")).collect::<Vec<Value>>();
    events.iter().filter_map(write).collect()
}

fn write(event: &Value) -> Option<String> {
    let account = event["user"]["username"].as_str()?.strip_prefix(ACCOUNTS)?;
    let verb = event["verb"].as_str()?;
    let object = &event["objectRef"];
    let resource = object["resource"].as_str().unwrap_or_default();
    let counts = !READS.contains(&verb) && resource != "leases";
    counts.then(|| format!("{verb} {resource} {} ({account})", object["name"].as_str().unwrap_or_default()))
}

/// Which replicas of a service wrote anything but Leases, by the names they give themselves, in the order in which their
/// first requests of each stretch arrived.
///
/// # Panics
/// When the log cannot be read or is not what an API server writes.
pub fn replicas_that_wrote(dir: &Path, service: &str) -> Vec<String> {
    let events = read(dir).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect::<Vec<Value>>();
    let of_service = |event: &&Value| write(event).is_some_and(|write| write.ends_with(&format!("({service})")));
    // What was sent before a replica stood still, and broken off when it went on, changed nothing.
    let carried_out = |event: &&Value| event["responseStatus"]["code"].as_u64().is_some_and(|code| code < 300);
    let writes = events.iter().filter(of_service).filter(carried_out);
    let mut writes: Vec<(String, String)> = writes.map(arrival_and_replica).collect();
    writes.sort();
    let mut replicas: Vec<String> = writes.into_iter().map(|(_, replica)| replica).collect();
    replicas.dedup();
    replicas
}

/// Who was refused by this webhook, and what: `verb resource name (user)`.
///
/// # Panics
/// When the log cannot be read or is not what an API server writes.
pub fn refused_by(dir: &Path, webhook: &str) -> Vec<String> {
    let refused = |event: &Value| {
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let [verb, user, resource, name] =
            ["/verb", "/user/username", "/objectRef/resource", "/objectRef/name"].map(text);
        text("/responseStatus/message").contains(webhook).then(|| format!("{verb} {resource} {name} ({user})"))
    };
    read(dir).lines().filter_map(|line| refused(&serde_json::from_str(line).expect("JSON"))).collect()
}

/// A user agent is `service/version (replica)`.
fn arrival_and_replica(event: &Value) -> (String, String) {
    let agent = event["userAgent"].as_str().unwrap_or_default();
    let replica = agent.split(['(', ')']).nth(1).unwrap_or(agent);
    (event["requestReceivedTimestamp"].as_str().unwrap_or_default().to_owned(), replica.to_owned())
}

fn read(dir: &Path) -> String {
    let mut text = std::fs::read_to_string(dir.join("audit.log")).expect("the audit log");
    // The server may be in the middle of a line.
    text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
    text
}
