//! The `PodClique` of one standalone clique in one replica.

use grove_api_types::expansion::{Clique, SetReplica};
use grove_api_types::labels::{self, Component};
use grove_api_types::names::PodCliqueSetName;
use grove_api_types::resource_sharing::clique_claims::CliqueClaims;
use grove_api_types::rolling_update::UpdateBounds;
use grove_api_types::v1alpha1::PodClique;
use grove_api_types::{events, mnnvl};
use grove_controller::children::{ChildEvents, ChildKind, DesiredChild};
use grove_controller::plan::Step;
use grove_runtime::caches::Delta;
use grove_runtime::rbac::PolicyRule;
use kube::ResourceExt;

use crate::children::desired::{self, pod_clique};
use crate::set::observed::{SetExpansion, SetOwner};
use crate::update;

/// The cliques outside of scaling groups.
pub(crate) struct PodCliques;

impl ChildKind for PodCliques {
    type Owner = SetOwner;
    type Object = PodClique;

    const STAGE: &'static str = "cliques";
    const EVENTS: ChildEvents = ChildEvents {
        created_or_updated: Some(events::POD_CLIQUE_CREATE_OR_UPDATE_SUCCESSFUL),
        create_or_update_failed: events::POD_CLIQUE_CREATE_OR_UPDATE_FAILED,
        deleted: Some((events::POD_CLIQUE_DELETE_SUCCESSFUL, events::POD_CLIQUE_DELETE_FAILED)),
    };

    fn rules() -> Vec<PolicyRule> {
        pod_clique::rules()
    }

    fn desired<'r, 'a: 'r>(
        expansion: &'r SetExpansion<'a>,
    ) -> impl Iterator<Item = DesiredChild<'r, impl FnOnce() -> PodClique>> {
        expansion.replicas.iter().flat_map(move |replica| {
            replica.cliques.iter().map(move |clique| {
                let build = move || clique_of_replica(expansion, replica, clique);
                let desired = DesiredChild::new(clique.name.as_str(), build).in_failure_domain(replica.index);
                let desired = expansion.turns.apply_to(replica.index, desired);
                let gang = replica.base_gang.as_str();
                let conflict = expansion.identity_conflict.as_ref().filter(|_| !clique.starts_after.is_empty());
                if let Some(waiting) = expansion.awaited_domains.waiting(replica.index) {
                    desired.blocked_by(|| waiting)
                } else if let Some(waiting) = conflict {
                    desired.blocked_by(|| waiting.clone())
                } else if let Some(waiting) = expansion.gang_decisions.pending(gang) {
                    desired.blocked_by(|| waiting)
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

fn clique_of_replica(expansion: &SetExpansion<'_>, replica: &SetReplica, clique: &Clique) -> PodClique {
    let (set, index) = (expansion.set, replica.index.to_string());
    let own = [(labels::SET_REPLICA, index.as_str()), (labels::POD_GANG, replica.base_gang.as_str())];
    let own = desired::labels(&PodCliqueSetName::new(set.name_any()), Component::SetPodClique, own);
    let pod_clique = pod_clique::pod_clique(set, clique, replica.revision.hashes(), own);
    let is_first = replica.revision.represents_set_replica(&clique.template, None);
    let pod_clique = pod_clique::with_first_pods(pod_clique, is_first, None);
    let domain = mnnvl::domain_of_clique(set, replica.index, None, &clique.template);
    let pod_clique = pod_clique::with_compute_domain(pod_clique, domain.as_ref());
    let claims = CliqueClaims::of_clique(set, replica.index, None, &clique.template);
    let pod_clique = pod_clique::with_resource_claims(pod_clique, claims.as_ref());
    let pod_group = expansion.gang_decisions.of_cliques(replica.base_gang.as_str());
    let pod_clique = pod_clique::with_pod_group(pod_clique, pod_group, expansion.pack_affinities);
    if !expansion.turns.given.contains(&replica.index) {
        return pod_clique;
    }
    pod_clique::with_update_turn(pod_clique, &UpdateBounds::new(set, clique.template.rolling_update.as_ref()))
}
