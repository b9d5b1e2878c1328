//! The summary in the status of a domain. This is its only writer.

use grove_api_types::compute_domain::entry::Entry;
use grove_api_types::compute_domain::status::{ComputeDomainNode, ComputeDomainStatus};
use grove_api_types::compute_domain::summary::summary;

use super::observed::{DesiredClique, Observed};

/// The status after the plan was executed. The daemons' entries are in it if the strategy stores them there, or as a copy.
pub(crate) fn status(observed: &Observed, cliques: &[DesiredClique]) -> ComputeDomainStatus {
    let has_cliques = observed.strategy().has_cliques();
    let entries = if has_cliques {
        cliques.iter().flat_map(|clique| clique.assignment.entries.clone()).collect()
    } else {
        observed.status_entries()
    };
    let mut status = summary(observed.domain.spec.num_nodes, &entries, &observed.pods);
    if !has_cliques || observed.settings.mirrors_nodes {
        add_nodes(&mut status, entries);
    }
    if is_permutation(&status.nodes, &observed.domain.status.nodes) {
        status.nodes.clone_from(&observed.domain.status.nodes);
    }
    status
}

fn add_nodes(status: &mut ComputeDomainStatus, entries: Vec<Entry>) {
    status.nodes.extend(entries.into_iter().map(ComputeDomainNode::from));
}

/// Whether the lists differ at most in their order. The order has no meaning, and a daemon adds its entry at the end.
fn is_permutation(one: &[ComputeDomainNode], other: &[ComputeDomainNode]) -> bool {
    let sorted = |nodes: &[ComputeDomainNode]| {
        let mut sorted = nodes.to_vec();
        sorted.sort_by(|one, other| one.name.cmp(&other.name));
        sorted
    };
    sorted(one) == sorted(other)
}
