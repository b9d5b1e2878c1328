//! The `PodClique` of one clique in one replica of a scaling group.

use grove_api_types::conditions::available;
use grove_api_types::environment::{self, PCSG_INDEX, PCSG_NAME, PCSG_POD_INDEX, PCSG_TEMPLATE_NUM_PODS};
use grove_api_types::expansion::{Clique, GroupReplica, ScalingGroup};
use grove_api_types::labels::{self, Component};
use grove_api_types::names::{PodCliqueSetName, PodGangName};
use grove_api_types::resource_sharing::clique_claims::CliqueClaims;
use grove_api_types::rolling_update::UpdateBounds;
use grove_api_types::v1alpha1::PodClique;
use grove_api_types::{events, mnnvl};
use grove_controller::children::{ChildEvents, ChildKind, DesiredChild};
use grove_controller::plan::{Step, Waiting};
use grove_runtime::caches::Delta;
use grove_runtime::rbac::PolicyRule;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::children::desired::{self, pod_clique};
use crate::scaling_group::observed::{GroupExpansion, GroupOwner, PodSpecs};
use crate::scaling_group::recorded_scale;
use crate::update;

/// The cliques of all replicas of a scaling group.
pub(crate) struct PodCliques;

impl ChildKind for PodCliques {
    type Owner = GroupOwner;
    type Object = PodClique;

    const STAGE: &'static str = "cliques";
    const EVENTS: ChildEvents = ChildEvents {
        created_or_updated: Some(events::POD_CLIQUE_CREATE_SUCCESSFUL),
        create_or_update_failed: events::POD_CLIQUE_CREATE_FAILED,
        deleted: Some((events::POD_CLIQUE_DELETE_SUCCESSFUL, events::POD_CLIQUE_DELETE_FAILED)),
    };

    fn rules() -> Vec<PolicyRule> {
        pod_clique::rules()
    }

    /// A clique is created once its gang exists, and names the `PodGroup` that the set has decided. While the scale of deleted cliques is
    /// unreadable, none is created.
    fn desired<'r, 'a: 'r>(
        expansion: &'r GroupExpansion<'a>,
    ) -> impl Iterator<Item = DesiredChild<'r, impl FnOnce() -> PodClique>> {
        let unreadable_scale = recorded_scale::unreadable(expansion.group);
        expansion.scaling_group.replicas.iter().flat_map(move |replica| {
            let unreadable_scale = unreadable_scale.clone();
            replica.cliques.iter().map(move |clique| {
                let build = move || clique_of_replica(expansion, replica, clique);
                let desired = DesiredChild::new(clique.name.as_str(), build).in_failure_domain(replica.index);
                let desired = expansion.turns.apply_to(replica.index, desired);
                let conflict = expansion.identity_conflict.filter(|_| !clique.starts_after.is_empty());
                let has_gang = expansion.active_gangs.contains(replica.gang.as_str());
                if let Some(waiting) = expansion.awaited_domains.waiting(expansion.set_replica.index) {
                    desired.blocked_by(|| waiting)
                } else if let Some(waiting) = conflict {
                    desired.blocked_by(|| waiting.clone())
                } else if !has_gang {
                    desired.blocked_by(|| gang_not_found(&replica.gang))
                } else if let Some(waiting) = unreadable_scale.clone() {
                    desired.blocked_by(|| waiting)
                } else if let Some(waiting) = expansion.undecided_gangs.get(replica.gang.as_str()) {
                    desired.blocked_by(|| waiting.clone())
                } else {
                    desired
                }
            })
        })
    }

    fn patch(live: &PodClique, desired: PodClique) -> Option<Step> {
        pod_clique::patch(live, desired)
    }

    fn needs_reconcile(delta: &Delta<Self::Object>) -> bool {
        update::child_needs_reconcile(delta, PodClique::is_updating)
    }
}

fn gang_not_found(gang: &PodGangName) -> Waiting {
    Waiting::new(available::POD_GANG_NOT_FOUND, format!("PodGang {gang} does not exist"))
}

fn clique_of_replica(expansion: &GroupExpansion<'_>, replica: &GroupReplica, clique: &Clique) -> PodClique {
    let GroupExpansion { group, set, set_replica, scaling_group, .. } = expansion;
    let (set_index, index) = (set_replica.index.to_string(), replica.index.to_string());
    let own = [
        (labels::SET_REPLICA, set_index.as_str()),
        (labels::SCALING_GROUP, scaling_group.name.as_str()),
        (labels::SCALING_GROUP_REPLICA, index.as_str()),
        (labels::POD_GANG, replica.gang.as_str()),
    ];
    let own = own.into_iter().chain(replica.base_gang.iter().map(|base| (labels::BASE_POD_GANG, base.as_str())));
    let own = desired::labels(&PodCliqueSetName::new(set.name_any()), Component::GroupPodClique, own);
    let pod_clique = pod_clique::pod_clique(*group, clique, replica.revision.hashes(), own);
    let is_first = replica.revision.represents_set_replica(&clique.template, Some(replica.index));
    let pod_clique = pod_clique::with_first_pods(pod_clique, is_first, Some(replica.first_pod_index(&clique.name)));
    let of_group = Some((&*scaling_group.config, replica.index));
    let claims = CliqueClaims::of_clique(set, set_replica.index, of_group, &clique.template);
    let pod_clique = pod_clique::with_resource_claims(pod_clique, claims.as_ref());
    let pod_group = expansion.pod_group_names.get(clique.name.as_str()).map(String::as_str);
    let mut pod_clique = pod_clique::with_pod_group(pod_clique, pod_group, expansion.pack_affinities);
    let pod_specs = expansion.pod_specs.get_or_init(|| pod_specs(expansion));
    let of_revision = pod_specs.get(&replica.revision.hashes().generation_hash);
    if let Some(pod_spec) = of_revision.and_then(|of_revision| of_revision.get(&clique.template.name)) {
        pod_clique.spec.pod_spec = pod_spec.clone();
    }
    if !expansion.turns.given.contains(&replica.index) {
        return pod_clique;
    }
    pod_clique::with_update_turn(pod_clique, &UpdateBounds::new(set, None))
}

/// The pod specs of the cliques, by the hashes of the revisions and the names of the templates: with the claim of the compute domain, and with the
/// environment variables of the group. They are the same in all replicas of a revision.
fn pod_specs(expansion: &GroupExpansion<'_>) -> PodSpecs {
    let GroupExpansion { set, set_replica, scaling_group, .. } = expansion;
    let variables = variables(scaling_group);
    let pod_spec = |clique: &Clique| {
        let mut pod_spec = clique.template.spec.pod_spec.clone();
        let domain = mnnvl::domain_of_clique(set, set_replica.index, Some(&scaling_group.config), &clique.template);
        if let Some(domain) = domain {
            mnnvl::inject_claim(&mut pod_spec, &domain);
        }
        pod_spec.edit(|fields| environment::prepend(fields, &variables));
        (clique.template.name.clone(), pod_spec)
    };
    let mut pod_specs = PodSpecs::new();
    for replica in &scaling_group.replicas {
        let hash = &replica.revision.hashes().generation_hash;
        if !pod_specs.contains_key(hash) {
            pod_specs.insert(hash.clone(), replica.cliques.iter().map(pod_spec).collect());
        }
    }
    pod_specs
}

/// The environment variables of every container of the group. Three of them read the labels of the pod.
fn variables(group: &ScalingGroup) -> [Value; 4] {
    let label = |name: &str, key: &str| {
        let path = format!("metadata.labels['{key}']");
        json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } })
    };
    [
        label(PCSG_NAME, labels::SCALING_GROUP),
        json!({ "name": PCSG_TEMPLATE_NUM_PODS, "value": group.template_pods.to_string() }),
        label(PCSG_INDEX, labels::SCALING_GROUP_REPLICA),
        label(PCSG_POD_INDEX, labels::GROUP_POD_INDEX),
    ]
}
