//! Queries about the cliques of a set or a scaling group, based on the status that pclq-controller writes.

use grove_api_types::deletion::is_terminating;
use grove_api_types::expansion::{Clique, TemplateHashes};
use grove_api_types::labels;
use grove_api_types::names::PodCliqueName;
use grove_api_types::v1alpha1::PodClique;
use grove_controller::children::ObservedChildren;
use kube::ResourceExt;

/// The clique of that name, if it exists and is not terminating.
pub(crate) fn active<'a>(children: &'a ObservedChildren, name: &PodCliqueName) -> Option<&'a PodClique> {
    let clique = children.get::<PodClique>(name.as_str())?;
    (!is_terminating(&**clique)).then_some(clique)
}

/// Whether at least `minAvailable` pods of the clique are ready.
pub(crate) fn is_available(clique: &PodClique) -> bool {
    clique.status.as_ref().map_or(0, |status| status.ready_replicas) >= clique.spec.required_replicas()
}

/// Whether the clique is active and reports that its update to the current template has ended.
pub(crate) fn is_updated(children: &ObservedChildren, hashes: &TemplateHashes, desired: &Clique) -> bool {
    active(children, &desired.name).is_some_and(|clique| is_current(clique, hashes, &desired.template.name))
}

/// Whether the clique is active and does not report that its update to the current template has ended. An update ends with old pods if the user
/// replaces them.
pub(crate) fn may_be_outdated(children: &ObservedChildren, hashes: &TemplateHashes, desired: &Clique) -> bool {
    active(children, &desired.name).is_some_and(|clique| !has_ended(clique, hashes, &desired.template.name))
}

/// Whether the clique reports pods of another template than its own.
pub(crate) fn has_other_pods(clique: &PodClique) -> bool {
    let reported = clique.status.as_ref().and_then(|status| status.current_pod_template_hash.as_ref());
    reported.is_some() && reported != clique.labels().get(labels::TEMPLATE_HASH)
}

/// Whether the clique has the current template of the name `template`, and reports that its update to it has ended and all pods are new.
pub(crate) fn is_current(clique: &PodClique, hashes: &TemplateHashes, template: &str) -> bool {
    let reported = clique.status.as_ref().and_then(|status| status.current_pod_template_hash.as_deref());
    has_ended(clique, hashes, template) && reported == Some(hashes.pod_template(template))
}

fn has_ended(clique: &PodClique, hashes: &TemplateHashes, template: &str) -> bool {
    let Some(status) = &clique.status else { return false };
    let (hash, generation) = (hashes.pod_template(template), hashes.generation_hash.as_str());
    let has_ended = match &status.update_progress {
        Some(progress) => {
            progress.pod_template_hash == hash
                && progress.pod_clique_set_generation_hash == generation
                && progress.update_ended_at.is_some()
        }
        // Before its first update. The pods may have the template already, and are replaced with those of the other cliques of a group.
        None => {
            status.current_pod_template_hash.as_deref() == Some(hash)
                && status.current_pod_clique_set_generation_hash.as_deref() == Some(generation)
        }
    };
    has_ended && clique.labels().get(labels::TEMPLATE_HASH).is_none_or(|of_clique| of_clique == hash)
}
