//! Domains that lost the reference to their set. Pure.
//!
//! A client may have removed the reference; then the set gets its domain back. Or an orphan deletion removed it from the domain of an
//! earlier set of the same name; then the domain is no longer Grove's. The age decides: a set has no domain that is older than the set.

use grove_api_types::compute_domain::ComputeDomain;
use grove_api_types::deletion::is_terminating;
use grove_api_types::names::PodCliqueSetName;
use grove_api_types::ownership::is_adoptable;
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_api_types::{finalizers, labels, mnnvl};
use kube::ResourceExt;

/// Whether the domain was created for this set, and lost the reference to it.
pub(crate) fn belongs_to(domain: &ComputeDomain, set: &PodCliqueSet) -> bool {
    let base = labels::base(&PodCliqueSetName::new(set.name_any()));
    let has_labels = base.iter().all(|(key, value)| domain.labels().get(key) == Some(value));
    let is_younger = domain.metadata.creation_timestamp >= set.metadata.creation_timestamp;
    let is_required = || mnnvl::required_domain(set, &domain.name_any()).is_some();
    is_adoptable(&domain.metadata)
        && !is_terminating(set)
        && has_finalizer(domain)
        && has_labels
        && is_younger
        && is_required()
}

/// Whether the domain has Grove's finalizer.
pub(crate) fn has_finalizer(domain: &ComputeDomain) -> bool {
    domain.finalizers().iter().any(|finalizer| finalizer == finalizers::COMPUTE_DOMAIN)
}

#[cfg(test)]
mod tests {
    use grove_api_types::ownership::controller_owner_reference;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    fn at(second: i64) -> Option<Time> {
        Timestamp::from_second(second).ok().map(Time)
    }

    fn set() -> PodCliqueSet {
        let mut set: PodCliqueSet = serde_saphyr::from_str(
            "{metadata: {name: llm, namespace: prod, uid: u-set, annotations: {grove.io/auto-mnnvl: enabled}}, spec: {replicas: 1, \
             template: {cliques: []}}}",
        )
        .expect("a set");
        set.metadata.creation_timestamp = at(10);
        set
    }

    /// Whether the domain that Grove created for the set, and that lost its reference, belongs to it after this change.
    fn belongs(change: impl FnOnce(&mut ComputeDomain, &mut PodCliqueSet)) -> bool {
        let (mut domain, mut set) = (ComputeDomain::default(), set());
        domain.metadata.name = Some("llm-0".to_owned());
        domain.metadata.creation_timestamp = at(10);
        domain.metadata.finalizers = Some(vec![finalizers::COMPUTE_DOMAIN.to_owned()]);
        domain.metadata.labels = Some(labels::base(&PodCliqueSetName::new("llm")));
        change(&mut domain, &mut set);
        belongs_to(&domain, &set)
    }

    #[test]
    fn a_domain_that_lost_its_reference_belongs_to_a_set_that_is_not_younger() {
        assert!(belongs(|_, _| {}));
        assert!(!belongs(|_, set| set.metadata.creation_timestamp = at(11)), "the domain of an earlier set");
        assert!(!belongs(|_, set| set.metadata.deletion_timestamp = at(12)));
        assert!(!belongs(|_, set| set.spec.replicas = 0), "the set does not need it");
        assert!(!belongs(|domain, _| domain.metadata.deletion_timestamp = at(12)));
        assert!(!belongs(|domain, _| domain.metadata.finalizers = None), "a domain of a user");
        assert!(!belongs(|domain, _| domain.metadata.labels = None), "a domain of a user");
        assert!(!belongs(|domain, set| domain.metadata.owner_references = Some(controller_owner_reference(set))));
    }
}
