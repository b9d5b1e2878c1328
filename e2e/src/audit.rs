//! Requests of the services in the audit log of the API server.

use std::path::Path;
use std::time::Duration;

use grove_dev_harness::audit_log::{self, Event};

/// The number of events in the audit log so far: the mark from which [`writes_since`] reads.
///
/// # Panics
/// If the log cannot be read.
pub fn mark(dir: &Path) -> usize {
    read(dir).len()
}

/// Writes of our accounts since the mark, except for writes of Leases: `verb resource name (account)`.
///
/// # Panics
/// If the log cannot be read.
pub fn writes_since(dir: &Path, mark: usize) -> Vec<String> {
    read(dir).iter().skip(mark).filter_map(write).collect()
}

/// The creates of our accounts in a namespace since the mark, be they accepted or rejected: `resource (account): message`.
///
/// # Panics
/// If the log cannot be read.
pub fn creates_since(dir: &Path, mark: usize, namespace: &str) -> Vec<String> {
    let create = |event: &Event| {
        let (account, object) = (event.service_account()?, event.object_ref.clone()?);
        let is_create = event.verb == "create" && object.namespace == namespace;
        is_create.then(|| format!("{} ({account}): {}", object.resource, event.response_status.message))
    };
    read(dir).iter().skip(mark).filter_map(create).collect()
}

/// The accepted deletes of our accounts in a namespace: the name of the object, which is empty for a deletecollection, and the account.
///
/// # Panics
/// If the log cannot be read.
pub fn deletes(dir: &Path, resource: &str, namespace: &str) -> Vec<(String, String)> {
    let delete = |event: &Event| {
        let (account, object) = (event.service_account()?, event.object_ref.clone()?);
        let is_of_kind = object.resource == resource && object.namespace == namespace;
        let is_delete = is_of_kind && event.verb.starts_with("delete") && event.is_accepted();
        is_delete.then(|| (object.name, account.to_owned()))
    };
    // Most lines are about other namespaces.
    let events = audit_log::read_with(dir, namespace).expect("the audit log");
    events.iter().filter_map(delete).collect()
}

/// Waits until the API server has received no write, as of [`writes_since`], for this long. Only the end of this time shows that there are
/// none, so this is the one fixed wait of the tests.
///
/// # Panics
/// If the log cannot be read, or has no write.
pub async fn wait_until_quiet(dir: &Path, quiet: Duration) {
    loop {
        let events = read(dir);
        let writes = events.iter().filter(|event| write(event).is_some());
        let last = writes.filter_map(Event::received_at).max().expect("a write");
        match quiet.checked_sub(last.elapsed().unwrap_or_default()) {
            Some(remaining) => tokio::time::sleep(remaining).await,
            None => return,
        }
    }
}

fn write(event: &Event) -> Option<String> {
    let account = event.service_account()?;
    let object = event.object_ref.clone().unwrap_or_default();
    let counts = event.is_write() && object.resource != "leases";
    counts.then(|| format!("{} {} {} ({account})", event.verb, object.resource, object.name))
}

/// The replicas of a service that wrote anything but Leases, by the names in their user agents, in the order in which the
/// first requests of each stretch arrived.
///
/// # Panics
/// If the log cannot be read.
pub fn replicas_that_wrote(dir: &Path, service: &str) -> Vec<String> {
    let events = read(dir);
    let of_service = |event: &&Event| write(event).is_some_and(|write| write.ends_with(&format!("({service})")));
    // A request that a suspended replica sent, and whose connection ended before the replica ran again, changed nothing.
    let mut writes: Vec<(&str, &str)> =
        events.iter().filter(of_service).filter(|event| event.is_accepted()).map(arrival_and_replica).collect();
    writes.sort_unstable();
    let mut replicas: Vec<String> = writes.into_iter().map(|(_, replica)| replica.to_owned()).collect();
    replicas.dedup();
    replicas
}

/// Requests that this webhook denied: `verb resource name (user)`.
///
/// # Panics
/// If the log cannot be read.
pub fn denied_by(dir: &Path, webhook: &str) -> Vec<String> {
    let events = read(dir);
    let denied = events.iter().filter(|event| event.response_status.message.contains(webhook));
    denied.map(request_and_user).collect()
}

fn request_and_user(event: &Event) -> String {
    let object = event.object_ref.clone().unwrap_or_default();
    format!("{} {} {} ({})", event.verb, object.resource, object.name, event.user.username)
}

/// A user agent is `service/version (replica)`.
fn arrival_and_replica(event: &Event) -> (&str, &str) {
    let replica = event.user_agent.split(['(', ')']).nth(1).unwrap_or(&event.user_agent);
    (&event.request_received_timestamp, replica)
}

fn read(dir: &Path) -> Vec<Event> {
    audit_log::read(dir).expect("the audit log")
}
