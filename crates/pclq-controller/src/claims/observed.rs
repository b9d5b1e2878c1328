//! The claims that the pods of a clique use: plain data and pure queries.

use std::collections::{BTreeMap, BTreeSet};

use grove_api_types::conditions::resource_claims_created as reasons;
use grove_api_types::deletion::is_terminating;
use grove_api_types::expansion::object_count::MAX_OBJECTS;
use grove_api_types::names::{ClaimOwner, PodCliqueName, ResourceClaimName};
use grove_api_types::resource_claim::{ClaimTemplate, ResourceClaim};
use grove_api_types::resource_sharing::clique_claims::CliqueClaim;
use grove_api_types::v1alpha1::ResourceSharingScope;
use grove_controller::children::ObservedChildren;
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::executor::ExecutionResult;
use grove_controller::expectations::PendingCreates;
use grove_controller::group_kind::{group_kind_of, is_of_group_kind};
use grove_controller::name_conflict::NameConflict;
use grove_controller::plan::Waiting;
use grove_controller::resource_claims::{self, TemplateReadErrors};
use grove_controller::slim_pod::SlimPod;
use grove_runtime::caches::Availability;
use kube::{Resource, ResourceExt};

use super::clique_owner::{ClaimContent, ClaimExpansion, DesiredClaim};
use crate::observed::{CliqueIdentity, ObservedClique};
use crate::write_history::is_pending;
use crate::{NAME, pod};

/// The claims that the pods of a clique use, and all claims that the clique controls.
#[derive(Clone, Debug)]
pub(crate) struct ObservedClaims {
    /// Why the claims of the clique are unknown. Then no pods are created.
    pub(crate) invalid: Option<String>,
    /// Whether the API server lists claims.
    pub(crate) availability: Availability,
    /// The claims of the set and of the scaling group, in the order in which pods refer to them.
    pub(crate) references: Vec<ReferencedClaim>,
    /// The claims of the clique itself, in the order in which pods refer to them.
    pub(crate) own: Vec<OwnClaim>,
    /// The claims that the clique controls.
    pub(crate) children: ObservedChildren,
    /// The other objects that have the name of a claim of the clique.
    pub(crate) name_conflicts: Vec<NameConflict>,
    /// The claims that the API server rejected. They are not created before their backoff ends.
    pub(crate) backed_off: BackedOffCreates,
    /// The created claims with pending watch events.
    pub(crate) pending_creates: PendingCreates,
    /// The names of the claims of pod indices that were removed since their creation. No new pod uses them.
    pub(crate) retired: BTreeSet<String>,
    /// The names of the claims that this reconcile has created.
    pub(crate) created: BTreeSet<String>,
    /// The templates that could not be read.
    pub(crate) read_errors: TemplateReadErrors,
}

/// A claim of the set or of the scaling group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReferencedClaim {
    /// Its name.
    pub(crate) name: ResourceClaimName,
    /// Whether pods may use it.
    pub(crate) state: ReferenceState,
}

/// Whether pods may use a claim of the set or of the scaling group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReferenceState {
    /// They may.
    Usable,
    /// It does not exist.
    NotFound,
    /// It is terminating.
    Terminating,
    /// Neither the set nor the scaling group of the clique controls it.
    NotControlled,
}

/// A claim of the clique, or a claim of each of its pods.
#[derive(Clone, Debug)]
pub(crate) struct OwnClaim {
    /// The claim in the annotation.
    pub(crate) claim: CliqueClaim,
    /// Its template.
    pub(crate) template: TemplateState,
}

/// A claim that a clique needs.
#[derive(Debug)]
pub(crate) struct NeededClaim<'a> {
    /// The position of its source in [`ObservedClaims::own`].
    pub(crate) at: usize,
    /// Its source.
    pub(crate) own: &'a OwnClaim,
    /// The pod that it belongs to; `None` if all pods of the clique share it.
    pub(crate) pod_index: Option<i32>,
    /// Its name.
    pub(crate) name: ResourceClaimName,
}

/// The template of a claim.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TemplateState {
    /// The object exists in the cache, which does not contain its spec.
    Unread,
    /// Its content.
    Read(ClaimTemplate),
    /// The object does not exist.
    NotFound,
    /// The object could not be read, for this reason.
    Failed(String),
    /// Templates cannot be read at all.
    Unavailable(Waiting),
}

/// Why pclq-controller cannot read the objects of the kind, which are claims or templates; `None` if it can.
pub(super) fn unavailable<K: Resource<DynamicType = ()>>(availability: Availability) -> Option<Waiting> {
    resource_claims::unavailable::<K>(availability, NAME)
}

impl ObservedClaims {
    /// Whether the pods of the clique use claims.
    pub(crate) fn is_used(&self) -> bool {
        self.invalid.is_some() || !self.references.is_empty() || !self.own.is_empty()
    }

    /// Whether several pods may use a claim, in a clique with this number of replicas.
    pub(crate) fn are_shared(&self, replicas: i32) -> bool {
        let is_shared = |own: &OwnClaim| own.claim.scope == ResourceSharingScope::AllReplicas && replicas > 1;
        !self.references.is_empty() || self.own.iter().any(is_shared)
    }

    /// Why no pods are created, if the claims of the clique are unknown.
    pub(crate) fn unknown(&self) -> Option<Waiting> {
        self.invalid.clone().map(|message| Waiting::new(reasons::RESOURCE_CLAIMS_INVALID, message))
    }

    /// Whether the clique has more pods and own claims than a set may have objects. No request for the clique has to pass a check of this
    /// number, so the memory of a reconcile must not depend on it.
    pub(crate) fn is_too_large(&self, clique: &ObservedClique) -> bool {
        self.objects(clique) > MAX_OBJECTS
    }

    /// The number of pods and own claims of the clique.
    pub(crate) fn objects(&self, clique: &ObservedClique) -> u64 {
        let replicas = u64::try_from(clique.clique.spec.replicas).unwrap_or_default();
        let of_scope = |own: &OwnClaim| match own.claim.scope {
            ResourceSharingScope::AllReplicas => 1,
            ResourceSharingScope::PerReplica => replicas,
        };
        self.own.iter().map(of_scope).fold(replicas, u64::saturating_add)
    }

    /// Whether nothing is known about claims of the clique.
    pub(crate) fn is_empty(&self) -> bool {
        !self.is_used() && self.all().next().is_none()
    }

    /// The claims that the clique controls.
    pub(crate) fn all(&self) -> impl Iterator<Item = &ResourceClaim> {
        self.children.of_kind::<ResourceClaim>().map(AsRef::as_ref)
    }

    /// The claim of this name, if the clique controls it.
    pub(crate) fn get(&self, name: &ResourceClaimName) -> Option<&ResourceClaim> {
        self.children.get::<ResourceClaim>(name.as_str()).map(AsRef::as_ref)
    }

    /// Records the claims that this reconcile has created, or that existed already.
    pub(crate) fn record_created(&mut self, result: &ExecutionResult) {
        let kind = group_kind_of::<ResourceClaim>();
        let created = result.steps.iter().filter(|step| step.verb == "create" && step.result.is_ok());
        let claims = created.filter(|step| is_of_group_kind(&step.target.resource, &kind));
        self.created.extend(claims.map(|step| step.target.name.clone()));
    }

    /// Whether pods may use the claim of the clique: it exists, and stays.
    pub(crate) fn is_usable(&self, name: &ResourceClaimName) -> bool {
        match self.get(name) {
            Some(claim) => !is_terminating(claim) && !self.is_retired(claim),
            None if self.retired.contains(name.as_str()) => false,
            None => self.created.contains(name.as_str()) || self.is_pending(name),
        }
    }

    /// Whether the claim was created and its watch event is pending.
    pub(crate) fn is_pending(&self, name: &ResourceClaimName) -> bool {
        self.pending_creates.contains(&group_kind_of::<ResourceClaim>(), name.as_str())
    }

    /// Whether the index of the claim was removed since the claim was created.
    pub(crate) fn is_retired(&self, claim: &ResourceClaim) -> bool {
        claim.metadata.name.as_ref().is_some_and(|name| self.retired.contains(name))
    }

    /// Why no claim can be created or used.
    pub(crate) fn unavailable(&self) -> Option<Waiting> {
        unavailable::<ResourceClaim>(self.availability)
    }
}

impl OwnClaim {
    /// Why the claim cannot be created; `None` if its template is known.
    fn blocked(&self, namespace: &str) -> Result<&ClaimTemplate, Waiting> {
        let CliqueClaim { template, namespace: other, field, .. } = &self.claim;
        let namespace = other.as_deref().unwrap_or(namespace);
        let named = || format!("ResourceClaimTemplate {template} in namespace {namespace}, which {field} refers to,");
        match &self.template {
            TemplateState::Read(template) => Ok(template),
            TemplateState::NotFound => Err(Waiting::new(
                reasons::RESOURCE_CLAIM_TEMPLATE_NOT_FOUND,
                format!("{} does not exist; the pods are created once it exists", named()),
            )),
            TemplateState::Unread => {
                Err(Waiting::new(reasons::RESOURCE_CLAIMS_PENDING, format!("{} has not been read yet", named())))
            }
            TemplateState::Failed(reason) => {
                Err(Waiting::new(reasons::RESOURCE_CLAIMS_PENDING, format!("{} could not be read: {reason}", named())))
            }
            TemplateState::Unavailable(waiting) => Err(waiting.clone()),
        }
    }
}

/// The index of the pod that a claim belongs to; `None` if all pods of the clique share the claim. The name decides, because it cannot
/// change.
pub(crate) fn pod_index_of_claim(clique: &PodCliqueName, claim: &str) -> Option<i32> {
    let rest = claim.strip_prefix(clique.as_str())?.strip_prefix('-')?;
    let (index, template) = rest.split_once('-')?;
    let index = index.parse().ok().filter(|index| *index >= 0)?;
    let name = ResourceClaimName::of_replica(ClaimOwner::Clique(clique), index, template);
    (name.as_str() == claim).then_some(index)
}

/// The existing pods of a clique by index. A pod without an index may use every claim.
struct PodsByIndex<'a> {
    by_index: BTreeMap<i32, Vec<&'a SlimPod>>,
    others: Vec<&'a SlimPod>,
    /// The indices of created pods with pending watch events.
    pending: BTreeSet<i32>,
}

impl<'a> PodsByIndex<'a> {
    fn of(clique: &'a ObservedClique) -> Self {
        let (mut by_index, mut others) = (BTreeMap::<i32, Vec<_>>::new(), Vec::new());
        for pod in clique.pods.iter().chain(&clique.orphans).map(AsRef::as_ref) {
            match pod::index(pod) {
                Some(index) => by_index.entry(index).or_default().push(pod),
                None => others.push(pod),
            }
        }
        let created = clique.own_writes.created_names.iter();
        let pending = created.filter(|(_, name)| is_pending(&clique.pending_creates, name)).map(|(index, _)| *index);
        Self { by_index, others, pending: pending.collect() }
    }

    /// Whether the deletion of the claim may begin: no pod uses it, or Kubernetes retains it until the pods that use it are deleted.
    fn release(&self, claim: &ResourceClaim, index: Option<i32>) -> bool {
        let is_ending = |pod: &&SlimPod| {
            pod.is_terminating()
                && pod.is_scheduled()
                && !pod.is_failed()
                && !pod.is_succeeded()
                && claim.is_allocated()
        };
        let of_index = |index: i32| self.by_index.get(&index).into_iter().flatten();
        match index {
            Some(index) => !self.pending.contains(&index) && of_index(index).chain(&self.others).all(is_ending),
            None => self.pending.is_empty() && self.by_index.values().flatten().chain(&self.others).all(is_ending),
        }
    }
}

impl ObservedClaims {
    /// The claims that the clique needs. Without pods it needs no claim that does not exist yet. A too large clique has none: they would
    /// exhaust the memory.
    pub(crate) fn needed<'a>(&'a self, clique: &ObservedClique) -> impl Iterator<Item = NeededClaim<'a>> + use<'a> {
        let own = if self.is_too_large(clique) { &[] } else { self.own.as_slice() };
        let (clique, replicas) = (clique.name(), clique.clique.spec.replicas.max(0));
        own.iter().enumerate().flat_map(move |(at, own)| {
            let (source, clique) = (own.claim.source(), clique.clone());
            let claim = move |pod_index: Option<i32>| {
                let name = source.claim(ClaimOwner::Clique(&clique), pod_index.unwrap_or_default());
                NeededClaim { at, own, pod_index, name }
            };
            let is_needed = move |claim: &NeededClaim<'_>| replicas > 0 || self.get(&claim.name).is_some();
            own.claim.source().replicas(replicas).map(claim).filter(is_needed)
        })
    }

    /// The claims that the clique needs, and those to delete: the ones of removed indices that no pod uses any more. A claim that the
    /// annotation does not contain stays, because pods may use it and the annotation may have been edited.
    pub(crate) fn expansion<'a>(&'a self, clique: &'a ObservedClique, identity: &CliqueIdentity) -> ClaimExpansion<'a> {
        let namespace = clique.clique.namespace().unwrap_or_default();
        let unavailable = self.unavailable();
        let mut claims = Vec::new();
        for NeededClaim { at: _, own, pod_index, name } in self.needed(clique) {
            let content = match self.get(&name) {
                Some(live) if self.is_retired(live) => continue,
                Some(_) => ClaimContent::Existing,
                None if self.is_pending(&name) => continue,
                None => match (&unavailable, own.blocked(&namespace)) {
                    (Some(waiting), _) => ClaimContent::Blocked(waiting.clone()),
                    (None, Ok(template)) => ClaimContent::Missing(template),
                    (None, Err(waiting)) => ClaimContent::Blocked(waiting),
                },
            };
            claims.push(DesiredClaim { name, pod_index, content });
        }
        let deletable = self.deletable(clique).filter_map(|claim| claim.metadata.name.clone()).collect();
        ClaimExpansion { clique: &clique.clique, set: identity.set.clone(), claims, deletable }
    }

    /// The claims with deletions that may begin now: of a terminating clique all that no pod uses, otherwise only the retired ones among
    /// them.
    pub(crate) fn deletable(&self, clique: &ObservedClique) -> impl Iterator<Item = &ResourceClaim> {
        let (name, is_terminating_clique) = (clique.name(), clique.is_terminating());
        let is_unneeded = move |claim: &&ResourceClaim| is_terminating_clique || self.is_retired(claim);
        let mut candidates = self.all().filter(|claim| !is_terminating(*claim)).filter(is_unneeded).peekable();
        let pods = candidates.peek().map(|_| PodsByIndex::of(clique));
        candidates.filter(move |claim| {
            let index = pod_index_of_claim(&name, claim.metadata.name.as_deref().unwrap_or_default());
            let is_released = pods.as_ref().is_some_and(|pods| pods.release(claim, index));
            is_released && clique.unreadable_pods.is_empty()
        })
    }

    /// The external templates that the next plan needs, by their position in `own`: those of missing claims.
    pub(crate) fn templates_to_read(&self, clique: &ObservedClique) -> BTreeSet<usize> {
        if clique.is_terminating() || self.unavailable().is_some() {
            return BTreeSet::new();
        }
        let is_unread = |needed: &NeededClaim<'_>| needed.own.template == TemplateState::Unread;
        let is_missing = |needed: &NeededClaim<'_>| self.get(&needed.name).is_none() && !self.is_pending(&needed.name);
        let unread = self.needed(clique).filter(is_unread).filter(is_missing);
        unread.map(|needed| needed.at).collect()
    }

    /// The claims that all pods of the clique use, in the order in which they refer to them.
    pub(crate) fn of_all_pods(&self, clique: &PodCliqueName) -> Vec<ResourceClaimName> {
        let references = self.references.iter().map(|reference| reference.name.clone());
        references.chain(self.own_claims(clique, ResourceSharingScope::AllReplicas, 0)).collect()
    }

    /// The templates of the claims of which each pod of the clique has its own, in the order in which pods refer to them.
    pub(crate) fn templates_per_pod(&self) -> Vec<String> {
        let per_pod = self.own.iter().filter(|own| own.claim.scope == ResourceSharingScope::PerReplica);
        per_pod.map(|own| own.claim.template.clone()).collect()
    }

    fn own_claims(
        &self,
        clique: &PodCliqueName,
        scope: ResourceSharingScope,
        index: i32,
    ) -> impl Iterator<Item = ResourceClaimName> {
        let of_scope = self.own.iter().filter(move |own| own.claim.scope == scope);
        of_scope.map(move |own| own.claim.source().claim(ClaimOwner::Clique(clique), index))
    }

    /// Whether all claims that all pods use can be used.
    pub(crate) fn are_usable_by_all_pods(&self, clique: &PodCliqueName) -> bool {
        let usable = |reference: &ReferencedClaim| reference.state == ReferenceState::Usable;
        let mut own = self.own_claims(clique, ResourceSharingScope::AllReplicas, 0);
        self.invalid.is_none() && self.references.iter().all(usable) && own.all(|name| self.is_usable(&name))
    }

    /// Whether all claims that only the pod of this index uses can be used.
    pub(crate) fn are_usable_by_pod(&self, clique: &PodCliqueName, index: i32) -> bool {
        self.own_claims(clique, ResourceSharingScope::PerReplica, index).all(|name| self.is_usable(&name))
    }
}
