//! The watch events about the sets, scaling groups, cliques, claims and pods of a namespace, and the rule about the lifetime of claims, which
//! holds after each of them.

use std::collections::{BTreeMap, BTreeSet};

use grove_api_types::deletion::{is_terminating, orphans_dependents};
use grove_api_types::labels::{PART_OF, POD_INDEX, SCALING_GROUP, SCALING_GROUP_REPLICA, SET_REPLICA};
use grove_api_types::ownership::controller_of;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::{Resource, ResourceExt};

use super::{claim_names, devices, is_shared};
use crate::namespace::Namespace;
use crate::watch_history::{Change, WatchHistory, replace};

/// A created, changed or deleted object.
#[derive(Clone)]
enum Object {
    Set(Box<PodCliqueSet>),
    Group(Box<PodCliqueScalingGroup>),
    Clique(Box<PodClique>),
    Claim(Box<ResourceClaim>),
    Pod(Box<Pod>),
}

/// Records the events of a namespace until the value is dropped.
pub struct ClaimHistory(WatchHistory<Object>);

impl ClaimHistory {
    /// Starts to record.
    pub async fn start(ns: &Namespace) -> Self {
        let history = WatchHistory::default().record(ns, Object::Set).await.record(ns, Object::Group).await;
        let history = history.record(ns, Object::Clique).await.record(ns, Object::Claim).await;
        Self(history.record(ns, Object::Pod).await)
    }

    /// Checks the rule after each event, and returns the names of the deleted claims.
    ///
    /// # Panics
    /// - If a claim was deleted while a pod with the claim existed, also a terminating one.
    /// - If a claim became terminating while its replica or index was desired, and its owner was active.
    /// - If a pod was created with a claim that did not exist or was terminating, or with the claim of an earlier owner.
    /// - If no pod had a claim.
    ///
    /// The check ignores a pod that was created after the deletion of its `PodClique`, for example by a delayed request. The API server accepts
    /// the create, and the garbage collector deletes the pod.
    pub async fn check(&self) -> BTreeSet<String> {
        let mut state = State::default();
        for change in self.0.changes().await {
            state.apply(change);
        }
        assert!(state.references > 0, "no pod had a claim");
        state.deleted
    }

    /// How often each claim was allocated, by its UID.
    pub async fn allocations(&self) -> BTreeMap<String, usize> {
        let (mut allocated, mut counts) = (BTreeSet::new(), BTreeMap::new());
        for Change { object, .. } in self.0.changes().await {
            let Object::Claim(claim) = object else { continue };
            let Some(uid) = claim.uid() else { continue };
            if devices(&claim).is_empty() {
                allocated.remove(&uid);
            } else if allocated.insert(uid.clone()) {
                *counts.entry(uid).or_default() += 1;
            }
        }
        counts
    }
}

#[derive(Default)]
struct State {
    sets: BTreeMap<String, PodCliqueSet>,
    groups: BTreeMap<String, PodCliqueScalingGroup>,
    cliques: BTreeMap<String, PodClique>,
    claims: BTreeMap<String, ResourceClaim>,
    pods: BTreeMap<String, Pod>,
    /// The UIDs of pods that were created after the deletion of their `PodClique`.
    pods_of_deleted_cliques: BTreeSet<String>,
    /// The UIDs of claims that at some time had an owner that was not active, or no desired replica or index. No later pod uses them.
    retired: BTreeSet<String>,
    /// The names of deleted claims, also of terminating ones.
    deleted: BTreeSet<String>,
    /// The number of checked references of pods to claims.
    references: usize,
}

impl State {
    fn apply(&mut self, Change { is_deleted, object, .. }: Change<Object>) {
        match object {
            Object::Set(set) => replace(&mut self.sets, *set, is_deleted),
            Object::Group(group) => replace(&mut self.groups, *group, is_deleted),
            Object::Clique(clique) => replace(&mut self.cliques, *clique, is_deleted),
            Object::Claim(claim) => {
                if is_shared(&claim) {
                    self.check_claim(&claim, is_deleted);
                }
                replace(&mut self.claims, *claim, is_deleted);
            }
            Object::Pod(pod) => {
                if !is_deleted && !self.pods.contains_key(&pod.name_any()) {
                    if self.has_clique(&pod) {
                        self.check_new_pod(&pod);
                    } else {
                        self.pods_of_deleted_cliques.extend(pod.uid());
                    }
                }
                replace(&mut self.pods, *pod, is_deleted);
            }
        }
        // A claim that lost its owner gets it back.
        let has_owner = |claim: &ResourceClaim| controller_of(&claim.metadata).is_some();
        let retired =
            self.claims.values().filter(|claim| is_shared(claim) && has_owner(claim) && !self.is_needed(claim));
        self.retired.extend(retired.filter_map(ResourceExt::uid).collect::<Vec<_>>());
    }

    fn has_clique(&self, pod: &Pod) -> bool {
        let Some(owner) = controller_of(&pod.metadata) else { return false };
        self.cliques.get(&owner.name).is_some_and(|clique| has_uid(clique, &owner.uid))
    }

    fn is_of_deleted_clique(&self, pod: &Pod) -> bool {
        pod.uid().is_some_and(|uid| self.pods_of_deleted_cliques.contains(&uid))
    }

    fn is_retired(&self, claim: &ResourceClaim) -> bool {
        claim.uid().is_some_and(|uid| self.retired.contains(&uid))
    }

    fn check_claim(&mut self, claim: &ResourceClaim, is_deleted: bool) {
        let name = claim.name_any();
        if is_deleted {
            let is_user = |pod: &&Pod| claim_names(pod).contains(&name) && !self.is_of_deleted_clique(pod);
            let user = self.pods.values().find(is_user).map(ResourceExt::name_any);
            assert!(user.is_none(), "{name} was deleted while {user:?} existed");
        }
        let is_active = |before: &ResourceClaim| !is_terminating(before);
        if (is_deleted || is_terminating(claim)) && self.claims.get(&name).is_some_and(is_active) {
            let is_removed = !self.is_needed(claim) || self.is_retired(claim);
            assert!(is_removed, "{name} was deleted while its owner and its replica existed");
            self.deleted.insert(name);
        }
    }

    /// Whether the owner of the claim is active, and the replica or index of the claim is desired.
    fn is_needed(&self, claim: &ResourceClaim) -> bool {
        let Some(owner) = controller_of(&claim.metadata) else { return false };
        let is_desired = |label: &str, replicas: i32| {
            let index = claim.labels().get(label).and_then(|index| index.parse::<i32>().ok());
            index.is_none_or(|index| index < replicas)
        };
        match owner.kind.as_str() {
            "PodCliqueSet" => active(&self.sets, &owner.name, &owner.uid)
                .is_some_and(|set| is_desired(SET_REPLICA, set.spec.replicas)),
            "PodCliqueScalingGroup" => active(&self.groups, &owner.name, &owner.uid)
                .is_some_and(|group| is_desired(SCALING_GROUP_REPLICA, group.spec.replicas)),
            _ => active(&self.cliques, &owner.name, &owner.uid)
                .is_some_and(|clique| is_desired(POD_INDEX, clique.spec.replicas)),
        }
    }

    fn check_new_pod(&mut self, pod: &Pod) {
        let name = pod.name_any();
        for claim in claim_names(pod) {
            let Some(found) = self.claims.get(&claim) else { panic!("{name} has {claim}, which does not exist") };
            if is_shared(found) {
                assert!(self.has_owner_of(found, pod), "{name} has {claim} of another owner: {found:?}");
                let is_old = self.is_needed(found) && (is_terminating(found) || self.is_retired(found));
                assert!(!is_old, "{name} was created with {claim} of an earlier replica, index or owner");
                self.references += 1;
            }
        }
    }

    /// Whether the owner of the claim is the clique of the pod, or the existing or deleted scaling group or set of the pod.
    fn has_owner_of(&self, claim: &ResourceClaim, pod: &Pod) -> bool {
        let Some(owner) = controller_of(&claim.metadata) else { return false };
        let has_label = |key: &str| pod.labels().get(key).is_some_and(|name| *name == owner.name);
        match owner.kind.as_str() {
            "PodCliqueSet" => has_label(PART_OF) && is_latest(&self.sets, &owner.name, &owner.uid),
            "PodCliqueScalingGroup" => has_label(SCALING_GROUP) && is_latest(&self.groups, &owner.name, &owner.uid),
            _ => controller_of(&pod.metadata).is_some_and(|clique| clique.uid == owner.uid),
        }
    }
}

fn has_uid(object: &impl ResourceExt, uid: &str) -> bool {
    object.uid().is_some_and(|other| other == uid)
}

/// The object, if it exists with this UID, and is not terminating or orphans its dependents.
fn active<'o, K: Resource>(objects: &'o BTreeMap<String, K>, name: &str, uid: &str) -> Option<&'o K> {
    let is_active = |object: &&K| !is_terminating(*object) || orphans_dependents(*object);
    objects.get(name).filter(|object| has_uid(*object, uid)).filter(is_active)
}

/// Whether no other object of this name exists. Garbage collection deletes the cliques of a deleted owner later.
fn is_latest<K: Resource>(objects: &BTreeMap<String, K>, name: &str, uid: &str) -> bool {
    objects.get(name).is_none_or(|object| has_uid(object, uid))
}
