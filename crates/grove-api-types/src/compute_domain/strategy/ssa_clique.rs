//! Server-side apply on one object per clique: each daemon is the field manager of its own entry and of the owner reference to its
//! pod. Indices collide as in [`super::ssa_status`], but only within a clique.

use super::own_entry;
use super::{Registration, unique_clique_entries};
use crate::compute_domain::daemon_state::{DaemonState, Phase};
use crate::compute_domain::entry::{self, Entry};
use crate::compute_domain::problem::Problem;
use crate::compute_domain::request::Request;

/// The strategy.
pub struct SsaClique;

impl Registration for SsaClique {
    /// An apply without entry would remove that of the node: a container may restart, and the next pod of a node retains its index.
    fn join(&self, daemon: &DaemonState) -> Option<Request> {
        let has_entry = entry::of_node(daemon.entries(), &daemon.identity.node).is_some();
        (!has_entry).then(|| Request::apply_clique(daemon, None))
    }

    fn register(&self, daemon: &DaemonState) -> Result<Option<Request>, Problem> {
        if daemon.clique().is_none() {
            return Ok(None);
        }
        Ok(own_entry::applied(daemon)?.map(|entry| Request::apply_clique(daemon, Some(entry))))
    }

    fn publish_readiness(&self, daemon: &DaemonState) -> Result<Option<Request>, Problem> {
        Ok(own_entry::applied_readiness(daemon)?.map(|entry| Request::apply_clique(daemon, Some(entry))))
    }

    /// Removes the entry, but not the owner reference: the object is deleted with the last pod. An entry that another field manager
    /// owns too is still there after that.
    fn leave(&self, daemon: &DaemonState) -> Option<Request> {
        let clique = daemon.clique().filter(|_| !own_entry::is_of_other_pod(daemon))?;
        if daemon.phase != Phase::HasLeft {
            return Some(Request::apply_clique(daemon, None));
        }
        own_entry::removed(daemon).map(|entries| Request::replace_clique(clique, entries, None))
    }

    fn peers(&self, daemon: &DaemonState) -> Option<Vec<Entry>> {
        unique_clique_entries(daemon)
    }
}
