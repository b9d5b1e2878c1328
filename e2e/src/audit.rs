//! Requests of the services in the audit log of the API server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use grove_dev_harness::audit_log::{self, Event};

/// The requests in an audit log from some moment on.
#[derive(Clone)]
pub struct AuditLog {
    /// The folder of the dev cluster.
    dir: PathBuf,
    position: u64,
}

impl AuditLog {
    /// All requests to a control plane.
    pub(crate) fn from_start(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), position: 0 }
    }

    /// The requests from now on.
    ///
    /// # Panics
    /// If there is no audit log.
    #[must_use]
    pub fn from_now(&self) -> Self {
        Self { dir: self.dir.clone(), position: audit_log::end(&self.dir).expect("the audit log") }
    }

    /// All events.
    ///
    /// # Panics
    /// If the log cannot be read.
    pub fn events(&self) -> Vec<Event> {
        self.events_with("")
    }

    fn events_with(&self, part: &str) -> Vec<Event> {
        audit_log::read_with(&self.dir, self.position, part).expect("the audit log")
    }

    /// Writes of our accounts, except for writes of Leases: `verb resource name (account)`.
    pub fn writes(&self) -> Vec<String> {
        self.events().iter().filter_map(write).collect()
    }

    /// The creates of our accounts in a namespace, be they accepted or rejected: `resource (account): message`.
    pub fn creates(&self, namespace: &str) -> Vec<String> {
        let create = |event: &Event| {
            let (account, object) = (event.service_account()?, event.object_ref.clone()?);
            let is_create = event.verb == "create" && object.namespace == namespace;
            is_create.then(|| format!("{} ({account}): {}", object.resource, event.response_status.message))
        };
        self.events_with(namespace).iter().filter_map(create).collect()
    }

    /// The accepted deletes of our accounts in a namespace: the name of the object, which is empty for a deletecollection, and the
    /// account.
    pub fn deletes(&self, resource: &str, namespace: &str) -> Vec<(String, String)> {
        let delete = |event: &Event| {
            let (account, object) = (event.service_account()?, event.object_ref.clone()?);
            let is_of_kind = object.resource == resource && object.namespace == namespace;
            let is_delete = is_of_kind && event.verb.starts_with("delete") && event.is_accepted();
            is_delete.then(|| (object.name, account.to_owned()))
        };
        self.events_with(namespace).iter().filter_map(delete).collect()
    }

    /// Waits until the API server has received no write, as of [`AuditLog::writes`], for this long. Only the end of this time shows that
    /// there are none, so this is the one fixed wait of the tests.
    ///
    /// # Panics
    /// If the log has no write.
    pub async fn wait_until_quiet(&self, quiet: Duration) {
        loop {
            let events = self.events();
            let writes = events.iter().filter(|event| write(event).is_some());
            let last = writes.filter_map(Event::received_at).max().expect("a write");
            match quiet.checked_sub(last.elapsed().unwrap_or_default()) {
                Some(remaining) => tokio::time::sleep(remaining).await,
                None => return,
            }
        }
    }

    /// The replicas of a service that wrote anything but Leases and events, by the names in their user agents, in the order in which the
    /// first requests of each stretch arrived. A replica that lost its lease may still publish events about its earlier writes.
    pub fn replicas_that_wrote(&self, service: &str) -> Vec<String> {
        let events = self.events();
        let is_event = |event: &Event| event.object_ref.as_ref().is_some_and(|object| object.resource == "events");
        let of_service = |event: &&Event| {
            !is_event(event) && write(event).is_some_and(|write| write.ends_with(&format!("({service})")))
        };
        // A request that a suspended replica sent, and whose connection ended before the replica ran again, changed nothing.
        let mut writes: Vec<(&str, &str)> =
            events.iter().filter(of_service).filter(|event| event.is_accepted()).map(arrival_and_replica).collect();
        writes.sort_unstable();
        let mut replicas: Vec<String> = writes.into_iter().map(|(_, replica)| replica.to_owned()).collect();
        replicas.dedup();
        replicas
    }

    /// Requests that this webhook denied: `verb resource name (user)`.
    pub fn denied_by(&self, webhook: &str) -> Vec<String> {
        let events = self.events();
        let denied = events.iter().filter(|event| event.response_status.message.contains(webhook));
        denied.map(request_and_user).collect()
    }
}

fn write(event: &Event) -> Option<String> {
    let account = event.service_account()?;
    let object = event.object_ref.clone().unwrap_or_default();
    let counts = event.is_write() && object.resource != "leases";
    counts.then(|| format!("{} {} {} ({account})", event.verb, object.resource, object.name))
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
