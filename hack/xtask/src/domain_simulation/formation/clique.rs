//! The daemons of one clique, their entries, and the peers that they know.

use grove_api_types::compute_domain::daemon_state::Identity;
use grove_api_types::compute_domain::entry::{self, Entry, Readiness};
use std::collections::BTreeMap;
use std::fmt;

/// A daemon of the domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// The node.
    pub(crate) node: String,
    /// The clique of the node.
    pub(crate) clique: String,
    /// The address of the daemon's pod.
    pub(crate) address: String,
}

/// An invariant of a converged clique that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Violation {
    /// An entry is of no daemon.
    Foreign { node: String, address: String },
    /// The indices are not 0, 1, … without gap.
    Indices(Vec<i64>),
    /// Not all daemons have a Ready entry.
    Incomplete { daemons: usize, present: usize, ready: usize },
    /// The daemon of a node has not given all peers to IMEX.
    Peers { node: String },
}

impl Violation {
    /// Whether the stored entries contradict each other. Otherwise they are only not complete yet.
    pub(super) fn is_wrong(&self) -> bool {
        matches!(self, Self::Foreign { .. } | Self::Indices(_))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign { node, address } => {
                write!(to, "the entry of node {node} with address {address} is of no daemon")
            }
            Self::Indices(indices) => write!(to, "the indices are {indices:?}"),
            Self::Incomplete { daemons, present, ready } => {
                write!(to, "of {daemons} daemons, {present} have an entry, and {ready} are Ready")
            }
            Self::Peers { node } => write!(to, "the daemon of node {node} has not all peers"),
        }
    }
}

impl Member {
    /// The daemon with this identity.
    pub(crate) fn of(identity: &Identity) -> Self {
        let Identity { node, clique, pod_ip: address, .. } = identity.clone();
        Self { node, clique, address }
    }
}

/// A clique of the domain.
#[derive(Debug, Default)]
pub(super) struct Clique {
    /// The daemons that should register, by address.
    members: BTreeMap<String, Member>,
    /// The stored entries, sorted by index.
    entries: Vec<Entry>,
    /// The newest peers that each member has given to IMEX, by address.
    peers: BTreeMap<String, Vec<Entry>>,
    present: usize,
    ready: usize,
    informed: usize,
    is_settled: bool,
}

impl Clique {
    pub(super) fn add(&mut self, member: Member) {
        self.members.insert(member.address.clone(), member);
        self.update();
    }

    pub(super) fn remove(&mut self, member: &Member) {
        self.members.remove(&member.address);
        self.peers.remove(&member.address);
        self.update();
    }

    pub(super) fn set_entries(&mut self, mut entries: Vec<Entry>) {
        entries.sort_by_key(|entry| entry.index);
        self.entries = entries;
        self.update();
    }

    /// A daemon that has ended may still report.
    pub(super) fn set_peers(&mut self, daemon: &Member, peers: Vec<Entry>) {
        if self.members.contains_key(&daemon.address) {
            self.peers.insert(daemon.address.clone(), peers);
            self.update();
        }
    }

    fn update(&mut self) {
        let of_members = || self.entries.iter().filter(|entry| self.is_of_member(entry));
        let (present, ready) = (of_members().count(), of_members().filter(|it| it.status == Readiness::Ready).count());
        (self.present, self.ready) = (present, ready);
        self.informed = self.peers.values().filter(|peers| !entry::has_duplicate_index(*peers)).count();
        let is_complete = self.is_present() && self.is_ready() && self.is_informed();
        self.is_settled = is_complete && self.violation().is_none();
    }

    /// The number of entries, of Ready entries, and of daemons that have given peers to IMEX, together.
    pub(super) fn progress(&self) -> usize {
        self.present + self.ready + self.informed
    }

    /// Each daemon has an entry.
    pub(super) fn is_present(&self) -> bool {
        self.present == self.members.len()
    }

    /// Each entry is Ready.
    pub(super) fn is_ready(&self) -> bool {
        self.ready == self.members.len()
    }

    /// Each daemon has given peers without a duplicate index to IMEX.
    pub(super) fn is_informed(&self) -> bool {
        self.informed == self.members.len()
    }

    /// No invariant is violated.
    pub(super) fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// The first invariant that does not hold.
    pub(super) fn violation(&self) -> Option<Violation> {
        if let Some(entry) = self.entries.iter().find(|entry| !self.is_of_member(entry)) {
            return Some(Violation::Foreign { node: entry.node_name.clone(), address: entry.ip_address.clone() });
        }
        let indices = || self.entries.iter().map(|entry| entry.index);
        let is_complete = self.is_present() && self.is_ready();
        if entry::has_duplicate_index(&self.entries) || is_complete && !indices().eq((0..).take(self.members.len())) {
            return Some(Violation::Indices(indices().collect()));
        }
        if !is_complete {
            return Some(Violation::Incomplete {
                daemons: self.members.len(),
                present: self.present,
                ready: self.ready,
            });
        }
        let other = self.members.values().find(|member| {
            let peers = self.peers.get(&member.address).into_iter().flatten();
            !peers.map(address_of_index).eq(self.entries.iter().map(address_of_index))
        })?;
        Some(Violation::Peers { node: other.node.clone() })
    }

    fn is_of_member(&self, entry: &Entry) -> bool {
        self.members.get(&entry.ip_address).is_some_and(|member| member.node == entry.node_name)
    }
}

fn address_of_index(entry: &Entry) -> (i64, &str) {
    (entry.index, &entry.ip_address)
}
