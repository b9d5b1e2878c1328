//! The objects that a domain needs, besides those of its cliques.

pub(crate) mod claim_template;
pub(crate) mod daemon_set;
