//! Queries about the cliques of a set or a scaling group, based on the status that pclq-controller writes.

use grove_api_types::deletion::is_terminating;
use grove_api_types::expansion::{Clique, TemplateHashes};
use grove_api_types::names::PodCliqueName;
use grove_api_types::v1alpha1::PodClique;
use grove_controller::children::ObservedChildren;

/// The clique of that name, if it exists and is not terminating.
pub(crate) fn active<'a>(children: &'a ObservedChildren, name: &PodCliqueName) -> Option<&'a PodClique> {
    let clique = children.get::<PodClique>(name.as_str())?;
    (!is_terminating(&**clique)).then_some(clique)
}

/// Whether at least `minAvailable` pods of the clique are ready.
pub(crate) fn is_available(clique: &PodClique) -> bool {
    clique.status.as_ref().map_or(0, |status| status.ready_replicas) >= clique.spec.required_replicas()
}

/// Whether the active clique has pods of another template. A clique without status has no pods.
pub(crate) fn is_outdated(children: &ObservedChildren, hashes: &TemplateHashes, desired: &Clique) -> bool {
    let reported = active(children, &desired.name).and_then(reported_hash);
    reported.is_some_and(|reported| reported != hashes.pod_template(&desired.template.name))
}

/// Whether the clique is active and does not report that all its pods have the current template. Without a status, its pods are unknown.
pub(crate) fn may_be_outdated(children: &ObservedChildren, hashes: &TemplateHashes, desired: &Clique) -> bool {
    active(children, &desired.name).is_some_and(|clique| !is_current(clique, hashes, &desired.template.name))
}

/// Whether all pods of the clique were created from the current template of the name `template`.
pub(crate) fn is_current(clique: &PodClique, hashes: &TemplateHashes, template: &str) -> bool {
    reported_hash(clique) == Some(hashes.pod_template(template))
}

fn reported_hash(clique: &PodClique) -> Option<&str> {
    clique.status.as_ref()?.current_pod_template_hash.as_deref()
}
