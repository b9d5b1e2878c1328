//! The incarnations of gangs in the workload API of Kubernetes. Each incarnation has a `PodGroup` of its own name, because a `PodGroup`
//! cannot be used again: the terminating pods of an earlier incarnation count as its members. [ADR 23] explains the design.
//!
//! Only the reconciler of sets decides which `PodGroup` a gang has ([`decision`]), and records it in annotations of the `PodGang`. The
//! cliques have the name of their gang's `PodGroup`, and pclq-controller copies it to the pods.
//!
//! [ADR 23]: ../../../docs/adr/0023-native-gangs.md

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::{Stream, StreamExt};
use grove_api_types::configuration::NativeGangs;
use grove_api_types::deletion::is_terminating;
use grove_api_types::labels;
use grove_api_types::pod_group::{PodGroupRef, PodGroupSpec};
use grove_api_types::scheduler::{GangSupport, Scheduler};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use grove_controller::manager::Manager;
use grove_controller::state_metrics::StateMetrics;
use grove_runtime::caches::{Availability, Cache, Delta, InformerOptions};
use grove_runtime::rbac::{PolicyRule, Verb};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;
use parking_lot::Mutex;

mod decision;
mod gang_decisions;
mod gang_pods;
mod gangs_of_set;
pub(crate) mod live_reads;
mod pod_group;

#[cfg(test)]
mod tests;

use self::decision::GangCliques;
pub(crate) use self::decision::latest;
pub(crate) use self::gang_decisions::{GangDecisions, gang_pending, gang_unreadable};
#[cfg(test)]
pub(crate) use self::gang_pods::{BoundPod, BoundPods};
use self::gang_pods::{GangPods, scheduled};
pub(crate) use self::gangs_of_set::{GangsOfSet, gang_decisions};
pub(crate) use self::pod_group::SlimPodGroup;

/// What this process has decided about the incarnations of gangs. A clone shares it.
#[derive(Clone, Debug)]
pub(crate) struct Incarnations {
    native_gangs: NativeGangs,
    /// The `PodGroup`s of the workload API. The cache is empty: only its availability is read.
    pod_groups: Option<Cache<SlimPodGroup>>,
    choices: Arc<Mutex<Choices>>,
    requests: UnboundedSender<ObjectRef<PodCliqueSet>>,
    receiver: Arc<Mutex<Option<UnboundedReceiver<ObjectRef<PodCliqueSet>>>>>,
}

/// The decisions that are not in use. An entry of a gang ends when the gang has cliques and its annotations record the decision, or when the
/// set no longer has the gang. The entries of a set end with the set.
#[derive(Debug, Default)]
struct Choices {
    /// By the uid of the set and the name of the gang.
    by_set: BTreeMap<String, BTreeMap<String, Choice>>,
    /// The chosen `PodGroup`s that no clique has named yet, by namespace and name. A deleted clique may have used the others.
    unused: BTreeSet<String>,
    /// The scaled gangs of which an update replaces all pods next, by the uid of the set.
    restarts: BTreeMap<String, BTreeMap<String, RequestedRestart>>,
}

/// The revision that the pods of a scaled gang get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestedRestart {
    /// Its hash.
    pub(crate) hash: String,
    /// The generation of the set with this revision.
    pub(crate) generation: Option<i64>,
}

/// A decision about one gang.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    /// The chosen `PodGroup`, which no clique had when it was chosen.
    pub(crate) next: Option<PodGroupRef>,
    /// What a live LIST showed bound pods for. While it stays the same, so does the decision.
    pub(crate) postponed: Option<DecisionInput>,
}

/// What the decision about a gang with bound pods depends on. The gang is decided again when one of them changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DecisionInput {
    /// The fields that the gang gets without bound pods.
    pub(crate) wanted: PodGroupSpec,
    /// The pods of its cliques.
    pub(crate) pods: GangPods,
}

impl Incarnations {
    /// Starts the informer that shows whether the API server serves the workload API, unless the configuration excludes native gangs.
    pub(crate) fn start(manager: &Manager) -> Self {
        let native_gangs = manager.config().native_gangs;
        let options = || {
            let options = InformerOptions::<SlimPodGroup>::default().with_filter(|_| false).optional();
            options.with_other_version(pod_group::use_other_version)
        };
        let pod_groups = (native_gangs == NativeGangs::Auto).then(|| manager.start_informer(options()));
        Self::new(native_gangs, pod_groups)
    }

    fn new(native_gangs: NativeGangs, pod_groups: Option<Cache<SlimPodGroup>>) -> Self {
        let (requests, receiver) = unbounded();
        let receiver = Arc::new(Mutex::new(Some(receiver)));
        Self { native_gangs, pod_groups, choices: Arc::default(), requests, receiver }
    }

    /// With an API server that serves the workload API.
    #[cfg(test)]
    pub(crate) fn of_served_api() -> Self {
        Self::new(NativeGangs::Auto, Some(Cache::from_objects([])))
    }

    /// Whether new incarnations of the set's gangs have `PodGroup`s. If the pods of the set name another `PodGroup`, they are scheduled
    /// individually, as the user wants it.
    pub(crate) fn apply_to(&self, set: &PodCliqueSet, scheduler: Scheduler) -> bool {
        let is_served = || self.pod_groups.as_ref().is_some_and(|cache| cache.availability() == Availability::Served);
        let names_group = || {
            let cliques = &set.spec.template.cliques;
            cliques
                .iter()
                .any(|clique| clique.spec.pod_spec.get("schedulingGroup").is_some_and(|group| !group.is_null()))
        };
        self.native_gangs == NativeGangs::Auto
            && scheduler.gang_support() == GangSupport::WorkloadApi
            && is_served()
            && !names_group()
    }

    /// The earlier decisions about the gangs of a set, without `PodGroup`s that a clique has named.
    pub(crate) fn choices(&self, set: &PodCliqueSet) -> BTreeMap<String, Choice> {
        let Choices { by_set, unused, .. } = &*self.choices.lock();
        let mut choices = by_set.get(uid(set)).cloned().unwrap_or_default();
        for choice in choices.values_mut() {
            choice.next = choice.next.take().filter(|next| unused.contains(&key(set, &next.name)));
        }
        choices
    }

    /// Replaces the decisions about the gangs of a set.
    pub(crate) fn record(&self, set: &PodCliqueSet, choices: BTreeMap<String, Choice>) {
        let Choices { by_set, unused, .. } = &mut *self.choices.lock();
        let names = |choices: &BTreeMap<String, Choice>| -> BTreeSet<String> {
            let next = choices.values().filter_map(|choice| choice.next.as_ref());
            next.map(|next| key(set, &next.name)).collect()
        };
        let (before, after) = (by_set.remove(uid(set)).as_ref().map(names).unwrap_or_default(), names(&choices));
        for ended in before.difference(&after) {
            unused.remove(ended);
        }
        unused.extend(after.difference(&before).cloned());
        if !choices.is_empty() {
            by_set.insert(uid(set).to_owned(), choices);
        }
    }

    /// Whether a live LIST has shown a bound pod of the gang, and its cliques have reported no change since.
    pub(crate) fn has_bound_pods(
        choices: &BTreeMap<String, Choice>,
        gang: &PodGang,
        cliques: &Cache<PodClique>,
    ) -> bool {
        let postponed = choices.get(&gang.name_any()).and_then(|choice| choice.postponed.as_ref());
        let namespace = gang.metadata.namespace.as_deref().unwrap_or_default();
        postponed.is_some_and(|postponed| postponed.pods.equal_those_of(Some(gang), cliques, namespace))
    }

    /// The sets with a changed clique that a decision depends on: its gang has a `PodGroup`, and another number of pods is desired, or bound
    /// while the decision about the gang is postponed.
    pub(crate) fn sets_of_changed_cliques(
        &self,
        sets: &Cache<PodCliqueSet>,
        cliques: &Cache<PodClique>,
    ) -> impl Stream<Item = ObjectRef<PodCliqueSet>> + Send + 'static + use<> {
        let (incarnations, sets) = (self.clone(), sets.clone());
        cliques
            .subscribe()
            .filter_map(move |delta| std::future::ready(incarnations.set_of_changed_clique(&sets, &delta)))
    }

    fn set_of_changed_clique(
        &self,
        sets: &Cache<PodCliqueSet>,
        delta: &Delta<PodClique>,
    ) -> Option<ObjectRef<PodCliqueSet>> {
        let clique = delta.object().filter(|clique| clique.annotations().contains_key(labels::POD_GROUP))?;
        let [old, new] = [&delta.old, &delta.new].map(|clique| clique.as_deref());
        let has_other_replicas = old.map(|clique| clique.spec.replicas) != new.map(|clique| clique.spec.replicas);
        let is_scaled = old.is_some() && new.is_some() && has_other_replicas;
        let has_other_pods = has_other_replicas || old.map(scheduled) != new.map(scheduled);
        let set = sets.get(clique.metadata.namespace.as_deref()?, clique.labels().get(labels::PART_OF)?)?;
        let is_postponed = || {
            let choices = self.choices.lock();
            let choice = choices.by_set.get(uid(&set)).zip(clique.labels().get(labels::POD_GANG));
            choice.and_then(|(gangs, gang)| gangs.get(gang)).is_some_and(|choice| choice.postponed.is_some())
        };
        (is_scaled || (has_other_pods && is_postponed())).then(|| ObjectRef::from_obj(&*set))
    }

    /// Drops the decisions about a deleted set.
    pub(crate) fn forget(&self, set: &PodCliqueSet) {
        self.record(set, BTreeMap::new());
        self.retain_restarts(set, |_, _| false);
    }

    /// The `PodGroup` that a clique names is in use. Called before any reader of the cache has the clique.
    pub(crate) fn observe_clique(&self, delta: &Delta<PodClique>) {
        let Some(clique) = delta.new.as_deref() else { return };
        let Some(pod_group) = clique.annotations().get(labels::POD_GROUP) else { return };
        self.choices.lock().unused.remove(&key(clique, pod_group));
    }

    /// Counts the gangs with an entry.
    pub(crate) fn add_state_metrics(&self, metrics: &StateMetrics, controller: &'static str) {
        let choices = Arc::clone(&self.choices);
        metrics.add(controller, "incarnations", move || choices.lock().by_set.values().map(BTreeMap::len).sum());
        let choices = Arc::clone(&self.choices);
        metrics.add(controller, "restarts", move || choices.lock().restarts.values().map(BTreeMap::len).sum());
    }

    /// Whether the scaling groups of the set may create cliques of the gang: its annotations have the current `PodGroup`. A gang that has
    /// lost all its cliques restarts as a whole, so its set decides first.
    pub(crate) fn allow_creates(
        &self,
        (set, applies): (&PodCliqueSet, bool),
        gang: &PodGang,
        has_cliques: bool,
    ) -> bool {
        let current = gang.annotations().get(labels::POD_GROUP);
        if has_cliques || (!applies && current.is_none()) {
            return true;
        }
        current.is_some_and(|current| self.choices.lock().unused.contains(&key(set, current)))
    }

    /// Enqueues the set, which begins the next incarnation of this gang, because it is the turn of its replica of a scaling group to get the revision
    /// with this hash. A set that no longer exists in the cache has been forgotten, or is forgotten after this.
    pub(crate) fn request_restart(&self, sets: &Cache<PodCliqueSet>, set: &PodCliqueSet, gang: String, hash: &str) {
        let restart = RequestedRestart { hash: hash.to_owned(), generation: set.metadata.generation };
        let mut choices = self.choices.lock();
        let cached = set.namespace().and_then(|namespace| sets.get(&namespace, &set.name_any()));
        if cached.is_none_or(|cached| uid(&cached) != uid(set)) {
            return;
        }
        choices.restarts.entry(uid(set).to_owned()).or_default().insert(gang, restart);
        drop(choices);
        self.request_decision(set);
    }

    /// The requests of [`request_restart`](Self::request_restart), by the gangs.
    pub(crate) fn requested_restarts(&self, set: &PodCliqueSet) -> BTreeMap<String, RequestedRestart> {
        self.choices.lock().restarts.get(uid(set)).cloned().unwrap_or_default()
    }

    /// Ends the other requests about gangs of the set.
    pub(crate) fn retain_restarts(&self, set: &PodCliqueSet, is_open: impl Fn(&str, &RequestedRestart) -> bool) {
        let restarts = &mut self.choices.lock().restarts;
        let Some(of_set) = restarts.get_mut(uid(set)) else { return };
        of_set.retain(|gang, restart| is_open(gang, restart));
        if of_set.is_empty() {
            restarts.remove(uid(set));
        }
    }

    /// Enqueues the set, which decides the incarnations of its gangs.
    pub(crate) fn request_decision(&self, set: &PodCliqueSet) {
        // The receiver is dropped only when the process ends.
        let _ = self.requests.unbounded_send(ObjectRef::from_obj(set));
    }

    /// The sets of [`request_decision`](Self::request_decision). The first call returns all; later ones return nothing.
    pub(crate) fn requested_decisions(&self) -> Option<UnboundedReceiver<ObjectRef<PodCliqueSet>>> {
        self.receiver.lock().take()
    }
}

/// The permissions for the schedulers that read the workload API.
pub(crate) fn rules_of_schedulers() -> Vec<(Scheduler, Vec<PolicyRule>)> {
    let rules = || {
        vec![
            PolicyRule::for_resource::<SlimPodGroup>(
                &[Verb::List, Verb::Watch],
                "find out whether the API server serves them",
            ),
            PolicyRule::for_resource::<SlimPodGroup>(
                &[Verb::Create],
                "find out by a dry run whether the API server stores their topology keys",
            ),
            PolicyRule::for_resource::<Pod>(&[Verb::List], "find out whether a pod of a gang is bound to a node"),
        ]
    };
    let reads_workload_api = |scheduler: &Scheduler| scheduler.gang_support() == GangSupport::WorkloadApi;
    let schedulers = Scheduler::ALL.into_iter().map(|(_, scheduler)| scheduler).filter(reads_workload_api);
    schedulers.map(|scheduler| (scheduler, rules())).collect()
}

/// The cliques of a gang, which have these names, that are not terminating and belong to the set. The cliques of an earlier set of the same
/// name do not. A label that a user has edited does not matter.
pub(crate) fn cliques_of_gang<'a>(
    cache: &Cache<PodClique>,
    (namespace, gang): (&str, &str),
    names: impl Iterator<Item = &'a str>,
    belongs_to_set: impl Fn(&PodClique) -> bool,
) -> GangCliques {
    let of_clique = |all: GangCliques, name| match cache.get(namespace, name) {
        Some(clique) if !is_terminating(&*clique) && belongs_to_set(&clique) => {
            all.with(gang, clique.annotations().get(labels::POD_GROUP))
        }
        // Its pods may exist.
        None if cache.unreadable(namespace, name).is_some() => all.with(gang, None),
        Some(_) | None => all,
    };
    names.fold(GangCliques::default(), of_clique)
}

/// Namespace and name of a `PodGroup` of an object in that namespace.
fn key(object: &impl ResourceExt, pod_group: &str) -> String {
    format!("{}/{pod_group}", object.meta().namespace.as_deref().unwrap_or_default())
}

fn uid(set: &PodCliqueSet) -> &str {
    set.metadata.uid.as_deref().unwrap_or_default()
}
