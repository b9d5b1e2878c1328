//! The compute domains that replicas of a set wait for before their first cliques and scaling groups are created. Pure.

use std::collections::BTreeMap;

use grove_api_types::compute_domain::CRD;
use grove_api_types::conditions::available;
use grove_api_types::text::join_names;
use grove_controller::plan::Waiting;

/// A message contains at most this many domains, and counts the others.
const MAX_NAMED: usize = 10;

/// A domain that pods cannot use yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AwaitedDomain {
    /// Its name.
    pub(crate) name: String,
    /// Why pods cannot use it.
    pub(crate) state: DomainState,
}

/// Why pods cannot use a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DomainState {
    /// It does not exist, and the API server does not serve the kind.
    NotServed,
    /// It does not exist.
    NotFound,
    /// The set does not control it.
    NotControlled,
    /// It is terminating.
    Terminating,
    /// It does not have Grove's finalizer.
    Unprotected,
}

/// The domains that each replica waits for. Other replicas have no entry.
#[derive(Clone, Debug, Default)]
pub(crate) struct AwaitedDomains {
    by_replica: BTreeMap<i32, Vec<AwaitedDomain>>,
}

impl FromIterator<(i32, Vec<AwaitedDomain>)> for AwaitedDomains {
    fn from_iter<I: IntoIterator<Item = (i32, Vec<AwaitedDomain>)>>(replicas: I) -> Self {
        Self { by_replica: replicas.into_iter().filter(|(_, domains)| !domains.is_empty()).collect() }
    }
}

impl AwaitedDomains {
    /// Why the cliques and scaling groups of this replica are not created yet.
    pub(crate) fn waiting(&self, replica: i32) -> Option<Waiting> {
        let list = list(self.by_replica.get(&replica)?);
        let message = format!("the pods of replica {replica} wait for its ComputeDomains: {list}");
        Some(Waiting::new(available::COMPUTE_DOMAINS_PENDING, message))
    }

    /// The same for all replicas together.
    pub(crate) fn waiting_of_set(&self) -> Option<Waiting> {
        let list = list(self.by_replica.values().flatten());
        let message = format!("the pods wait for ComputeDomains: {list}");
        (!self.by_replica.is_empty()).then(|| Waiting::new(available::COMPUTE_DOMAINS_PENDING, message))
    }
}

fn list<'a>(domains: impl IntoIterator<Item = &'a AwaitedDomain>) -> String {
    let domains = domains.into_iter().map(|AwaitedDomain { name, state }| match state {
        DomainState::NotServed => format!("{name} does not exist, because the API server does not serve {CRD}"),
        DomainState::NotFound => format!("{name} does not exist"),
        DomainState::NotControlled => format!("{name} exists and the set does not control it"),
        DomainState::Terminating => format!("{name} is being deleted"),
        DomainState::Unprotected => format!("{name} lacks the finalizer of Grove"),
    });
    join_names(&domains.collect::<Vec<_>>(), MAX_NAMED)
}
