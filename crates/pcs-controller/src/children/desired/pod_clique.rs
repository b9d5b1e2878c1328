//! The `PodClique`s of sets and of scaling groups: the desired object, its patch, and the permissions.

use std::collections::BTreeMap;

use grove_api_types::expansion::Clique;
use grove_api_types::labels;
use grove_api_types::v1alpha1::PodClique;
use grove_controller::plan::Step;
use grove_runtime::rbac::{PolicyRule, Verb};
use kube::Resource;

use super::metadata;
use crate::children::drift::{self, difference};
use crate::children::{RetainedMinima, TemplateHashes};

/// The permissions on cliques.
pub(crate) fn rules() -> Vec<PolicyRule> {
    let reason = "create, patch and delete the cliques of each replica and of its scaling groups";
    vec![PolicyRule::for_resource::<PodClique>(&Verb::MANAGE, reason)]
}

/// The patch of a clique. `replicas` is only set at the creation; afterwards it belongs to autoscalers and users.
pub(crate) fn patch(live: &PodClique, mut desired: PodClique) -> Option<Step> {
    desired.spec.replicas = live.spec.replicas;
    drift::patch(live, &desired, difference(live, &desired, |clique| &clique.spec))
}

/// The desired clique, which contains everything that pclq-controller needs. `own` are the labels of its position in the set.
/// `spec.replicas` applies only to its creation.
pub(crate) fn pod_clique<Owner>(
    owner: &Owner,
    clique: &Clique<'_>,
    hashes: &TemplateHashes,
    minima: &RetainedMinima,
    own: BTreeMap<String, String>,
) -> PodClique
where
    Owner: Resource<DynamicType = ()>,
{
    let (name, template) = (clique.name.as_str(), clique.template);
    let mut labels = template.labels.clone();
    labels.extend(own);
    labels.extend(labels::of([(labels::NAME, name), (labels::TEMPLATE_HASH, hashes.pod_template(&template.name))]));
    let mut annotations = template.annotations.clone();
    annotations.remove(labels::TOPOLOGY_NAME);
    annotations.insert(labels::GENERATION_HASH.to_owned(), hashes.generation_hash.clone());
    let mut metadata = metadata(owner, name, labels);
    metadata.annotations = Some(annotations);
    let mut spec = minima.spec(clique);
    spec.starts_after = clique.starts_after.iter().map(ToString::to_string).collect();
    PodClique { metadata, spec, status: None }
}
