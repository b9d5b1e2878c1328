//! The daemons of one clique, their entries, and the peers that they know.

use grove_api_types::compute_domain::daemon_state::Identity;
use grove_api_types::compute_domain::entry::{self, Entry, Readiness};
use std::collections::BTreeMap;

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
        self.is_settled = is_complete && self.find_violation().is_none();
    }

    pub(super) fn present(&self) -> usize {
        self.present
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
    pub(super) fn violation(&self, id: &str) -> Option<String> {
        self.find_violation().map(|violation| format!("clique {id}: {violation}"))
    }

    fn find_violation(&self) -> Option<String> {
        if let Some(entry) = self.entries.iter().find(|entry| !self.is_of_member(entry)) {
            return Some(format!(
                "the entry of node {} with address {} is of no daemon",
                entry.node_name, entry.ip_address
            ));
        }
        if !self.is_present() || !self.is_ready() {
            let (count, present, ready) = (self.members.len(), self.present, self.ready);
            return Some(format!("of {count} daemons, {present} have an entry, and {ready} are Ready"));
        }
        let indices = || self.entries.iter().map(|entry| entry.index);
        if !indices().eq((0..).take(self.members.len())) {
            return Some(format!("the indices are {:?}", indices().collect::<Vec<_>>()));
        }
        let other = self.members.values().find(|member| {
            let peers = self.peers.get(&member.address).into_iter().flatten();
            !peers.map(address_of_index).eq(self.entries.iter().map(address_of_index))
        })?;
        Some(format!("the daemon of node {} has not all peers", other.node))
    }

    fn is_of_member(&self, entry: &Entry) -> bool {
        self.members.get(&entry.ip_address).is_some_and(|member| member.node == entry.node_name)
    }
}

fn address_of_index(entry: &Entry) -> (i64, &str) {
    (entry.index, &entry.ip_address)
}
