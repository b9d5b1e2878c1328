//! The ways in which the daemons of a domain synchronize their state, and what they have in common.
//!
//! | strategy | object of the entries | a daemon writes its entry | the index is unique |
//! |---|---|---|---|
//! | [`rmw_status`] | the status of the domain | replaces the status that it read | when it is written |
//! | [`ssa_status`] | the status of the domain | by server-side apply | after collisions are resolved |
//! | [`rmw_clique`] | one object per clique | replaces the object that it read | when it is written |
//! | [`ssa_clique`] | one object per clique | by server-side apply | after collisions are resolved |
//! | [`controller_clique`] | one object per clique | mnnvl-controller writes the entries of all daemons | when it is written |

use super::daemon_state::DaemonState;
use super::entry::{self, Entry};
use super::problem::Problem;
use super::request::Request;

pub mod controller_clique;
mod own_entry;
pub mod parameters;
pub mod rmw_clique;
pub mod rmw_status;
pub mod ssa_clique;
pub mod ssa_status;

/// A way to synchronize the state of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Strategy {
    /// The status of the domain, by read-modify-write.
    RmwStatus,
    /// The status of the domain, by server-side apply.
    SsaStatus,
    /// One object per clique, by read-modify-write.
    RmwClique,
    /// One object per clique, by server-side apply.
    SsaClique,
    /// One object per clique, which only mnnvl-controller writes.
    ControllerClique,
}

impl Strategy {
    /// All strategies, with their names in the configuration.
    pub const ALL: [(&'static str, Self); 5] = [
        ("rmw-status", Self::RmwStatus),
        ("ssa-status", Self::SsaStatus),
        ("rmw-clique", Self::RmwClique),
        ("ssa-clique", Self::SsaClique),
        ("controller-clique", Self::ControllerClique),
    ];

    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, strategy)| *strategy == self).map_or("", |(name, _)| name)
    }

    /// The strategy with this name in the configuration.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(other, _)| *other == name).map(|(_, strategy)| *strategy)
    }

    /// The strategy of a domain, by the feature gate `ComputeDomainCliques` and by `syncStrategy`, which overrides the gate.
    pub fn configured(cliques: bool, strategy: Option<Self>) -> Self {
        strategy.unwrap_or(if cliques { Self::ControllerClique } else { Self::SsaStatus })
    }

    /// Whether the entries are in one object per clique, and not in the status of the domain.
    pub fn has_cliques(self) -> bool {
        matches!(self, Self::RmwClique | Self::SsaClique | Self::ControllerClique)
    }

    /// How a daemon registers with this strategy.
    pub fn registration(self) -> &'static dyn Registration {
        match self {
            Self::RmwStatus => &rmw_status::RmwStatus,
            Self::SsaStatus => &ssa_status::SsaStatus,
            Self::RmwClique => &rmw_clique::RmwClique,
            Self::SsaClique => &ssa_clique::SsaClique,
            Self::ControllerClique => &controller_clique::ControllerClique,
        }
    }
}

/// How a daemon registers: the counterpart of `DaemonInfoManager` in NVIDIA's driver. Each function decides the next request of the
/// daemon from what it knows; `None` if there is nothing to write. A failed request is retried.
pub trait Registration {
    /// At the start of the daemon: creates the object of the entries, or joins it.
    fn join(&self, _daemon: &DaemonState) -> Option<Request> {
        None
    }

    /// After each change of the object: adds or corrects the own entry.
    fn register(&self, daemon: &DaemonState) -> Result<Option<Request>, Problem>;

    /// After each change of the own pod: publishes whether the daemon is ready.
    fn publish_readiness(&self, daemon: &DaemonState) -> Result<Option<Request>, Problem>;

    /// At the end of the daemon: removes the own entry.
    fn leave(&self, daemon: &DaemonState) -> Option<Request>;

    /// The entries with which IMEX can run; `None` while it must not start, or not read others.
    fn peers(&self, daemon: &DaemonState) -> Option<Vec<Entry>>;
}

/// The entries of the daemon's clique in the object that it has read.
fn clique_entries(daemon: &DaemonState) -> Vec<Entry> {
    entry::of_clique(daemon.entries(), &daemon.identity.clique).cloned().collect()
}

/// The entries of the clique, unless two of them have the same index.
fn unique_clique_entries(daemon: &DaemonState) -> Option<Vec<Entry>> {
    Some(clique_entries(daemon)).filter(|entries| !entry::has_duplicate_index(entries))
}
