//! The snapshot of a clique, its pods, its claims and its gang: plain data and pure queries.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use grove_api_types::conditions::available;
use grove_api_types::names::PodGangName;
use grove_api_types::pack_affinity::PackAffinity;
use grove_api_types::pod_group::{self, PodGroupNumber, PodGroupRef};
use grove_api_types::scheduler::Scheduler;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::{annotation_value, labels};
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::expectations::PendingCreates;
use grove_controller::plan::Waiting;
use grove_controller::slim_pod::SlimPod;
use kube::ResourceExt;

use crate::NAME;
use crate::claims::ObservedClaims;
use crate::gating_gangs::GatingGangState;
use crate::observed::ObservedClique;

/// The snapshot of a reconcile.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    /// The clique and its pods.
    pub(crate) state: ObservedClique,
    /// The gang of its pods.
    pub(crate) gang: Option<Arc<PodGang>>,
    /// The number of pod references that its gang may have; `None` if it has fewer desired pods.
    pub(crate) max_references: Option<usize>,
    /// The gang that must be scheduled before gated pods of the clique; `None` if none of them is gated.
    pub(crate) gating_gang: Option<GatingGang>,
    /// Whether pods of some clique are gated until its gang is scheduled.
    pub(crate) gates_cliques: bool,
    /// The pods that wait for the retry of a rejected create.
    pub(crate) backed_off: BackedOffCreates,
    /// The indices at which pods ended soon after they started, and the time until the next replacement.
    pub(crate) delayed_replacements: BTreeMap<i32, Duration>,
    /// The scheduler of its pods if its template names none.
    pub(crate) default_scheduler: Scheduler,
    /// The claims that its pods use.
    pub(crate) claims: ObservedClaims,
    /// The `ResourceClaimTemplate` of its compute domain, if it does not exist and pods wait for the scheduler. NVIDIA's driver deletes it
    /// with the domain, and creates it with the next one.
    pub(crate) missing_domain_template: Option<String>,
}

/// A gang that must be scheduled before other pods: the base gang before the pods of its scaled gangs. In a gang with a `PodGroup` of the
/// workload API, the core pods of all cliques come before their surplus pods, and topology-controller releases scaled gangs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GatingGang {
    /// Its name.
    pub(crate) name: PodGangName,
    /// Whether it is scheduled.
    pub(crate) state: GatingGangState,
    /// The index of the first gated pod of the clique.
    pub(crate) first_index: i32,
}

/// The pods of a clique that have Grove's scheduling gate now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GatedPods {
    /// None.
    None,
    /// Those from this index on.
    From(i32),
}

impl GatedPods {
    /// Whether the pod with this index has the gate.
    pub(crate) fn is_gated(self, index: i32) -> bool {
        match self {
            Self::None => false,
            Self::From(first) => index >= first,
        }
    }
}

impl Deref for Observed {
    type Target = ObservedClique;

    fn deref(&self) -> &ObservedClique {
        &self.state
    }
}

#[cfg(test)]
impl std::ops::DerefMut for Observed {
    fn deref_mut(&mut self) -> &mut ObservedClique {
        &mut self.state
    }
}

impl Observed {
    /// The created pods and claims with pending watch events.
    pub(crate) fn all_pending_creates(&self) -> PendingCreates {
        let (pods, claims) = (&self.pending_creates.children, &self.claims.pending_creates.children);
        let mut children: Vec<_> = pods.iter().chain(claims).cloned().collect();
        children.sort();
        PendingCreates { children }
    }

    /// The pods and claims that wait for the retry of a rejected create.
    pub(crate) fn all_backed_off(&self) -> Cow<'_, BackedOffCreates> {
        if self.claims.backed_off.children.is_empty() {
            return Cow::Borrowed(&self.backed_off);
        }
        let mut all = self.claims.backed_off.clone();
        all.children.extend(self.backed_off.children.iter().cloned());
        Cow::Owned(all)
    }

    /// Why the gated pods of the clique keep their scheduling gate; `None` if the gate is to be removed. `gating_gangs.rs` decides
    /// whether the gang is scheduled.
    pub(crate) fn gating_reason(&self) -> Option<Waiting> {
        let GatingGang { name, state, first_index: _ } = self.gating_gang.as_ref()?;
        let message = match state {
            GatingGangState::NotFound => format!("PodGang {name} must be scheduled first and does not exist"),
            // Without numbers: the clique is not triggered when they change.
            GatingGangState::NotScheduled => {
                format!("PodGang {name} must be scheduled first; a PodClique of it has too few scheduled pods")
            }
            GatingGangState::Scheduled => return None,
        };
        let is_own = self.pod_group().is_some();
        let reason = if is_own { available::POD_GANG_NOT_SCHEDULED } else { available::BASE_GANG_NOT_SCHEDULED };
        Some(Waiting::new(reason, message))
    }

    /// The pods that have Grove's scheduling gate now.
    pub(crate) fn gating(&self) -> GatedPods {
        let is_closed = |gang: &&GatingGang| gang.state != GatingGangState::Scheduled;
        self.gating_gang.as_ref().filter(is_closed).map_or(GatedPods::None, |gang| GatedPods::From(gang.first_index))
    }

    /// The `PodGroup` of the workload API that its pods belong to.
    pub(crate) fn pod_group(&self) -> Option<&str> {
        self.clique.annotations().get(labels::POD_GROUP).map(String::as_str)
    }

    /// The `PodGroup` of new pods. If the API server has dropped the field of a pod, new pods have no `PodGroup` either: they would wait for
    /// the minimum of the `PodGroup` for ever.
    pub(crate) fn pod_group_of_new_pods(&self) -> Option<&str> {
        self.pod_group().filter(|_| self.live().all(|pod| pod.pod_group().is_some()))
    }

    /// Whether the pod belongs to an earlier incarnation of the gang.
    pub(crate) fn is_of_earlier_incarnation(&self, pod: &SlimPod) -> bool {
        let numbers = self.pod_group_numbers(pod);
        numbers.is_some_and(|(of_pod, current)| of_pod.incarnation < current.incarnation)
    }

    /// Whether the pod has to be replaced before it is bound: it belongs to an earlier `PodGroup` of the incarnation, or has other topology
    /// constraints. A bound pod stays. While no successor could be created, all pods stay.
    pub(crate) fn is_outdated_and_pending(&self, pod: &SlimPod) -> bool {
        let is_of_earlier_group = || self.pod_group_numbers(pod).is_some_and(|(of_pod, current)| of_pod < current);
        let is_outdated = !pod.is_scheduled() && (self.has_other_affinity(pod) || is_of_earlier_group());
        is_outdated && self.unreadable_annotations().next().is_none()
    }

    /// The numbers of the `PodGroup`s of the pod and of the clique. The gang must confirm the annotation of the clique: a user may have edited
    /// it. A pod without a `PodGroup` has no number, so it stays: the API server may have dropped the field.
    fn pod_group_numbers(&self, pod: &SlimPod) -> Option<(PodGroupNumber, PodGroupNumber)> {
        let (current, gang) = (self.pod_group()?, self.gang.as_deref()?);
        let is_confirmed = gang.annotations().get(labels::POD_GROUP).is_some_and(|of_gang| of_gang == current);
        let number = |group| pod_group::number(gang.metadata.name.as_deref().unwrap_or_default(), group);
        number(pod.pod_group()?).zip(number(current)).filter(|_| is_confirmed)
    }

    /// Why no pod from this index on is created: pcs-controller first has to decide which `PodGroup` it belongs to, or the decision cannot be
    /// read. Otherwise it could be bound before the others that the gang needs.
    pub(crate) fn undecided_pods(&self) -> Option<(i32, Waiting)> {
        let (gang, of_clique) = (self.gang.as_deref()?, self.pod_group()?);
        let PodGroupRef { name, spec } = match PodGroupRef::of_gang(gang) {
            Ok(group) => group?,
            Err(error) => return Some((0, Waiting::new(available::UNREADABLE_ANNOTATION, error.message(NAME)))),
        };
        let gang = gang.metadata.name.as_deref().unwrap_or_default();
        let counted = spec.below_minimum.get(self.clique.metadata.name.as_deref()?).copied();
        let is_behind = pod_group::number(gang, of_clique) < pod_group::number(gang, &name);
        let first = match counted.filter(|counted| self.clique.spec.required_replicas() > *counted) {
            _ if is_behind => 0,
            Some(counted) => counted,
            None => return None,
        };
        let message = format!(
            "further pods wait until pcs-controller has decided which PodGroup of PodGang {gang} they belong to"
        );
        Some((first, Waiting::new(available::POD_GANG_PENDING, message)))
    }

    /// The incarnation of the gang of its new pods; `None` without a `PodGroup`.
    pub(crate) fn incarnation(&self) -> Option<i64> {
        let number = pod_group::number(self.clique.labels().get(labels::POD_GANG)?, self.pod_group()?)?;
        Some(number.incarnation)
    }

    /// Whether the pod was created with other topology constraints. A pod without the annotation was created before the annotation existed.
    fn has_other_affinity(&self, pod: &SlimPod) -> bool {
        let of_pod = pod.annotations().get(labels::PACK_AFFINITY);
        let current = self.clique.annotations().get(labels::PACK_AFFINITY).map_or("", String::as_str);
        of_pod.is_some_and(|affinity| !annotation_value::is_equal(affinity, current))
    }

    /// The annotations of the clique that cannot be read, each with the reason of a condition. New pods need their values.
    pub(crate) fn unreadable_annotations(&self) -> impl Iterator<Item = Waiting> {
        let gang = self.clique.labels().get(labels::POD_GANG).map_or("", String::as_str);
        let errors =
            [pod_group::name_in_annotation(gang, &self.clique).err(), PackAffinity::of_annotation(&self.clique).err()];
        let messages = errors.into_iter().flatten().map(|error| error.message(NAME));
        let waiting = messages.map(|message| Waiting::new(available::UNREADABLE_ANNOTATION, message));
        self.claims.unknown().into_iter().chain(waiting)
    }
}
