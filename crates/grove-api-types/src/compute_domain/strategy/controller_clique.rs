//! One object per clique, which only mnnvl-controller writes, as Kubernetes writes the `EndpointSlice`s of a `Service`: it derives the
//! entries from the pods of the daemons. No two writers conflict, one write contains all pods that became known since the last one,
//! and the readiness of a daemon is that of its pod.
//!
//! A daemon writes only its own pod: the label of its clique, and then its index. The second write makes the index durable, also if
//! the object of the clique is deleted. It works as follows:
//!
//! 1. The daemon reads its index in the object of the clique.
//! 2. It writes the index to its pod.
//! 3. It reads the object again, past all caches. If the index is still the same, it starts IMEX; otherwise it begins again.
//!
//! mnnvl-controller creates an object only after a live LIST of the pods, and assigns the indices that are written there first. So if
//! the object was deleted and created again between 1 and 3, then either the LIST contains the index of the daemon, or the daemon
//! reads the new object in step 3. In both cases, no two daemons start with the same index. An entry is removed only if the pod is
//! terminating, or if a live LIST shows no pod for it: the cached pods may be older than the entries.

use super::{Registration, unique_clique_entries};
use crate::compute_domain::daemon_state::DaemonState;
use crate::compute_domain::entry::Entry;
use crate::compute_domain::problem::Problem;
use crate::compute_domain::request::Request;

/// The strategy.
pub struct ControllerClique;

impl Registration for ControllerClique {
    fn register(&self, daemon: &DaemonState) -> Result<Option<Request>, Problem> {
        let Some(index) = daemon.assigned_index() else { return Ok(None) };
        if daemon.published != Some(index) {
            return Ok(Some(Request::publish_index(&daemon.identity, index)));
        }
        let is_confirmed = daemon.imex.is_some() || daemon.confirmed == Some(index);
        Ok((!is_confirmed).then(|| Request::read_clique(&daemon.identity)))
    }

    fn publish_readiness(&self, _daemon: &DaemonState) -> Result<Option<Request>, Problem> {
        Ok(None)
    }

    fn leave(&self, _daemon: &DaemonState) -> Option<Request> {
        None
    }

    fn peers(&self, daemon: &DaemonState) -> Option<Vec<Entry>> {
        let index = daemon.assigned_index()?;
        let may_run = daemon.imex.is_some() || daemon.confirmed == Some(index);
        unique_clique_entries(daemon).filter(|_| may_run)
    }
}
