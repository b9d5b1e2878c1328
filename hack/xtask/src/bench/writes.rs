//! The writes of a phase, from the audit log of the API server.

use crate::suite::CONTROLLERS;
use anyhow::{Result, ensure};
use grove_dev_harness::audit_log::{Event, Tail};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};
use tokio::time::sleep;

const WRITE_VERBS: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];
/// Leases, and requests that store no object.
const IGNORED_GROUPS: [&str; 3] = ["coordination.k8s.io", "authentication.k8s.io", "authorization.k8s.io"];

/// A round starts and ends when no write was logged for this long.
pub(super) const QUIET_PERIOD: Duration = Duration::from_secs(5);
/// Services do not write settled objects for this long.
const STEADY_PERIOD: Duration = Duration::from_mins(1);

/// Waits until no write was logged for [`QUIET_PERIOD`]. Kubernetes still writes after the objects of the previous round are deleted.
pub(super) async fn wait_until_quiet(dir: &Path) -> Result<()> {
    WriteLog::start(dir)?.wait_until_quiet(QUIET_PERIOD).await
}

/// Waits for a minute, and fails if a service writes meanwhile.
pub(super) async fn check_steady_state(dir: &Path) -> Result<()> {
    let mut log = WriteLog::start(dir)?;
    sleep(STEADY_PERIOD).await;
    log.read_new()?;
    let writes: Vec<_> = log.writes.counts.keys().filter(|write| write.is_of_service()).collect();
    ensure!(writes.is_empty(), "writes of settled objects in a minute: {writes:?}");
    println!("no service wrote for a minute");
    Ok(())
}

/// One kind of write.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Write {
    /// The last segment of the user name.
    pub(super) account: String,
    pub(super) verb: String,
    /// The plural, with the subresource behind a slash.
    pub(super) resource: String,
    pub(super) accepted: bool,
}

impl Write {
    fn is_of_service(&self) -> bool {
        CONTROLLERS.contains(&self.account.as_str())
    }
}

/// The writes of a phase.
#[derive(Default)]
pub(super) struct Writes {
    pub(super) counts: BTreeMap<Write, u32>,
    /// When the API server received each accepted status write of a controller.
    pub(super) status_writes: Vec<SystemTime>,
}

/// Reads the writes of a phase while the API server logs them.
pub(super) struct WriteLog {
    tail: Tail,
    writes: Writes,
}

impl WriteLog {
    /// Starts with the next write.
    pub(super) fn start(dir: &Path) -> Result<Self> {
        Ok(Self { tail: Tail::from_end(dir)?, writes: Writes::default() })
    }

    /// Reads the new events, and returns whether any of them is a write.
    pub(super) fn read_new(&mut self) -> Result<bool> {
        let mut is_new = false;
        for event in self.tail.read_new()? {
            let Some(write) = write(&event) else { continue };
            is_new = true;
            if is_status_write(&write) {
                self.writes.status_writes.extend(event.received_at());
            }
            *self.writes.counts.entry(write).or_default() += 1;
        }
        Ok(is_new)
    }

    /// Reads new events until none of them is a write for this long.
    pub(super) async fn wait_until_quiet(&mut self, period: Duration) -> Result<()> {
        self.read_new()?;
        loop {
            sleep(period).await;
            if !self.read_new()? {
                return Ok(());
            }
        }
    }

    /// The writes of the services to a resource and its subresources since the start: account, verb, resource and whether the API server
    /// rejected them, with their number.
    pub(super) fn of_services(&self, resource: &str) -> BTreeMap<String, u32> {
        let of_services = |write: &Write| write.is_of_service() && write.resource.split('/').next() == Some(resource);
        let text = |Write { account, verb, resource, accepted }: &Write| {
            let outcome = if *accepted { "" } else { " (rejected)" };
            format!("{account} {verb} {resource}{outcome}")
        };
        let counts = self.writes.counts.iter().filter(|(write, _)| of_services(write));
        counts.map(|(write, count)| (text(write), *count)).collect()
    }

    /// All writes since the start.
    pub(super) fn writes(&self) -> &Writes {
        &self.writes
    }
}

/// The writes of [`WriteLog::of_services`] in one line.
pub(super) fn join(writes: &BTreeMap<String, u32>) -> String {
    let writes: Vec<_> = writes.iter().map(|(write, count)| format!("{count} × {write}")).collect();
    writes.join(", ")
}

/// The write of an event, unless the event is a read or stores no object.
fn write(event: &Event) -> Option<Write> {
    let object = event.object_ref.as_ref()?;
    let is_write = WRITE_VERBS.contains(&event.verb.as_str());
    if !is_write || object.subresource == "token" || IGNORED_GROUPS.contains(&object.api_group.as_str()) {
        return None;
    }
    let user = &event.user.username;
    Some(Write {
        account: user.rsplit(':').next().unwrap_or(user).to_owned(),
        verb: event.verb.clone(),
        resource: object.full_resource(),
        accepted: event.is_accepted(),
    })
}

fn is_status_write(write: &Write) -> bool {
    write.accepted && write.resource.ends_with("/status") && write.is_of_service()
}

#[cfg(test)]
mod tests {
    use super::{Write, is_status_write, write};
    use grove_dev_harness::audit_log;

    fn parsed(verb: &str, resource: &str, subresource: &str, code: u32) -> Option<Write> {
        let line = format!(
            "{{\"verb\":\"{verb}\",\"user\":{{\"username\":\"system:serviceaccount:grove-system:pcs-controller\"}},\
             \"objectRef\":{{\"resource\":\"{resource}\",\"subresource\":\"{subresource}\"}},\
             \"responseStatus\":{{\"code\":{code}}}}}"
        );
        write(&audit_log::parse(&line).unwrap()[0])
    }

    #[test]
    fn reads_and_tokens_are_not_writes() {
        assert_eq!(parsed("get", "pods", "", 200), None);
        assert_eq!(parsed("create", "serviceaccounts", "token", 201), None);
        let rejected = parsed("create", "pods", "", 409).unwrap();
        assert!(rejected.account == "pcs-controller" && rejected.verb == "create" && !rejected.accepted);
        assert!(parsed("deletecollection", "pods", "", 200).unwrap().accepted);
    }

    #[test]
    fn only_accepted_writes_of_a_status_are_status_writes() {
        assert!(is_status_write(&parsed("patch", "podcliques", "status", 200).unwrap()));
        assert!(!is_status_write(&parsed("patch", "podcliques", "status", 409).unwrap()));
        assert!(!is_status_write(&parsed("patch", "podcliques", "", 200).unwrap()));
    }
}
