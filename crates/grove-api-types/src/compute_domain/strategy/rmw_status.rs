//! Read-modify-write on the status of the domain, as NVIDIA's driver 25.8.1 does it. If two daemons write at once, the API server
//! rejects the second one with a conflict (409), and the daemon retries with the version that it reads next.

use super::own_entry;
use super::{Registration, clique_entries};
use crate::compute_domain::daemon_state::DaemonState;
use crate::compute_domain::entry::Entry;
use crate::compute_domain::problem::Problem;
use crate::compute_domain::request::Request;

/// The strategy.
pub struct RmwStatus;

impl Registration for RmwStatus {
    fn register(&self, daemon: &DaemonState) -> Result<Option<Request>, Problem> {
        let Some(domain) = daemon.domain() else { return Ok(None) };
        Ok(own_entry::registered(daemon)?.map(|entries| Request::replace_status(domain, entries)))
    }

    fn publish_readiness(&self, daemon: &DaemonState) -> Result<Option<Request>, Problem> {
        let entries = own_entry::with_readiness(daemon)?;
        Ok(daemon.domain().zip(entries).map(|(domain, entries)| Request::replace_status(domain, entries)))
    }

    fn leave(&self, daemon: &DaemonState) -> Option<Request> {
        Some(Request::replace_status(daemon.domain()?, own_entry::removed(daemon)?))
    }

    fn peers(&self, daemon: &DaemonState) -> Option<Vec<Entry>> {
        Some(clique_entries(daemon))
    }
}
