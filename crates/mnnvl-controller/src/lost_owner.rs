//! Domains without a reference to their set. Pure.
//!
//! A client may have removed the reference, or an orphan deletion of an earlier set of the same name. In both cases a set of this name that
//! needs the domain gets it: its pods, and those that the earlier set left, use the same fabric.

use grove_api_types::compute_domain::ComputeDomain;
use grove_api_types::deletion::is_terminating;
use grove_api_types::names::PodCliqueSetName;
use grove_api_types::ownership::is_adoptable;
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_api_types::{finalizers, labels, mnnvl};
use kube::ResourceExt;

/// Whether the domain was created for a set of this name, and has no reference to one.
pub(crate) fn belongs_to(domain: &ComputeDomain, set: &PodCliqueSet) -> bool {
    let is_required = || mnnvl::required_domain(set, &domain.name_any()).is_some();
    is_adoptable(&domain.metadata)
        && !is_terminating(set)
        && has_finalizer(domain)
        && labelled_set(domain) == Some(set.name_any().as_str())
        && is_required()
}

/// The name of the set in the labels of a domain that has all labels by which Grove's objects are found.
pub(crate) fn labelled_set(domain: &ComputeDomain) -> Option<&str> {
    let set = domain.labels().get(labels::PART_OF)?;
    let base = labels::base(&PodCliqueSetName::new(set.clone()));
    base.iter().all(|(key, value)| domain.labels().get(key) == Some(value)).then_some(set)
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
        serde_saphyr::from_str(
            "{metadata: {name: llm, namespace: prod, uid: u-set, annotations: {grove.io/auto-mnnvl: enabled}}, spec: {replicas: 1, \
             template: {cliques: []}}}",
        )
        .expect("a set")
    }

    /// Whether the domain that Grove created for the set, and that lost its reference, belongs to it after this change.
    fn belongs(change: impl FnOnce(&mut ComputeDomain, &mut PodCliqueSet)) -> bool {
        let (mut domain, mut set) = (ComputeDomain::default(), set());
        domain.metadata.name = Some("llm-0".to_owned());
        domain.metadata.finalizers = Some(vec![finalizers::COMPUTE_DOMAIN.to_owned()]);
        domain.metadata.labels = Some(labels::base(&PodCliqueSetName::new("llm")));
        change(&mut domain, &mut set);
        belongs_to(&domain, &set)
    }

    #[test]
    fn a_domain_without_reference_belongs_to_the_set_of_its_labels_that_needs_it() {
        assert!(belongs(|_, _| {}));
        assert!(!belongs(|_, set| set.metadata.deletion_timestamp = at(12)));
        assert!(!belongs(|_, set| set.spec.replicas = 0), "the set does not need it");
        assert!(!belongs(|domain, _| domain.metadata.deletion_timestamp = at(12)));
        assert!(!belongs(|domain, _| domain.metadata.finalizers = None), "a domain of a user");
        assert!(!belongs(|domain, _| domain.metadata.labels = None), "a domain of a user");
        assert!(!belongs(|domain, set| domain.metadata.owner_references = Some(controller_owner_reference(set))));
    }
}
