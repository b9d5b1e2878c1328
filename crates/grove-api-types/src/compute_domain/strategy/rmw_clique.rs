//! Read-modify-write on one object per clique, as NVIDIA's driver does it today. At most the daemons of one clique conflict.

use super::own_entry;
use super::{Registration, clique_entries};
use crate::compute_domain::daemon_state::DaemonState;
use crate::compute_domain::entry::Entry;
use crate::compute_domain::problem::Problem;
use crate::compute_domain::request::Request;

/// The strategy.
pub struct RmwClique;

impl Registration for RmwClique {
    fn join(&self, daemon: &DaemonState) -> Option<Request> {
        daemon.clique().is_none().then(|| Request::create_clique(&daemon.identity))
    }

    fn register(&self, daemon: &DaemonState) -> Result<Option<Request>, Problem> {
        let Some(clique) = daemon.clique() else { return Ok(None) };
        let entries = own_entry::registered(daemon)?;
        Ok(entries.map(|entries| Request::replace_clique(clique, entries, Some(&daemon.identity))))
    }

    fn publish_readiness(&self, daemon: &DaemonState) -> Result<Option<Request>, Problem> {
        let entries = own_entry::with_readiness(daemon)?;
        Ok(daemon.clique().zip(entries).map(|(clique, entries)| Request::replace_clique(clique, entries, None)))
    }

    fn leave(&self, daemon: &DaemonState) -> Option<Request> {
        Some(Request::replace_clique(daemon.clique()?, own_entry::removed(daemon)?, None))
    }

    fn peers(&self, daemon: &DaemonState) -> Option<Vec<Entry>> {
        Some(clique_entries(daemon))
    }
}
