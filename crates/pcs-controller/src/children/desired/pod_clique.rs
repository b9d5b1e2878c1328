//! A `PodClique` of a template. It contains everything that pclq-controller needs.

use std::collections::BTreeMap;

use grove_api_types::expansion::Clique;
use grove_api_types::labels;
use grove_api_types::v1alpha1::PodClique;
use kube::Resource;

use super::metadata;
use crate::children::Revision;

/// The desired clique; `own` are the labels of its position in the set. `spec.replicas` applies only to its creation.
pub(crate) fn pod_clique<Owner>(
    owner: &Owner,
    clique: &Clique<'_>,
    revision: &Revision,
    own: BTreeMap<String, String>,
) -> PodClique
where
    Owner: Resource<DynamicType = ()>,
{
    let (name, template) = (clique.name.as_str(), clique.template);
    let mut labels = template.labels.clone();
    labels.extend(own);
    labels.extend(labels::of([(labels::NAME, name), (labels::TEMPLATE_HASH, revision.pod_template(&template.name))]));
    let mut annotations = template.annotations.clone();
    annotations.remove(labels::TOPOLOGY_NAME);
    annotations.insert(labels::GENERATION_HASH.to_owned(), revision.generation.clone());
    let mut metadata = metadata(owner, name, labels);
    metadata.annotations = Some(annotations);
    let mut spec = template.spec.clone();
    spec.starts_after = clique.starts_after.iter().map(ToString::to_string).collect();
    PodClique { metadata, spec, status: None }
}
