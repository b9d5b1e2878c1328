//! What both levels ask of the cliques they made, by what pclq-controller says of them.

use grove_api_types::deletion::is_terminating;
use grove_api_types::names::PodCliqueName;
use grove_api_types::v1alpha1::PodClique;

use super::ByName;
use super::Revision;

/// The clique of that name, unless it is missing or being deleted.
pub(crate) fn standing<'a>(cliques: &'a ByName<PodClique>, name: &PodCliqueName) -> Option<&'a PodClique> {
    let clique = cliques.get(name.as_str())?;
    (!is_terminating(&**clique)).then_some(clique)
}

/// Whether it has as many ready pods as it must have.
pub(crate) fn is_available(clique: &PodClique) -> bool {
    clique.status.as_ref().map_or(0, |status| status.ready_replicas) >= clique.spec.needed()
}

/// Whether it has pods that are made from another template. One that says nothing yet has none.
pub(crate) fn is_outdated(clique: &PodClique, revision: &Revision, template: &str) -> bool {
    reported_template(clique).is_some_and(|reported| reported != revision.pod_template(template))
}

/// Whether all its pods are made from the template that is named `template` in `revision`.
pub(crate) fn is_current(clique: &PodClique, revision: &Revision, template: &str) -> bool {
    reported_template(clique) == Some(revision.pod_template(template))
}

fn reported_template(clique: &PodClique) -> Option<&str> {
    clique.status.as_ref()?.current_pod_template_hash.as_deref()
}
