//! Reads earlier templates of a set: the caches have only the names and numbers of revisions, because templates may be large.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use grove_api_types::admission::default;
use grove_api_types::expansion::Revision;
use grove_api_types::names::{PodCliqueSetName, RevisionName};
use grove_api_types::ownership::is_controlled_by;
use grove_api_types::v1alpha1::{PodCliqueSet, PodCliqueSetTemplateSpec};
use grove_controller::reconcile_error::ReconcileError;
use grove_runtime::client::{REQUEST_TIMEOUT, with_timeout};
use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::{Api, Client, ResourceExt};

use super::revisions::template_of;

/// The revisions of the set with these generation hashes: `current` with the pods of each of them. A revision that does not exist is missing.
///
/// # Errors
/// The error of a request.
pub(crate) async fn read_revisions(
    client: &Client,
    set: &PodCliqueSet,
    current: &Revision,
    hashes: BTreeSet<&str>,
) -> Result<BTreeMap<String, Arc<Revision>>, ReconcileError> {
    let revisions = Api::<ControllerRevision>::namespaced(client.clone(), &set.namespace().unwrap_or_default());
    let mut read = BTreeMap::new();
    for hash in hashes {
        let name = RevisionName::of_set(&PodCliqueSetName::new(set.name_any()), hash);
        let found = with_timeout(REQUEST_TIMEOUT, revisions.get_opt(name.as_str())).await;
        let found = found.map_err(|error| ReconcileError::read(name.to_string(), &error))?;
        if let Some(template) = found.filter(|found| is_controlled_by(found, set)).and_then(|it| template_of(&it)) {
            let earlier = with_defaults(set, template);
            let revision = current.with_pods_of(&earlier);
            // A user may have created it again with other content.
            if revision.hashes().generation_hash == hash {
                read.insert(hash.to_owned(), Arc::new(revision));
            }
        }
    }
    Ok(read)
}

/// Another version of Grove may have stored it with fewer defaults.
fn with_defaults(set: &PodCliqueSet, template: PodCliqueSetTemplateSpec) -> PodCliqueSetTemplateSpec {
    let mut set = set.clone();
    set.spec.template = template;
    default::pod_clique_set(&set).spec.template
}
