//! Fills [`Observed`] from the caches, and says which changes wake which clique.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::channel::mpsc;
use futures::stream::{self, BoxStream, Stream, StreamExt};
use grove_api_types::admission::default;
use grove_api_types::deletion::is_terminating;
use grove_api_types::labels;
use grove_api_types::names::PodGangName;
use grove_api_types::ownership::controller_of;
use grove_api_types::scheduler_v1alpha1::{PodGang, PodGroup};
use grove_api_types::v1alpha1::PodClique;
use grove_controller::controller::Trigger;
use grove_controller::controllers::Controllers;
use grove_controller::slim::SlimPod;
use grove_controller::{predicates, triggers};
use grove_runtime::caches::{Cache, Delta};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use kube::{Resource, ResourceExt};

use self::followers::Followers;
use super::observed::{self, BaseGang, BaseGroup, Observed};
use crate::Ctx;
use crate::starved::Starved;

pub(super) mod followers;

/// What is kept of the cluster.
pub struct Caches {
    /// All cliques.
    pub cliques: Cache<PodClique>,
    /// Pods that cliques control, and those that say so of themselves.
    pub pods: Cache<SlimPod>,
    /// All gangs.
    pub gangs: Cache<PodGang>,
    followers: Followers,
}

/// What wakes the reconciler.
pub struct Changes {
    /// Changes of cliques.
    pub cliques: BoxStream<'static, Delta<PodClique>>,
    /// Cliques whose pods or gang changed.
    pub touched: BoxStream<'static, Trigger<PodClique>>,
    /// Cliques for whose pods there may be room again.
    pub relieved: BoxStream<'static, ObjectRef<PodClique>>,
}

/// Starts the watches.
pub fn watch(service: &Controllers, starved: Starved) -> (Caches, Changes) {
    let (cliques, clique_changes) = service.watch::<PodClique>(watcher::Config::default(), None);
    let [own, of_others] = triggers::fan_out(clique_changes);
    // Not by labels: those can be edited, and a pod that is out of sight would be replaced while it lives.
    let (pods, pod_changes) = service.watch_filtered::<SlimPod>(matters, Some(slot));
    let (gangs, gang_changes) = service.watch::<PodGang>(watcher::Config::default(), None);
    let (freed, relieved) = mpsc::unbounded();
    let followers = Followers::default();
    let (waiting, known, awaiting) = (followers.clone(), followers.clone(), followers.clone());
    let owners = pod_changes.flat_map(move |delta| {
        // Nobody listens any more when the service stops.
        starved.relieved(&delta).into_iter().for_each(|clique| drop(freed.unbounded_send(clique)));
        let act = needs_reconcile(&delta) || (was_bound(&delta) && is_awaited(&awaiting, &delta));
        stream::iter(concerned(&delta)).map(move |clique| Trigger::new(act, clique))
    });
    let waiting = of_others.flat_map(move |delta| stream::iter(waiting.take(&delta)).map(Trigger::Reconcile));
    let members = gang_changes.flat_map(move |delta| {
        let followers =
            delta.object().map(|gang| followers.of(&gang.namespace().unwrap_or_default(), &gang.name_any()));
        let members = touched(&delta);
        // Cliques that wait for the gang only care for what its groups are.
        let followers = followers.filter(|_| !members.is_empty()).unwrap_or_default();
        // That another list of pods was written is only to be told.
        let act = stands(delta.old.as_deref()) != stands(delta.new.as_deref());
        let members = members.into_iter().map(move |clique| Trigger::new(act, clique));
        stream::iter(members.chain(followers.into_iter().map(Trigger::Reconcile)).collect::<Vec<_>>())
    });
    let again = every_time_all_are_read(&pods, cliques.clone());
    let touched = stream::select_all([owners.boxed(), members.boxed(), waiting.boxed(), again.boxed()]).boxed();
    (Caches { cliques, pods, gangs, followers: known }, Changes { cliques: own, touched, relieved: relieved.boxed() })
}

/// All cliques, whenever all pods were read anew: a pod that came and went meanwhile wakes nobody.
fn every_time_all_are_read(
    pods: &Cache<SlimPod>,
    cliques: Cache<PodClique>,
) -> impl Stream<Item = Trigger<PodClique>> + use<> {
    let lists = stream::unfold(pods.relists(), |mut lists| async move {
        lists.changed().await.ok()?;
        Some(((), lists))
    });
    lists.flat_map(move |()| {
        stream::iter(cliques.all()).map(|clique| Trigger::StatusOnly(ObjectRef::from_obj(&*clique)))
    })
}

/// What is known about `clique` now that all pods were read so often. Its live replica count is an order: zero means that
/// no pod is wanted.
pub fn observe(ctx: &Ctx, clique: &PodClique, lists: u64) -> Observed {
    let mut clique = clique.clone();
    let replicas = clique.spec.replicas;
    default::pod_clique_spec(&mut clique.spec);
    clique.spec.replicas = replicas;
    let uid = clique.uid().unwrap_or_default();
    let namespace = clique.namespace().unwrap_or_default();
    let pods = ctx.caches.pods.owned_by(&uid);
    let mut unowned = ctx.caches.pods.orphans(&namespace);
    unowned.retain(|pod| claims(pod) == clique.metadata.name.as_deref() && !pod.is_terminating());
    let departed = ctx.caches.pods.departed(&uid);
    let known = pods.iter().chain(&unowned).chain(&departed).map(AsRef::as_ref);
    let remembered = ctx.memory.recall(&uid, known, lists);
    let gang = clique.labels().get(labels::POD_GANG).and_then(|gang| ctx.caches.gangs.get(&namespace, gang));
    let base_gang = clique.labels().get(labels::BASE_POD_GANG);
    let base_gang = base_gang.map(|gang| base_gang_of(&ctx.caches, &namespace, gang));
    let own_gang = clique.labels().get(labels::POD_GANG).map(String::as_str).unwrap_or_default();
    let is_awaited = !ctx.caches.followers.of(&namespace, own_gang).is_empty();
    let is_starved = ctx.starved.holds(&clique);
    let default_scheduler = ctx.default_scheduler;
    Observed { clique, pods, unowned, departed, gang, base_gang, is_awaited, remembered, is_starved, default_scheduler }
}

fn base_gang_of(caches: &Caches, namespace: &str, name: &str) -> BaseGang {
    let group = |group: &PodGroup| {
        let status = caches.cliques.get(namespace, &group.name).and_then(|clique| clique.status.clone());
        let scheduled = status.map_or(0, |status| status.scheduled_replicas);
        BaseGroup { name: group.name.clone(), min_replicas: group.min_replicas, scheduled }
    };
    let gang = caches.gangs.get(namespace, name).filter(|gang| !is_terminating(&**gang));
    let groups = gang.map(|gang| gang.spec.podgroups.iter().map(group).collect());
    BaseGang { name: PodGangName::new(name), groups }
}

/// Whether a clique controls the pod, or could.
pub(super) fn matters(pod: &SlimPod) -> bool {
    match controller_of(pod.meta()) {
        Some(owner) => is_clique(owner),
        None => claims(pod).is_some(),
    }
}

fn is_clique(owner: &OwnerReference) -> bool {
    let group = owner.api_version.split_once('/').map(|(group, _)| group);
    owner.kind == PodClique::kind(&()) && group == Some(&*PodClique::group(&()))
}

/// The clique that the pod's labels say it is of.
fn claims(pod: &SlimPod) -> Option<&str> {
    let managed = pod.labels().get(labels::MANAGED_BY).is_some_and(|manager| manager == labels::MANAGER);
    pod.labels().get(labels::POD_CLIQUE).filter(|_| managed).map(String::as_str)
}

/// The cliques that a change of a pod matters to: the one that controls it or did, else the one that could.
pub(super) fn concerned(delta: &Delta<SlimPod>) -> Vec<ObjectRef<PodClique>> {
    let mut cliques = triggers::controllers_of(delta);
    let uncontrolled = delta.new.iter().filter(|pod| controller_of(pod.meta()).is_none());
    for pod in uncontrolled {
        let namespace = pod.namespace().unwrap_or_default();
        let claimed = claims(pod).map(|name| ObjectRef::new(name).within(&namespace));
        cliques.extend(claimed.filter(|claimed| !cliques.contains(claimed)));
    }
    cliques
}

/// Whether a pod's change may call for another pod, or for a repair. That it came, or got further, is only to be told.
pub(super) fn needs_reconcile(delta: &Delta<SlimPod>) -> bool {
    let Delta { old: Some(before), new: Some(after) } = delta else { return delta.is_delete() };
    before.is_live() != after.is_live() || predicates::metadata_or_generation_changed_ignoring_additions(delta)
}

/// Whether the pod has a node now that it did not have.
fn was_bound(delta: &Delta<SlimPod>) -> bool {
    let is_bound = |pod: &Option<Arc<SlimPod>>| pod.as_deref().is_some_and(SlimPod::is_scheduled);
    is_bound(&delta.new) && !is_bound(&delta.old)
}

/// Whether pods of other gangs are held back until the pod's gang is scheduled.
fn is_awaited(followers: &Followers, delta: &Delta<SlimPod>) -> bool {
    let gang = |pod: &SlimPod| Some((pod.namespace()?, pod.labels().get(labels::POD_GANG)?.clone()));
    let gang = delta.new.as_deref().and_then(gang);
    gang.is_some_and(|(namespace, gang)| !followers.of(&namespace, &gang).is_empty())
}

fn stands(gang: Option<&PodGang>) -> Option<&str> {
    gang.filter(|gang| !is_terminating(&**gang))?.metadata.uid.as_deref()
}

/// A pod's place among its siblings.
fn slot(pod: &SlimPod) -> Option<String> {
    observed::index(pod).map(|index| index.to_string())
}

/// The cliques that a change of a gang matters to: those whose group came, went or lists other pods. So the phase and
/// the conditions of a gang wake nobody.
pub(super) fn touched(delta: &Delta<PodGang>) -> Vec<ObjectRef<PodClique>> {
    let (before, after) = (entries(delta.old.as_deref()), entries(delta.new.as_deref()));
    let differing = before.iter().filter(|entry| !after.contains(entry));
    let differing = differing.chain(after.iter().filter(|entry| !before.contains(entry)));
    let names: BTreeSet<&str> = differing.map(|(_, _, group)| group.name.as_str()).collect();
    let namespace = delta.object().and_then(|gang| gang.namespace()).unwrap_or_default();
    names.into_iter().map(|name| ObjectRef::new(name).within(&namespace)).collect()
}

/// The groups of a gang that stands, with their places: what a patch of references tests.
fn entries(gang: Option<&PodGang>) -> Vec<(Option<String>, usize, &PodGroup)> {
    let standing = gang.filter(|gang| !is_terminating(&**gang));
    let uid = standing.and_then(ResourceExt::uid);
    let groups = standing.into_iter().flat_map(|gang| gang.spec.podgroups.iter().enumerate());
    groups.map(|(at, group)| (uid.clone(), at, group)).collect()
}
