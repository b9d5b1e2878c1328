//! The `PodClique`s of sets and of scaling groups: the desired object, its patch, and the permissions.

use std::collections::BTreeMap;

use grove_api_types::expansion::{Clique, TemplateHashes};
use grove_api_types::names::ComputeDomainName;
use grove_api_types::resource_sharing::clique_claims::CliqueClaims;
use grove_api_types::rolling_update::UpdateBounds;
use grove_api_types::v1alpha1::PodClique;
use grove_api_types::{labels, mnnvl};
use grove_controller::plan::Step;
use grove_runtime::rbac::{PolicyRule, Verb};
use kube::{Resource, ResourceExt};

use super::metadata;
use crate::children::drift::{self, difference};

/// The permissions on cliques.
pub(crate) fn rules() -> Vec<PolicyRule> {
    let reason = "create, patch and delete the cliques of each replica and of its scaling groups";
    vec![PolicyRule::for_resource::<PodClique>(&Verb::MANAGE, reason)]
}

/// The clique, whose pods belong to this `PodGroup` of the workload API and have this affinity, or are scheduled individually.
pub(crate) fn with_pod_group(
    mut clique: PodClique,
    pod_group: Option<&str>,
    affinities: &BTreeMap<String, String>,
) -> PodClique {
    let Some(name) = pod_group else { return clique };
    let affinity = affinities.get(&clique.name_any()).map(|affinity| (labels::PACK_AFFINITY, affinity.as_str()));
    let own = [(labels::POD_GROUP, name)].into_iter().chain(affinity);
    clique.annotations_mut().extend(labels::of(own));
    clique
}

/// The clique, whose pods get the claim of this compute domain. The claim is not part of the hash of the template.
pub(crate) fn with_compute_domain(mut clique: PodClique, domain: Option<&ComputeDomainName>) -> PodClique {
    if let Some(domain) = domain {
        mnnvl::inject_claim(&mut clique.spec.pod_spec, domain);
    }
    clique
}

/// The clique of the pods that use these claims. They are not part of the hash of the template, because they differ between replicas.
pub(crate) fn with_resource_claims(mut clique: PodClique, claims: Option<&CliqueClaims>) -> PodClique {
    if let Some(claims) = claims {
        clique.annotations_mut().insert(labels::RESOURCE_CLAIMS.to_owned(), claims.annotation());
    }
    clique
}

/// The patch of a clique. `replicas` is only set at the creation; afterwards it belongs to autoscalers and users.
pub(crate) fn patch(live: &PodClique, mut desired: PodClique) -> Option<Step> {
    desired.spec.replicas = live.spec.replicas;
    drift::retain_equal_values(live.annotations(), desired.annotations_mut());
    drift::patch(live, &desired, difference(live, &desired, |clique| &clique.spec))
}

/// Annotations that only Grove sets, so that those of a template have no effect.
const OF_GROVE: [&str; 8] = [
    labels::TOPOLOGY_NAME,
    labels::POD_GROUP,
    labels::PACK_AFFINITY,
    labels::RESOURCE_CLAIMS,
    labels::FIRST_GROUP_POD_INDEX,
    labels::FIRST_SET_POD,
    labels::UPDATE_TURN,
    labels::UPDATE_BOUNDS,
];

/// The desired clique, which contains everything that pclq-controller needs. `own` are the labels of its position in the set.
/// `spec.replicas` applies only to its creation.
pub(crate) fn pod_clique<Owner>(
    owner: &Owner,
    clique: &Clique,
    hashes: &TemplateHashes,
    own: BTreeMap<String, String>,
) -> PodClique
where
    Owner: Resource<DynamicType = ()>,
{
    let (name, template) = (clique.name.as_str(), &clique.template);
    let mut labels = template.labels.clone();
    labels.extend(own);
    labels.extend(labels::of([(labels::NAME, name), (labels::TEMPLATE_HASH, hashes.pod_template(&template.name))]));
    let mut annotations = template.annotations.clone();
    for key in OF_GROVE {
        annotations.remove(key);
    }
    annotations.insert(labels::GENERATION_HASH.to_owned(), hashes.generation_hash.clone());
    let mut metadata = metadata(owner, name, labels);
    metadata.annotations = Some(annotations);
    let mut spec = template.spec.clone();
    spec.min_available = Some(clique.min_available);
    if let Some(scale) = &mut spec.auto_scaling_config {
        scale.min_replicas = clique.min_replicas;
    }
    spec.replicas = clique.replicas;
    spec.starts_after = clique.starts_after.iter().map(ToString::to_string).collect();
    PodClique { metadata, spec, status: None }
}

/// The clique whose outdated pods pclq-controller replaces within these bounds.
pub(crate) fn with_update_turn(mut clique: PodClique, bounds: &UpdateBounds) -> PodClique {
    let hash = clique.annotations().get(labels::GENERATION_HASH).cloned();
    let turn = hash.map(|hash| (labels::UPDATE_TURN.to_owned(), hash));
    let bounds = bounds.annotation().map(|bounds| (labels::UPDATE_BOUNDS.to_owned(), bounds));
    clique.annotations_mut().extend(turn.into_iter().chain(bounds));
    clique
}

/// The clique with the annotations from which pclq-controller labels the pods that autoscalers count.
pub(crate) fn with_first_pods(
    mut pod_clique: PodClique,
    represents_set_replica: bool,
    first_group_pod_index: Option<i32>,
) -> PodClique {
    let of_set = represents_set_replica.then(|| (labels::FIRST_SET_POD, labels::IS_FIRST_SET_POD.to_owned()));
    let of_group = first_group_pod_index.map(|index| (labels::FIRST_GROUP_POD_INDEX, index.to_string()));
    let own = of_set.into_iter().chain(of_group).map(|(key, value)| (key.to_owned(), value));
    pod_clique.metadata.annotations.get_or_insert_default().extend(own);
    pod_clique
}
