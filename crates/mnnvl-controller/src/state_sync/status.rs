//! The summary in the status of a domain. This is its only writer.

use grove_api_types::compute_domain::entry::Entry;
use grove_api_types::compute_domain::status::{ComputeDomainNode, ComputeDomainStatus};
use grove_api_types::compute_domain::summary::summary;

use super::observed::{DesiredClique, Observed};

/// The status after the plan was executed.
pub(crate) fn status(observed: &Observed, cliques: &[DesiredClique<'_>]) -> ComputeDomainStatus {
    let entries: Vec<Entry> = cliques.iter().flat_map(|clique| clique.assignment.entries.clone()).collect();
    let mut status = summary(observed.domain.spec.num_nodes, &entries, &observed.pods);
    if observed.mirrors_nodes {
        status.nodes.extend(entries.into_iter().map(ComputeDomainNode::from));
    }
    status
}
