//! Which `PodGroup` each gang of one set has: the decisions and what they mean for the gangs and their cliques. Pure.

use std::collections::{BTreeMap, BTreeSet};

use grove_api_types::annotation_value::UnreadableAnnotation;
use grove_api_types::conditions::available;
use grove_api_types::pod_group::PodGroupRef;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::PodClique;
use grove_controller::plan::Waiting;
use grove_runtime::caches::Cache;
use k8s_openapi::jiff::Timestamp;

use super::Choice;
use super::decision::{Decision, GangState, after_list_of_bound_pods, after_list_of_cliques, decide};
use super::gang_pods::BoundPods;

/// The decisions by the names of the gangs. A gang without an entry is scheduled without a `PodGroup`.
#[derive(Clone, Debug, Default)]
pub(crate) struct GangDecisions(BTreeMap<String, DecidedGang>);

#[derive(Clone, Debug)]
struct DecidedGang {
    decision: Decision,
    choice: Choice,
    /// The latest one that the existing gang or one of its cliques names.
    existing: Option<String>,
    /// See [`GangState::relies_on_key`].
    relies_on_key: bool,
    /// See [`GangState::unreadable`].
    unreadable: Option<UnreadableAnnotation>,
    /// The hash of the revision that its pods are built from until the turn of its replica of a scaling group.
    earlier_revision: Option<String>,
}

impl DecidedGang {
    /// The one of the next incarnation.
    fn next(&self) -> Option<&PodGroupRef> {
        if let Decision::Next(next) = &self.decision { Some(next) } else { None }
    }
}

fn has_key(group: &PodGroupRef) -> bool {
    group.spec.packing.as_ref().is_some_and(|packing| packing.key.is_some())
}

/// The cliques of an incarnation are created once their gang names its `PodGroup`.
pub(crate) fn gang_pending(gang: &str) -> Waiting {
    Waiting::new(
        available::POD_GANG_PENDING,
        format!("the next incarnation of PodGang {gang} begins with the next update of the PodGang"),
    )
}

/// No clique is created without the fields of the `PodGroup`: the affinity of its pods depends on them.
pub(crate) fn gang_unreadable(gang: &str, error: &UnreadableAnnotation) -> Waiting {
    let message = format!("no PodClique of PodGang {gang} is created: {}", error.message("pcs-controller"));
    Waiting::new(available::UNREADABLE_ANNOTATION, message)
}

impl GangDecisions {
    /// Adds the decision about a gang. `earlier_revision` is the hash of the revision that its pods are built from, if its turn comes later.
    pub(crate) fn decide(&mut self, state: GangState<'_>, earlier_revision: Option<String>, now: Timestamp) {
        let (gang, existing, relies_on_key) = (state.gang.to_owned(), state.existing(), state.relies_on_key);
        let unreadable = state.unreadable.clone();
        let (decision, choice) = decide(state, now);
        self.0.insert(gang, DecidedGang { decision, choice, existing, relies_on_key, unreadable, earlier_revision });
    }

    /// The `PodGroup` that the annotations of the gang name; `None` if it has none, or retains its annotations.
    pub(crate) fn of_gang(&self, gang: &str) -> Option<&PodGroupRef> {
        match &self.0.get(gang)?.decision {
            Decision::Current(current) => current.as_ref(),
            Decision::Next(next) => Some(next),
            Decision::Retained => None,
            Decision::NextUnlessBound { current, .. } | Decision::NextUnlessCliques { current, .. } => Some(current),
        }
    }

    /// The hash of the revision that the pods of the gang are built from, if the turn of its replica of a scaling group comes later.
    pub(crate) fn earlier_revision(&self, gang: &str) -> Option<&str> {
        self.0.get(gang)?.earlier_revision.as_deref()
    }

    /// The `PodGroup` that the cliques of the gang name. Until the gang has the next one, they have the existing one.
    pub(crate) fn of_cliques(&self, gang: &str) -> Option<&str> {
        let group = self.0.get(gang)?;
        match &group.decision {
            Decision::Current(current) => current.as_ref().map(|current| current.name.as_str()),
            Decision::Next(_) | Decision::Retained => group.existing.as_deref(),
            Decision::NextUnlessBound { current, .. } | Decision::NextUnlessCliques { current, .. } => {
                Some(&current.name)
            }
        }
    }

    /// Whether the existing gang does not have its next `PodGroup` yet, or still has the one that it loses. Until then, no clique of it is
    /// created.
    pub(crate) fn is_next(&self, gang: &str) -> bool {
        self.0.get(gang).is_some_and(|group| match &group.decision {
            Decision::Next(_) | Decision::NextUnlessCliques { .. } | Decision::Retained => true,
            Decision::Current(None) => group.existing.is_some(),
            Decision::Current(Some(_)) | Decision::NextUnlessBound { .. } => false,
        })
    }

    /// Why no clique of the gang is created now.
    pub(crate) fn pending(&self, gang: &str) -> Option<Waiting> {
        let error = self.0.get(gang)?.unreadable.as_ref();
        error.map(|error| gang_unreadable(gang, error)).or_else(|| self.is_next(gang).then(|| gang_pending(gang)))
    }

    /// The gangs of which a decision needs a LIST of the bound pods.
    pub(crate) fn need_bound_pods(&self) -> impl Iterator<Item = &str> {
        let open = self.0.iter().filter(|(_, group)| matches!(group.decision, Decision::NextUnlessBound { .. }));
        open.map(|(gang, _)| gang.as_str())
    }

    /// Whether a decision needs a LIST of the cliques.
    pub(crate) fn needs_cliques(&self) -> bool {
        self.0.values().any(|group| matches!(group.decision, Decision::NextUnlessCliques { .. }))
    }

    /// Closes the decisions that need the bound pods, which are given by the name of their gang.
    pub(crate) fn close_with_bound_pods(&mut self, bound: &BTreeMap<String, BoundPods>, now: Timestamp) {
        let none = BoundPods::default();
        for (gang, group) in &mut self.0 {
            if let Decision::NextUnlessBound { current, wanted } = group.decision.clone() {
                let bound = bound.get(gang).unwrap_or(&none);
                (group.decision, group.choice) = after_list_of_bound_pods((gang, current), wanted, bound, now);
            }
        }
    }

    /// Closes the decisions that need the cliques, with the names of the gangs that have some.
    pub(crate) fn close_with_cliques(&mut self, gangs: &BTreeSet<String>) {
        for (gang, group) in &mut self.0 {
            if let Decision::NextUnlessCliques { current, next } = group.decision.clone() {
                (group.decision, group.choice) = after_list_of_cliques(current, next, gangs.contains(gang));
            }
        }
    }

    /// A `PodGroup` with which a dry run shows whether the API server stores the keys of `PodGroup`s; `None` if no decision depends on it.
    pub(crate) fn key_to_confirm(&self) -> Option<&PodGroupRef> {
        let next = |group: &DecidedGang| group.relies_on_key && group.next().is_some_and(has_key);
        self.0.values().find(|group| next(group)).and_then(DecidedGang::next)
    }

    /// The API server does not store the keys of `PodGroup`s: those of the next incarnations have none.
    pub(crate) fn drop_keys(&mut self) {
        for group in self.0.values_mut().filter(|group| group.relies_on_key) {
            if let Decision::Next(next) = &mut group.decision {
                if let Some(packing) = &mut next.spec.packing {
                    packing.key = None;
                }
                group.choice.next = Some(next.clone());
            }
        }
    }

    /// The gangs of which a live LIST has shown a bound pod, while their fields were to change.
    pub(crate) fn bound_gangs(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, group)| group.choice.postponed.is_some()).map(|(gang, _)| gang.as_str())
    }

    /// Whether the cached gangs and cliques still report the pods that the decisions were computed from.
    pub(crate) fn agree_with(&self, gangs: &Cache<PodGang>, cliques: &Cache<PodClique>, namespace: &str) -> bool {
        self.0.iter().all(|(name, group)| {
            let pods = group.choice.postponed.as_ref().map(|postponed| &postponed.pods);
            let gang = || gangs.get(namespace, name);
            pods.is_none_or(|pods| pods.equal_those_of(gang().as_deref(), cliques, namespace))
        })
    }

    /// What to remember of the decisions.
    pub(crate) fn choices(&self) -> BTreeMap<String, Choice> {
        let open = self.0.iter().filter(|(_, group)| group.choice != Choice::default());
        open.map(|(gang, group)| (gang.clone(), group.choice.clone())).collect()
    }
}
