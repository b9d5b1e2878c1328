//! The gang of a clique, and the gang that gates its pods: plain data and pure queries.

use std::sync::Arc;

use grove_api_types::conditions::available;
use grove_api_types::names::PodGangName;
use grove_api_types::pack_affinity::PackAffinity;
use grove_api_types::pod_group::{self, PodGroupNumber, PodGroupRef};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::PodClique;
use grove_api_types::{annotation_value, labels};
use grove_controller::plan::Waiting;
use grove_controller::slim_pod::SlimPod;
use kube::ResourceExt;

use super::gating_gangs::GatingGangState;
use crate::NAME;
use crate::observed::ObservedClique;

/// The gang of a clique.
#[derive(Clone, Debug)]
pub(crate) struct ObservedGang {
    /// The gang; `None` if it does not exist.
    pub(crate) object: Option<Arc<PodGang>>,
    /// The number of pod references that it may have; `None` if it has fewer desired pods.
    pub(crate) max_references: Option<usize>,
    /// The gang that must be scheduled before gated pods of the clique; `None` if none of them is gated.
    pub(crate) gating: Option<GatingGang>,
    /// Whether pods of some clique are gated until it is scheduled.
    pub(crate) gates_cliques: bool,
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

impl ObservedGang {
    /// Why the gated pods of the clique keep their scheduling gate; `None` if the gate is to be removed. `gating_gangs.rs` decides
    /// whether the gang is scheduled.
    pub(crate) fn gating_reason(&self, clique: &PodClique) -> Option<Waiting> {
        let GatingGang { name, state, first_index: _ } = self.gating.as_ref()?;
        let message = match state {
            GatingGangState::NotFound => format!("PodGang {name} must be scheduled first and does not exist"),
            // Without numbers: the clique is not triggered when they change.
            GatingGangState::NotScheduled => {
                format!("PodGang {name} must be scheduled first; a PodClique of it has too few scheduled pods")
            }
            GatingGangState::Scheduled => return None,
        };
        let is_own = pod_group(clique).is_some();
        let reason = if is_own { available::POD_GANG_NOT_SCHEDULED } else { available::BASE_GANG_NOT_SCHEDULED };
        Some(Waiting::new(reason, message))
    }

    /// The pods that have Grove's scheduling gate now.
    pub(crate) fn gating(&self) -> GatedPods {
        let is_closed = |gang: &&GatingGang| gang.state != GatingGangState::Scheduled;
        self.gating.as_ref().filter(is_closed).map_or(GatedPods::None, |gang| GatedPods::From(gang.first_index))
    }

    /// Whether the pod belongs to an earlier incarnation of the gang.
    pub(crate) fn is_of_earlier_incarnation(&self, clique: &PodClique, pod: &SlimPod) -> bool {
        let numbers = self.pod_group_numbers(clique, pod);
        numbers.is_some_and(|(of_pod, current)| of_pod.incarnation < current.incarnation)
    }

    /// Whether the pod has to be replaced before it is bound: it belongs to an earlier `PodGroup` of the incarnation, or has other topology
    /// constraints. A bound pod stays.
    pub(crate) fn is_outdated_and_pending(&self, clique: &PodClique, pod: &SlimPod) -> bool {
        let is_of_earlier_group =
            || self.pod_group_numbers(clique, pod).is_some_and(|(of_pod, current)| of_pod < current);
        !pod.is_scheduled() && (has_other_affinity(clique, pod) || is_of_earlier_group())
    }

    /// The numbers of the `PodGroup`s of the pod and of the clique. The gang must confirm the annotation of the clique: a user may have edited
    /// it. A pod without a `PodGroup` has no number, so it stays: the API server may have dropped the field.
    fn pod_group_numbers(&self, clique: &PodClique, pod: &SlimPod) -> Option<(PodGroupNumber, PodGroupNumber)> {
        let (current, gang) = (pod_group(clique)?, self.object.as_deref()?);
        let is_confirmed = gang.annotations().get(labels::POD_GROUP).is_some_and(|of_gang| of_gang == current);
        let number = |group| pod_group::number(gang.metadata.name.as_deref().unwrap_or_default(), group);
        number(pod.pod_group()?).zip(number(current)).filter(|_| is_confirmed)
    }

    /// Why no pod from this index on is created: pcs-controller first has to decide which `PodGroup` it belongs to, or the decision cannot be
    /// read. Otherwise it could be bound before the others that the gang needs.
    pub(crate) fn undecided_pods(&self, clique: &PodClique) -> Option<(i32, Waiting)> {
        let (gang, of_clique) = (self.object.as_deref()?, pod_group(clique)?);
        let PodGroupRef { name, spec } = match PodGroupRef::of_gang(gang) {
            Ok(group) => group?,
            Err(error) => return Some((0, Waiting::new(available::UNREADABLE_ANNOTATION, error.message(NAME)))),
        };
        let gang = gang.metadata.name.as_deref().unwrap_or_default();
        let counted = spec.below_minimum.get(clique.metadata.name.as_deref()?).copied();
        let is_behind = pod_group::number(gang, of_clique) < pod_group::number(gang, &name);
        let first = match counted.filter(|counted| clique.spec.required_replicas() > *counted) {
            _ if is_behind => 0,
            Some(counted) => counted,
            None => return None,
        };
        let message = format!(
            "further pods wait until pcs-controller has decided which PodGroup of PodGang {gang} they belong to"
        );
        Some((first, Waiting::new(available::POD_GANG_PENDING, message)))
    }
}

/// The `PodGroup` of the workload API that the pods of the clique belong to.
fn pod_group(clique: &PodClique) -> Option<&str> {
    clique.annotations().get(labels::POD_GROUP).map(String::as_str)
}

/// The `PodGroup` of new pods. If the API server has dropped the field of a pod, new pods have no `PodGroup` either: they would wait for
/// the minimum of the `PodGroup` for ever.
pub(crate) fn pod_group_of_new_pods(clique: &ObservedClique) -> Option<&str> {
    pod_group(&clique.clique).filter(|_| clique.live().all(|pod| pod.pod_group().is_some()))
}

/// The incarnation of the gang of the clique's new pods; `None` without a `PodGroup`.
pub(crate) fn incarnation(clique: &PodClique) -> Option<i64> {
    let number = pod_group::number(clique.labels().get(labels::POD_GANG)?, pod_group(clique)?)?;
    Some(number.incarnation)
}

/// Whether the pod was created with other topology constraints. A pod without the annotation was created before the annotation existed.
fn has_other_affinity(clique: &PodClique, pod: &SlimPod) -> bool {
    let of_pod = pod.annotations().get(labels::PACK_AFFINITY);
    let current = clique.annotations().get(labels::PACK_AFFINITY).map_or("", String::as_str);
    of_pod.is_some_and(|affinity| !annotation_value::is_equal(affinity, current))
}

/// The annotations of the clique that cannot be read, each with the reason of a condition. New pods need their values.
pub(crate) fn unreadable_annotations(clique: &PodClique) -> impl Iterator<Item = Waiting> + use<> {
    let gang = clique.labels().get(labels::POD_GANG).map_or("", String::as_str);
    let errors = [pod_group::name_in_annotation(gang, clique).err(), PackAffinity::of_annotation(clique).err()];
    let messages = errors.into_iter().flatten().map(|error| error.message(NAME));
    messages.map(|message| Waiting::new(available::UNREADABLE_ANNOTATION, message))
}
