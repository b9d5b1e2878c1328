//! The snapshot of a set and its domains: plain data and pure queries.

use std::collections::BTreeMap;

use grove_api_types::compute_domain::{CRD, ComputeDomain};
use grove_api_types::conditions::compute_domains_created;
use grove_api_types::deletion::is_terminating;
use grove_api_types::expansion::CurrentScale;
use grove_api_types::expansion::size_limit::SizeLimit;
use grove_api_types::mnnvl;
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_controller::children::ObservedChildren;
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::expectations::PendingCreates;
use grove_controller::name_conflict::{NameConflict, NameConflicts};
use grove_controller::plan::Waiting;
use grove_runtime::caches::Availability;

use crate::set_owner::SetExpansion;

/// A set and its domains, as in the caches.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    /// The set, with Grove's defaults applied.
    pub(crate) set: PodCliqueSet,
    /// Whether the API server lists domains.
    pub(crate) availability: Availability,
    /// The domains that the set controls, and those that lost the reference to it.
    pub(crate) children: ObservedChildren,
    /// The other objects that have the name of a domain of the set, and its domains that could not be decoded.
    pub(crate) name_conflicts: Vec<NameConflict>,
    /// The domains that the API server rejected. They are not created before their backoff ends.
    pub(crate) backed_off: BackedOffCreates,
    /// The domains that were created and that the cache does not have yet.
    pub(crate) pending_creates: PendingCreates,
    /// The UID of its namespace; `None` if the cache does not have it.
    pub(crate) namespace_uid: Option<String>,
    /// Whether its namespace is terminating. Then nothing is created, and no create waits for its retry.
    pub(crate) is_namespace_terminating: bool,
}

impl Observed {
    /// Whether the set has a deletion timestamp.
    pub(crate) fn is_terminating(&self) -> bool {
        is_terminating(&self.set)
    }

    /// Whether the set exceeds a limit by its template. pcs-controller does not expand it either, and reports the limit.
    pub(crate) fn is_too_large(&self) -> bool {
        SizeLimit::may_be_exceeded(&self.set, 0, 0)
            && SizeLimit::exceeded(&self.set, &CurrentScale::default()).is_some()
    }

    /// Whether the set uses domains at any scale.
    pub(crate) fn uses_domains(&self) -> bool {
        !mnnvl::required_domains_of_replica(&self.set, 0).is_empty()
    }

    /// What the set expands to. Do not call it if the set [is too large](Self::is_too_large).
    pub(crate) fn expand(&self) -> SetExpansion<'_> {
        let domains = mnnvl::required_domains(&self.set).collect();
        SetExpansion {
            set: &self.set,
            domains,
            namespace_uid: self.namespace_uid.clone(),
            unavailable: self.unavailable(),
        }
    }

    /// Why no domain can be created.
    fn unavailable(&self) -> Option<Waiting> {
        match self.availability {
            Availability::Served if self.namespace_uid.is_none() => Some(Waiting::new(
                compute_domains_created::COMPUTE_DOMAINS_MISSING,
                "mnnvl-controller has not observed the namespace yet; if this lasts, apply its rules in deploy/base, which allow it to \
                 list and watch namespaces",
            )),
            Availability::Served => None,
            Availability::NotServed => Some(Waiting::new(
                compute_domains_created::COMPUTE_DOMAINS_NOT_SERVED,
                format!("the API server does not serve {CRD}; install NVIDIA's DRA driver with this CRD"),
            )),
            Availability::Forbidden => Some(Waiting::new(
                compute_domains_created::COMPUTE_DOMAINS_FORBIDDEN,
                format!("mnnvl-controller must not read {CRD}; apply its rules in deploy/base"),
            )),
        }
    }

    /// The domain of this name, if it exists.
    pub(crate) fn domain(&self, name: &str) -> Option<&ComputeDomain> {
        self.children.get::<ComputeDomain>(name).map(AsRef::as_ref)
    }

    /// The name conflicts. An object that the set does not control is never adopted.
    pub(crate) fn conflicts<'a>(&'a self, no_labels: &'a BTreeMap<String, String>) -> NameConflicts<'a, PodCliqueSet> {
        NameConflicts { owner: &self.set, conflicts: &self.name_conflicts, labels: no_labels }
    }
}
