//! Server-side apply on the status of the domain: each daemon is the field manager of its own entry.
//!
//! The API server cannot know that an index must be unique. If several daemons take the same index, they learn that from the watch,
//! and all of them take the lowest free index again. Daemons that read the same object choose the same index again; only different
//! delays end that.

use super::own_entry;
use super::{Registration, unique_clique_entries};
use crate::compute_domain::daemon_state::{DaemonState, Phase};
use crate::compute_domain::entry::Entry;
use crate::compute_domain::problem::Problem;
use crate::compute_domain::request::Request;

/// The strategy.
pub struct SsaStatus;

impl Registration for SsaStatus {
    fn register(&self, daemon: &DaemonState) -> Result<Option<Request>, Problem> {
        if daemon.domain().is_none() {
            return Ok(None);
        }
        Ok(own_entry::applied(daemon)?.map(|entry| Request::apply_status(daemon, Some(entry))))
    }

    fn publish_readiness(&self, daemon: &DaemonState) -> Result<Option<Request>, Problem> {
        Ok(own_entry::applied_readiness(daemon)?.map(|entry| Request::apply_status(daemon, Some(entry))))
    }

    /// Removes the entry that this field manager owns. An entry that another one owns too is still there after that.
    fn leave(&self, daemon: &DaemonState) -> Option<Request> {
        let domain = daemon.domain().filter(|_| !own_entry::is_of_other_pod(daemon))?;
        if daemon.phase != Phase::HasLeft {
            return Some(Request::apply_status(daemon, None));
        }
        own_entry::removed(daemon).map(|entries| Request::replace_status(domain, entries))
    }

    fn peers(&self, daemon: &DaemonState) -> Option<Vec<Entry>> {
        unique_clique_entries(daemon)
    }
}
