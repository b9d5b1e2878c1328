//! A `PodClique` of a template: a complete order for pclq-controller.

use std::collections::BTreeMap;

use grove_api_types::core::{PodClique, PodCliqueTemplateSpec};
use grove_api_types::labels;
use kube::Resource;

use super::{Revision, metadata};

/// The clique as it is created; `own` are the labels that its place in the set gives it. Of an existing one,
/// `spec.replicas` is its own.
pub(crate) fn pod_clique<Owner>(
    owner: &Owner,
    name: &str,
    template: &PodCliqueTemplateSpec,
    revision: &Revision,
    own: BTreeMap<String, String>,
) -> PodClique
where
    Owner: Resource<DynamicType = ()>,
{
    let mut labels = template.labels.clone();
    labels.extend(own);
    labels.extend(labels::of([(labels::NAME, name), (labels::TEMPLATE_HASH, revision.pod_template(&template.name))]));
    let mut annotations = template.annotations.clone();
    annotations.remove(labels::TOPOLOGY_NAME);
    annotations.insert(labels::GENERATION_HASH.to_owned(), revision.generation.clone());
    let mut metadata = metadata(owner, name, labels);
    metadata.annotations = Some(annotations);
    PodClique { metadata, spec: template.spec.clone(), status: None }
}
