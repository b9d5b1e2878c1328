//! Decides which `PodGroup` a gang has. Pure.

use std::collections::BTreeMap;

use grove_api_types::annotation_value::UnreadableAnnotation;
use grove_api_types::pod_group::{PodGroupNumber, PodGroupRef, PodGroupSpec, number};
use k8s_openapi::jiff::Timestamp;

use super::gang_pods::{BoundPods, GangPods};
use super::{Choice, DecisionInput};

/// The cliques of a gang that are not terminating.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GangCliques {
    /// Whether there are any.
    pub(crate) exist: bool,
    /// The latest `PodGroup` that one of them names.
    pub(crate) pod_group: Option<String>,
}

impl GangCliques {
    /// With one more clique, which names this `PodGroup`.
    pub(crate) fn with(self, gang: &str, pod_group: Option<&String>) -> Self {
        Self { exist: true, pod_group: latest(gang, self.pod_group.as_ref(), pod_group) }
    }
}

/// What the decision about a gang is computed from.
#[derive(Clone, Debug)]
pub(crate) struct GangState<'a> {
    /// The name of the gang.
    pub(crate) gang: &'a str,
    /// The `PodGroup` of the existing gang. Its fields are the default ones if they cannot be read.
    pub(crate) live: Option<PodGroupRef>,
    /// Why the annotations of the existing gang cannot be read.
    pub(crate) unreadable: Option<UnreadableAnnotation>,
    /// Its cliques.
    pub(crate) cliques: GangCliques,
    /// The fields of the `PodGroup` of a new incarnation; `None` if its pods are scheduled individually.
    pub(crate) wanted: Option<PodGroupSpec>,
    /// The pods of its cliques.
    pub(crate) pods: GangPods,
    /// Whether the pods of the gang have the right affinity only if the API server stores the key in the wanted fields.
    pub(crate) relies_on_key: bool,
    /// Whether an update replaces all its pods now.
    pub(crate) restarts: bool,
    /// The earlier decision of this process.
    pub(crate) choice: Choice,
}

impl GangState<'_> {
    /// The latest `PodGroup` that the gang or one of its cliques names.
    pub(crate) fn existing(&self) -> Option<String> {
        latest(self.gang, self.live.as_ref().map(|live| &live.name), self.cliques.pod_group.as_ref())
    }
}

/// Which `PodGroup` a gang has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// This one, or none. Its annotations may have to be restored.
    Current(Option<PodGroupRef>),
    /// A newer pcs-controller has recorded the fields. The annotations of the gang and of its cliques stay.
    Retained,
    /// The one of a new incarnation. Its cliques are created once the gang has it.
    Next(PodGroupRef),
    /// The current one of an existing gang, unless a live LIST shows that the gang has no cliques, because the cache may lack them. Then the
    /// next one.
    NextUnlessCliques {
        /// The current one.
        current: PodGroupRef,
        /// The next one; `None` if its pods are scheduled individually from now on.
        next: Option<PodGroupRef>,
    },
    /// Depends on a live LIST of the bound pods: see [`after_list_of_bound_pods`].
    NextUnlessBound {
        /// The current one.
        current: PodGroupRef,
        /// What the decision is for.
        wanted: DecisionInput,
    },
}

/// The decision about a gang, and what to remember of it.
///
/// A gang without cliques is new, or restarts as a whole: the next incarnation begins, unless this process has already chosen it. A gang
/// with cliques has the latest `PodGroup` that it or one of them names, so that an edited annotation is restored. Pods that were created
/// without a `PodGroup` stay without one. A record that a user has edited is replaced, and one of a later version stays: it describes a
/// `PodGroup` that cannot be changed. If an update replaces all pods of the gang, the next incarnation begins too, because the terminating pods
/// would count as pods of the current one.
pub(crate) fn decide(state: GangState<'_>, now: Timestamp) -> (Decision, Choice) {
    let existing = state.existing();
    let GangState { gang, live, unreadable, cliques, wanted, pods, relies_on_key: _, restarts, choice } = state;
    if unreadable.is_some_and(|error| error.is_of_later_version()) {
        return (Decision::Retained, choice);
    }
    let next = |spec| next_incarnation(gang, existing.as_deref(), spec, now);
    if !cliques.exist {
        let chosen = choice.next.filter(|chosen| wanted.as_ref().is_some_and(|wanted| chosen.spec.satisfies(wanted)));
        return match (live, chosen) {
            (live, Some(chosen)) if live.as_ref() == Some(&chosen) => {
                (Decision::Current(live), Choice { next: Some(chosen), postponed: None })
            }
            (_, Some(chosen)) => chosen_incarnation(chosen),
            (Some(current), None) => {
                (Decision::NextUnlessCliques { current, next: wanted.map(next) }, Choice::default())
            }
            (None, None) => {
                wanted.map_or((Decision::Current(None), Choice::default()), |wanted| chosen_incarnation(next(wanted)))
            }
        };
    }
    let Some(name) = &existing else { return (Decision::Current(None), Choice::default()) };
    let is_later = |next: &PodGroupRef| number(gang, &next.name) > number(gang, name);
    if let Some(wanted) = wanted.as_ref().filter(|_| restarts) {
        let chosen =
            choice.next.filter(|chosen| is_later(chosen) && is_first(gang, chosen) && chosen.spec.satisfies(wanted));
        return chosen_incarnation(chosen.unwrap_or_else(|| next(wanted.clone())));
    }
    let name = name.clone();
    let recorded = live.filter(|live| live.name == name && live.spec != PodGroupSpec::default()).map(|live| live.spec);
    let spec = recorded.or_else(|| wanted.clone()).unwrap_or_default();
    let below_minimum = wanted.as_ref().map(|wanted| wanted.below_minimum.clone()).unwrap_or_default();
    let current = PodGroupRef { name, spec };
    let decided = with_below_minimum(current.clone(), below_minimum);
    // No pod can be bound while all minimums are zero.
    let wanted = wanted.filter(|wanted| !(is_first(gang, &current) && current.spec.satisfies(wanted)));
    let Some(wanted) = wanted.filter(|wanted| wanted.min_count > 0) else {
        return (Decision::Current(Some(decided)), Choice::default());
    };
    let (next, postponed) = (choice.next.clone().filter(is_later), DecisionInput { wanted, pods });
    let is_postponed = choice.postponed.as_ref() == Some(&postponed);
    match next {
        Some(next) if is_postponed || (is_first(gang, &next) && next.spec.satisfies(&postponed.wanted)) => {
            (Decision::Next(next), choice)
        }
        None if is_postponed => (Decision::Current(Some(decided)), Choice { next: None, ..choice }),
        Some(_) | None => (Decision::NextUnlessBound { current, wanted: postponed }, choice),
    }
}

/// The same `PodGroup`, after a decision that has considered these cliques.
fn with_below_minimum(group: PodGroupRef, below_minimum: BTreeMap<String, i32>) -> PodGroupRef {
    PodGroupRef { spec: PodGroupSpec { below_minimum, ..group.spec }, ..group }
}

/// Whether the `PodGroup` is the first one of its incarnation, and so counts all pods of the gang.
fn is_first(gang: &str, group: &PodGroupRef) -> bool {
    number(gang, &group.name).is_some_and(|number| number.successor.is_none())
}

/// The decision about a gang after the live LIST of its bound pods, and what to remember of it.
///
/// 1. Without bound pods, the next incarnation begins with the wanted fields.
/// 2. With bound pods, the priority and the topology stay. A pod that is not bound yet waits until its `PodGroup` has `min_count` pods. If
///    these are as many as the gang lacks, or no pod waits, the current `PodGroup` stays.
/// 3. Otherwise pods would wait for unwanted pods, or be bound before others that the gang needs. The pods that are not bound get a
///    successor of the current `PodGroup`, whose minimum are the pods that the gang lacks.
pub(crate) fn after_list_of_bound_pods(
    (gang, current): (&str, PodGroupRef),
    postponed: DecisionInput,
    bound: &BoundPods,
    now: Timestamp,
) -> (Decision, Choice) {
    if bound.is_empty() {
        return chosen_incarnation(next_incarnation(gang, Some(&current.name), postponed.wanted, now));
    }
    let current = with_below_minimum(current, postponed.wanted.below_minimum.clone());
    let demanded = current.spec.min_count.saturating_sub(bound.of_pod_group(&current.name)).max(1);
    let missing = postponed.pods.missing(bound).filter(|missing| *missing != demanded);
    let next = missing.and_then(|missing| {
        let spec = PodGroupSpec { min_count: missing, ..current.spec.clone() };
        successor((gang, &current.name), spec, now)
    });
    let decision = next.clone().map_or(Decision::Current(Some(current)), Decision::Next);
    (decision, Choice { next, postponed: Some(postponed) })
}

/// The decision about a gang after the live LIST of its cliques, and what to remember of it.
pub(crate) fn after_list_of_cliques(
    current: PodGroupRef,
    next: Option<PodGroupRef>,
    has_cliques: bool,
) -> (Decision, Choice) {
    match next {
        _ if has_cliques => (Decision::Current(Some(current)), Choice::default()),
        Some(next) => chosen_incarnation(next),
        None => (Decision::Current(None), Choice::default()),
    }
}

fn chosen_incarnation(next: PodGroupRef) -> (Decision, Choice) {
    (Decision::Next(next.clone()), Choice { next: Some(next), postponed: None })
}

/// The `PodGroup` of the next incarnation. Its number is larger than that of the existing one, also if the clock of an earlier leader was ahead.
fn next_incarnation(gang: &str, existing: Option<&str>, spec: PodGroupSpec, now: Timestamp) -> PodGroupRef {
    let existing = existing.and_then(|existing| number(gang, existing)).map(|number| number.incarnation);
    PodGroupRef::of_incarnation(gang, later_than(existing, now), spec)
}

/// The next `PodGroup` of the same incarnation.
fn successor((gang, current): (&str, &str), spec: PodGroupSpec, now: Timestamp) -> Option<PodGroupRef> {
    let PodGroupNumber { incarnation, successor } = number(gang, current)?;
    let number = PodGroupNumber { incarnation, successor: Some(later_than(successor, now)) };
    Some(PodGroupRef::of_number(gang, number, spec))
}

fn later_than(existing: Option<i64>, now: Timestamp) -> i64 {
    now.as_millisecond().max(existing.map_or(0, |existing| existing.saturating_add(1)))
}

/// The later one. A name that no `PodGroup` of the gang has is ignored.
pub(crate) fn latest(gang: &str, one: Option<&String>, other: Option<&String>) -> Option<String> {
    let valid = [one, other].into_iter().flatten().filter_map(|name| Some((number(gang, name)?, name)));
    valid.max().map(|(_, name)| name.clone())
}
