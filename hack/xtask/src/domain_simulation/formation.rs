//! How far a domain is: decided from what its daemons and the watches report. It does no I/O and reads no clock.

use self::clique::{Clique, Member, Violation};
use grove_api_types::compute_domain::entry::Entry;
use std::collections::BTreeMap;
use std::time::Duration;

pub(crate) mod clique;

/// The steps of a daemon: it has an entry, is Ready, and has given peers to IMEX.
pub(crate) const STEPS: usize = 3;

/// A report of a watch or of a daemon.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Report {
    /// The entries of the domain, if its status contains them.
    Entries(Vec<Entry>),
    /// The entries in the object of a clique. A deleted object has none.
    CliqueEntries { clique: String, entries: Vec<Entry> },
    /// The status of the domain.
    Domain { is_ready: bool },
    /// A daemon gave these peers, sorted by index, to IMEX.
    Peers { daemon: Member, peers: Vec<Entry>, is_restart: bool },
}

/// When the domain reached its milestones, from the start of the daemons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Milestones {
    /// Each daemon has an entry.
    pub(crate) present: Option<Duration>,
    /// Each entry is Ready.
    pub(crate) ready: Option<Duration>,
    /// Each daemon has given its first peers without a duplicate index to IMEX.
    pub(crate) first_peers: Option<Duration>,
    /// The status of the domain is Ready.
    pub(crate) domain: Option<Duration>,
    /// All of these; and each daemon has given all peers of its clique to IMEX, and the invariants hold.
    pub(crate) converged: Option<Duration>,
}

/// A domain whose daemons start.
#[derive(Debug, Default)]
pub(crate) struct Formation {
    pub(crate) milestones: Milestones,
    /// How often the entry of a pod got another index.
    pub(crate) index_changes: u32,
    /// How often a daemon started IMEX again because its index had changed.
    pub(crate) restarts: u32,
    is_domain_ready: bool,
    cliques: BTreeMap<String, Clique>,
    /// The entries of cliques that the domain does not have.
    foreign: BTreeMap<String, usize>,
    /// The indices of the entries by address.
    indices: BTreeMap<String, i64>,
}

impl Formation {
    /// A domain with these daemons.
    pub(crate) fn new(members: impl IntoIterator<Item = Member>) -> Self {
        let mut formation = Self::default();
        members.into_iter().for_each(|member| formation.add(member));
        formation
    }

    /// Replaces a daemon that has ended by another one.
    pub(crate) fn replace(&mut self, ended: &Member, new: Member) {
        if let Some(clique) = self.cliques.get_mut(&ended.clique) {
            clique.remove(ended);
        }
        self.add(new);
    }

    fn add(&mut self, member: Member) {
        self.cliques.entry(member.clique.clone()).or_default().add(member);
    }

    /// Notes a report at this time after the start.
    pub(crate) fn apply(&mut self, at: Duration, report: Report) {
        match report {
            Report::Entries(entries) => self.set_all(entries),
            Report::CliqueEntries { clique, entries } => self.set(clique, entries),
            Report::Domain { is_ready } => self.is_domain_ready = is_ready,
            Report::Peers { daemon, peers, is_restart } => {
                self.restarts += u32::from(is_restart);
                if let Some(clique) = self.cliques.get_mut(&daemon.clique) {
                    clique.set_peers(&daemon, peers);
                }
            }
        }
        self.note_milestones(at);
    }

    fn set_all(&mut self, entries: Vec<Entry>) {
        let mut by_clique: BTreeMap<String, Vec<Entry>> =
            self.cliques.keys().chain(self.foreign.keys()).map(|clique| (clique.clone(), Vec::new())).collect();
        for entry in entries {
            by_clique.entry(entry.clique_id.clone()).or_default().push(entry);
        }
        for (clique, entries) in by_clique {
            self.set(clique, entries);
        }
    }

    fn set(&mut self, clique: String, entries: Vec<Entry>) {
        for Entry { ip_address, index, .. } in &entries {
            match self.indices.get_mut(ip_address) {
                Some(before) if before == index => {}
                Some(before) => {
                    *before = *index;
                    self.index_changes += 1;
                }
                None => drop(self.indices.insert(ip_address.clone(), *index)),
            }
        }
        match self.cliques.get_mut(&clique) {
            Some(known) => known.set_entries(entries),
            None => drop(self.foreign.insert(clique, entries.len())),
        }
    }

    /// How far the domain is: the sum of the steps of all daemons ([`STEPS`]).
    pub(crate) fn progress(&self) -> usize {
        self.cliques.values().map(Clique::progress).sum()
    }

    /// Whether the domain has reached all milestones.
    pub(crate) fn is_converged(&self) -> bool {
        self.milestones.converged.is_some()
    }

    /// What prevents the domain from being converged.
    pub(crate) fn violations(&self) -> Vec<String> {
        let of_cliques =
            self.cliques.iter().filter_map(|(id, clique)| Some(format!("clique {id}: {}", clique.violation()?)));
        let of_domain = (!self.is_domain_ready).then(|| "the domain is not Ready".to_owned());
        self.foreign_entries().chain(of_cliques).chain(of_domain).collect()
    }

    /// What contradicts itself in the stored entries: a domain that has reached all other milestones must not have it.
    pub(crate) fn contradictions(&self) -> Vec<String> {
        let of_clique = |(id, clique): (&String, &Clique)| {
            clique.violation().filter(Violation::is_wrong).map(|violation| format!("clique {id}: {violation}"))
        };
        self.foreign_entries().chain(self.cliques.iter().filter_map(of_clique)).collect()
    }

    fn foreign_entries(&self) -> impl Iterator<Item = String> {
        let foreign = self.foreign.iter().filter(|(_, count)| **count > 0);
        foreign.map(|(clique, count)| format!("the unknown clique {clique} has {count} entries"))
    }

    fn note_milestones(&mut self, at: Duration) {
        let all = |is_reached: fn(&Clique) -> bool| self.cliques.values().all(is_reached);
        let is_clean = self.foreign.values().all(|count| *count == 0);
        let Milestones { present, ready, first_peers, domain, converged } = &mut self.milestones;
        let note = |milestone: &mut Option<Duration>, is_reached: bool| {
            if milestone.is_none() && is_reached {
                *milestone = Some(at);
            }
            milestone.is_some()
        };
        let is_present = note(present, all(Clique::is_present));
        let is_ready = note(ready, is_present && all(Clique::is_ready));
        let is_informed = note(first_peers, all(Clique::is_informed));
        let is_domain_ready = note(domain, is_present && self.is_domain_ready);
        let is_reached = is_ready && is_informed && is_domain_ready;
        note(converged, is_reached && self.is_domain_ready && is_clean && all(Clique::is_settled));
    }
}

#[cfg(test)]
mod tests;
