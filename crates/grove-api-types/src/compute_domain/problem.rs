//! What a user has to know or to repair before a domain becomes ready.

use std::fmt;

/// A reason for which a daemon cannot register or start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The node belongs to no clique.
    NoClique {
        /// The node.
        node: String,
    },
    /// All indices of the clique are in use.
    CliqueFull {
        /// The clique.
        clique: String,
        /// The node that gets no index.
        node: String,
        /// The number of indices.
        max_nodes: usize,
    },
    /// A stored entry has an index that the clique does not have.
    IndexOutOfRange {
        /// The clique.
        clique: String,
        /// The node of the entry.
        node: String,
        /// The index.
        index: i64,
        /// The number of indices.
        max_nodes: usize,
    },
    /// A stored entry has an address that is none.
    InvalidAddress {
        /// The clique.
        clique: String,
        /// The node of the entry.
        node: String,
        /// The address.
        address: String,
    },
    /// Two pods of daemons of the domain run on one node.
    TwoDaemons {
        /// The node.
        node: String,
        /// The pod that has the entry.
        pod: String,
        /// The other pod.
        other: String,
    },
    /// The object has no entry for the node, so the daemon cannot publish that it is ready.
    NoEntry {
        /// The node.
        node: String,
    },
    /// The index of a daemon whose IMEX process runs has changed.
    IndexChanged {
        /// The node.
        node: String,
        /// The index with which the process runs.
        started: i64,
        /// The index of the entry.
        index: i64,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoClique { node } => write!(
                to,
                "CLIQUE_ID is empty: node {node} has no NVLink fabric, so the daemon starts no IMEX process; if it should have one, \
                 check the fabric manager of the node"
            ),
            Self::CliqueFull { clique, node, max_nodes } => write!(
                to,
                "clique {clique} has no free index for node {node}: it has {max_nodes} nodes already; delete the daemon pod of a node that \
                 needs no fabric"
            ),
            Self::IndexOutOfRange { clique, node, index, max_nodes } => write!(
                to,
                "the entry of node {node} in clique {clique} has index {index}, which is not from 0 to {}: delete the entry, and \
                 its daemon registers again",
                max_nodes.saturating_sub(1)
            ),
            Self::InvalidAddress { clique, node, address } => write!(
                to,
                "the entry of node {node} in clique {clique} has address {address:?}, which is no IP address: delete the entry, and \
                 its daemon registers again"
            ),
            Self::TwoDaemons { node, pod, other } => write!(
                to,
                "two daemon pods run on node {node}, which can have only one entry: {pod} and {other}; delete {other}"
            ),
            Self::NoEntry { node } => {
                write!(
                    to,
                    "there is no entry of node {node} yet, so its readiness cannot be published; the daemon retries"
                )
            }
            Self::IndexChanged { node, started, index } => write!(
                to,
                "the index of node {node} changed from {started} to {index} while IMEX was running; the daemon restarts IMEX"
            ),
        }
    }
}
