//! The own entry of a daemon, as its strategy writes it.

use crate::compute_domain::daemon_state::{DaemonState, Identity};
use crate::compute_domain::entry::{self, Entry, Readiness};
use crate::compute_domain::problem::Problem;

/// Whether a daemon with read-modify-write has to write its entry: the entries with its entry added or with its new address. `None`
/// if the entry is right.
pub(super) fn registered(daemon: &DaemonState) -> Result<Option<Vec<Entry>>, Problem> {
    let identity = &daemon.identity;
    let own = match entry::of_node(daemon.entries(), &identity.node) {
        Some(own) if own.ip_address == identity.pod_ip => return Ok(None),
        Some(own) => Entry { ip_address: identity.pod_ip.clone(), ..own.clone() },
        None => new_entry(identity, daemon.entries())?,
    };
    Ok(Some(with_entry(daemon.entries(), own)))
}

/// The entries with the new readiness of the daemon. `None` if they have it already.
pub(super) fn with_readiness(daemon: &DaemonState) -> Result<Option<Vec<Entry>>, Problem> {
    Ok(applied_readiness(daemon)?.map(|own| with_entry(daemon.entries(), own)))
}

/// The entries without that of the daemon's pod. `None` if the pod has no entry.
pub(super) fn removed(daemon: &DaemonState) -> Option<Vec<Entry>> {
    let entries = daemon.entries();
    let others: Vec<_> = entries.iter().filter(|entry| entry.ip_address != daemon.identity.pod_ip).cloned().collect();
    (others.len() < entries.len()).then_some(others)
}

/// Whether the entry of the node is that of another pod. It has the same field manager, so an apply without entry would remove it.
pub(super) fn is_of_other_pod(daemon: &DaemonState) -> bool {
    let entry = entry::of_node(daemon.entries(), &daemon.identity.node);
    entry.is_some_and(|entry| entry.ip_address != daemon.identity.pod_ip)
}

/// The entry that a daemon with server-side apply writes; `None` if it is stored already. Before IMEX has started, a daemon whose
/// index another one has too takes the lowest free index. The other one does the same.
pub(super) fn applied(daemon: &DaemonState) -> Result<Option<Entry>, Problem> {
    let identity = &daemon.identity;
    let entries = daemon.entries();
    let stored = entry::of_node(entries, &identity.node);
    let mut own = match stored {
        Some(stored) => stored.clone(),
        None => new_entry(identity, entries)?,
    };
    own.ip_address.clone_from(&identity.pod_ip);
    let collides = |other: &Entry| other.node_name != own.node_name && other.index == own.index;
    if daemon.imex.is_none() && entry::of_clique(entries, &identity.clique).any(collides) {
        own.index = free_index(identity, entries)?;
    }
    Ok((stored != Some(&own)).then_some(own))
}

/// The entry that a daemon with server-side apply writes when its readiness changes; `None` while the daemon does not know it. It contains
/// all fields: the API server would remove those that it omits.
pub(super) fn applied_readiness(daemon: &DaemonState) -> Result<Option<Entry>, Problem> {
    let own = entry::of_node(daemon.entries(), &daemon.identity.node);
    let own = own.ok_or_else(|| Problem::NoEntry { node: daemon.identity.node.clone() })?;
    let Some(readiness) = daemon.is_ready.map(Readiness::of) else { return Ok(None) };
    Ok((own.status != readiness).then_some(Entry { status: readiness, ..own.clone() }))
}

/// The entries with this one, in place of that of its node.
fn with_entry(entries: &[Entry], own: Entry) -> Vec<Entry> {
    let mut entries = entries.to_vec();
    match entries.iter_mut().find(|entry| entry.node_name == own.node_name) {
        Some(entry) => *entry = own,
        None => entries.push(own),
    }
    entries
}

/// The entry of a daemon that has none yet.
fn new_entry(identity: &Identity, entries: &[Entry]) -> Result<Entry, Problem> {
    Ok(Entry {
        node_name: identity.node.clone(),
        ip_address: identity.pod_ip.clone(),
        clique_id: identity.clique.clone(),
        index: free_index(identity, entries)?,
        status: Readiness::NotReady,
    })
}

fn free_index(identity: &Identity, entries: &[Entry]) -> Result<i64, Problem> {
    let used = entry::of_clique(entries, &identity.clique).map(|entry| entry.index).collect();
    let index = entry::lowest_free_index(&used);
    let max_nodes = identity.max_nodes;
    if entry::is_valid_index(index, max_nodes) {
        return Ok(index);
    }
    Err(Problem::CliqueFull { clique: identity.clique.clone(), node: identity.node.clone(), max_nodes })
}
