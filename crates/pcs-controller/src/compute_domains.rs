//! The compute domains of sets. mnnvl-controller creates them; the first cliques and scaling groups of a replica wait for them: the informer
//! and the triggers (`informers`), and what a replica waits for (`observed`).

mod informers;
mod observed;

pub(crate) use informers::{ComputeDomains, rules};
#[cfg(test)]
pub(crate) use observed::DomainState;
pub(crate) use observed::{AwaitedDomain, AwaitedDomains};
