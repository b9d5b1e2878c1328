//! The `PodClique` of one clique in one replica: a complete order for pclq-controller.

use grove_api_types::core::{PodClique, PodCliqueSet};
use grove_api_types::shape::{Clique, SetReplica};
use grove_api_types::{
    hash,
    labels::{self, Component},
};

use super::{child_labels, metadata};

/// The clique as it is created. Of an existing one, `spec.replicas` is its own.
pub(crate) fn pod_clique(set: &PodCliqueSet, replica: &SetReplica<'_>, clique: &Clique<'_>) -> PodClique {
    let template = clique.template;
    let index = replica.index.to_string();
    let template_hash = hash::pod_template(template, &set.spec.template.priority_class_name);
    let own = [
        (labels::NAME, clique.name.as_str()),
        (labels::SET_REPLICA, &index),
        (labels::POD_GANG, replica.base_gang.as_str()),
        (labels::TEMPLATE_HASH, &template_hash),
    ];
    let mut labels = template.labels.clone();
    labels.extend(child_labels(set, Component::SetPodClique, own));
    let mut annotations = template.annotations.clone();
    annotations.remove(labels::TOPOLOGY_NAME);
    annotations.insert(labels::GENERATION_HASH.to_owned(), hash::generation(&set.spec.template));
    let mut metadata = metadata(set, clique.name.as_str(), labels);
    metadata.annotations = Some(annotations);
    PodClique { metadata, spec: template.spec.clone(), status: None }
}
