//! A cluster with one set.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use grove_api_types::labels::{self, Component};
use grove_api_types::ownership::controller_of;
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use grove_controller::plan::{PatchBody, Plan, Step};
use grove_controller::slim_pod::{
    SlimContainerState, SlimContainerStatus, SlimPod, SlimPodCondition, SlimWaitingState,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::{Resource, ResourceExt};
use pclq_controller::rehearsal::reconcile_clique;
use pcs_controller::rehearsal::Objects;
use serde_json::Value;

use crate::store::{self, Stamp, Store};

/// Pods whose template has this label with the value `true` never start.
pub const BROKEN: &str = "broken";
/// The label of the cliques in the template whose value a film shows for each pod.
pub const VERSION: &str = "version";
/// The kinds that the model has. A write to another kind is not part of it.
const KINDS: [&str; 4] = ["PodGang", "PodCliqueScalingGroup", "PodClique", "Pod"];

/// The objects, and the writes to them.
#[derive(Clone, Debug)]
pub struct Model {
    objects: Objects,
    pods: Store<SlimPod>,
    writes: u64,
}

/// Who acts next.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Actor {
    /// The reconciler of sets.
    Set,
    /// The reconciler of scaling groups, for the group of this name.
    Group(String),
    /// The reconciler of cliques, for the clique of this name.
    Clique(String),
    /// The kubelet of the pod of this name.
    Kubelet(String),
}

impl Model {
    /// A cluster with this set, before any reconcile.
    ///
    /// # Errors
    /// If the text is no set.
    pub fn new(manifest: &str) -> Result<Self, String> {
        let value: Value = serde_saphyr::from_str(manifest).map_err(|error| error.to_string())?;
        let mut set: PodCliqueSet = serde_json::from_value(value).map_err(|error| error.to_string())?;
        let metadata = set.meta_mut();
        metadata.namespace.get_or_insert_with(|| "default".to_owned());
        metadata.uid = Some("uid-set".to_owned());
        metadata.generation = Some(1);
        let objects = Objects {
            set,
            gangs: BTreeMap::new(),
            groups: BTreeMap::new(),
            cliques: BTreeMap::new(),
            templates: BTreeMap::new(),
        };
        let mut model = Self { objects, pods: Store::new(), writes: 0 };
        model.remember_template();
        Ok(model)
    }

    /// The set.
    pub fn set(&self) -> &PodCliqueSet {
        &self.objects.set
    }

    /// The clique of this name.
    pub fn clique(&self, name: &str) -> Option<&PodClique> {
        self.objects.cliques.get(name).map(AsRef::as_ref)
    }

    /// The cliques, by name.
    pub fn cliques(&self) -> impl Iterator<Item = &PodClique> {
        self.objects.cliques.values().map(AsRef::as_ref)
    }

    /// The pods of a clique, by their indices.
    pub fn pods_of(&self, clique: &str) -> BTreeMap<i32, &SlimPod> {
        let index = |pod: &SlimPod| pod.labels().get(labels::POD_INDEX)?.parse().ok();
        let pods = self.pods.values().filter(|pod| pod.labels().get(labels::POD_CLIQUE).is_some_and(|of| of == clique));
        pods.filter_map(|pod| Some((index(pod)?, &**pod))).collect()
    }

    /// The pods.
    pub fn pods(&self) -> impl Iterator<Item = &SlimPod> {
        self.pods.values().map(AsRef::as_ref)
    }

    /// The user changes the spec of the set.
    pub fn write(&mut self, change: impl FnOnce(&mut PodCliqueSet)) {
        change(&mut self.objects.set);
        self.writes += 1;
        let metadata = self.objects.set.meta_mut();
        metadata.generation = metadata.generation.map(|generation| generation + 1);
        self.remember_template();
    }

    /// The user gives all cliques of the template this version. The pods of a broken one never become ready.
    pub fn update(&mut self, version: &str, is_broken: bool) {
        self.update_cliques(|_| true, version, is_broken);
    }

    /// The user gives these cliques of the template this version.
    pub fn update_cliques(&mut self, is_updated: impl Fn(&str) -> bool, version: &str, is_broken: bool) {
        self.write(|set| {
            for clique in set.spec.template.cliques.iter_mut().filter(|clique| is_updated(&clique.name)) {
                clique.labels.insert(VERSION.to_owned(), version.to_owned());
                clique.labels.insert(BROKEN.to_owned(), is_broken.to_string());
            }
        });
    }

    /// The user, or an autoscaler, scales a clique outside of scaling groups, or a scaling group.
    pub fn scale(&mut self, name: &str, replicas: i32) {
        let stamp = self.stamp();
        let scale = |object: &mut Value| {
            object["spec"]["replicas"] = replicas.into();
            true
        };
        if !store::change(&mut self.objects.groups, name, stamp, scale) {
            store::change(&mut self.objects.cliques, name, stamp, scale);
        }
    }

    /// The user deletes a pod.
    pub fn delete_pod(&mut self, name: &str) {
        self.pods.remove(name);
    }

    /// The user deletes a clique and, as the garbage collector, its pods.
    pub fn delete_clique(&mut self, name: &str) {
        self.delete("PodClique", name);
    }

    /// So many seconds pass without a write.
    pub fn wait(&mut self, seconds: u64) {
        self.writes += seconds;
    }

    /// Everybody who could act now.
    pub fn actors(&self) -> Vec<Actor> {
        let groups = self.objects.groups.keys().cloned().map(Actor::Group);
        let cliques = self.objects.cliques.keys().cloned().map(Actor::Clique);
        let starting = self.pods.values().filter(|pod| !pod.is_ready() && pod.status.container_statuses.is_empty());
        let kubelets = starting.map(|pod| Actor::Kubelet(pod.name_any()));
        [Actor::Set].into_iter().chain(groups).chain(cliques).chain(kubelets).collect()
    }

    /// Lets somebody act, and returns the writes as text.
    pub fn act(&mut self, actor: &Actor) -> Vec<String> {
        match actor {
            Actor::Set => self.reconcile_set(),
            Actor::Group(name) => self.reconcile_group(name),
            Actor::Clique(name) => self.reconcile_clique(name),
            Actor::Kubelet(name) => self.start_pod(name),
        }
    }

    /// Lets everybody act in turn, until nobody writes. Returns the number of rounds; `None` if somebody still writes after `most` rounds.
    pub fn settle(&mut self, most: usize) -> Option<usize> {
        (0..most).find(|_| {
            let actors = self.actors();
            let writes: usize = actors.iter().map(|actor| self.act(actor).len()).sum();
            writes == 0
        })
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_second(i64::try_from(self.writes).unwrap_or(i64::MAX)).unwrap_or(Timestamp::MAX)
    }

    /// Each write takes a second.
    fn stamp(&mut self) -> Stamp {
        self.writes += 1;
        Stamp { version: self.writes, now: self.now() }
    }

    fn remember_template(&mut self) {
        let template = grove_api_types::admission::default::pod_clique_set(&self.objects.set).spec.template;
        self.objects.templates.insert(Objects::hash(&template), template);
    }

    fn reconcile_set(&mut self) -> Vec<String> {
        let decision = self.objects.reconcile_set(self.now());
        let mut writes = self.execute(&decision.plan);
        if self.objects.set.status.as_ref() != Some(&decision.status) {
            self.objects.set.status = Some(decision.status);
            writes.push(format!("status of PodCliqueSet {}", self.objects.set.name_any()));
        }
        writes
    }

    fn reconcile_group(&mut self, name: &str) -> Vec<String> {
        let Some(decision) = self.objects.reconcile_group(name, self.now()) else { return vec![] };
        let mut writes = self.execute(&decision.plan);
        let Some(group) = self.objects.groups.get_mut(name) else { return writes };
        if group.status.as_ref() != Some(&decision.status) {
            Arc::make_mut(group).status = Some(decision.status);
            writes.push(format!("status of PodCliqueScalingGroup {name}"));
        }
        writes
    }

    fn reconcile_clique(&mut self, name: &str) -> Vec<String> {
        let Some(clique) = self.objects.cliques.get(name).cloned() else { return vec![] };
        let is_own = |pod: &&Arc<SlimPod>| controller_of(&pod.metadata).is_some_and(|owner| owner.name == name);
        let pods = self.pods.values().filter(is_own).cloned().collect();
        let gang = clique.labels().get(labels::POD_GANG).and_then(|gang| self.objects.gangs.get(gang)).cloned();
        let decision = reconcile_clique(&clique, pods, gang, self.now());
        let mut writes = self.execute(&decision.plan);
        let Some(clique) = self.objects.cliques.get_mut(name) else { return writes };
        if clique.status.as_ref() != Some(&decision.status) {
            Arc::make_mut(clique).status = Some(decision.status);
            writes.push(format!("status of PodClique {name}"));
        }
        writes
    }

    /// The pod becomes ready, or cannot start.
    fn start_pod(&mut self, name: &str) -> Vec<String> {
        let now = Time(self.stamp().now);
        let Some(pod) = self.pods.get_mut(name).map(Arc::make_mut) else { return vec![] };
        if is_broken(pod) {
            let waiting = SlimWaitingState { reason: Some("ImagePullBackOff".to_owned()), message: None };
            let state = Some(SlimContainerState { waiting: Some(waiting) });
            pod.status.container_statuses = vec![SlimContainerStatus { state, ..SlimContainerStatus::default() }];
            return vec![format!("Pod {name} cannot start")];
        }
        let ready = SlimPodCondition {
            type_: "Ready".to_owned(),
            status: "True".to_owned(),
            last_transition_time: Some(now),
            ..SlimPodCondition::default()
        };
        pod.spec.node_name = Some("node".to_owned());
        pod.status.phase = Some("Running".to_owned());
        pod.status.conditions = vec![ready];
        vec![format!("Pod {name} is ready")]
    }

    /// Executes the writes to the kinds of the model. A rejected write ends the plan, as in the executor.
    fn execute(&mut self, plan: &Plan) -> Vec<String> {
        let mut writes = Vec::new();
        for step in plan.steps().filter(|step| KINDS.contains(&step.target().resource.kind.as_str())) {
            if !self.apply(step) {
                break;
            }
            writes.push(step.to_string());
        }
        writes
    }

    fn apply(&mut self, step: &Step) -> bool {
        let (stamp, name) = (self.stamp(), step.target().name.as_str());
        let kind = step.target().resource.kind.as_str();
        let Self { objects, pods, .. } = self;
        match step {
            Step::Create(create) => {
                let value = create.object.value();
                match kind {
                    "PodGang" => store::create(&mut objects.gangs, value, stamp),
                    "PodCliqueScalingGroup" => store::create(&mut objects.groups, value, stamp),
                    "PodClique" => store::create(&mut objects.cliques, value, stamp),
                    _ => store::create(pods, value, stamp),
                }
            }
            Step::Patch(patch) => {
                let change = |object: &mut Value| match &patch.change {
                    PatchBody::Merge(patch) => store::merge(object, patch.value()),
                    PatchBody::Json(patch) => json_patch::patch(object, patch).is_ok(),
                };
                match kind {
                    "PodGang" => store::change(&mut objects.gangs, name, stamp, change),
                    "PodCliqueScalingGroup" => store::change(&mut objects.groups, name, stamp, change),
                    "PodClique" => store::change(&mut objects.cliques, name, stamp, change),
                    _ => store::change(pods, name, stamp, change),
                }
            }
            Step::Delete(_) => self.delete(kind, name),
            Step::Adopt(_) => false,
        }
    }

    /// Deletes an object and, as the garbage collector, what it controls.
    fn delete(&mut self, kind: &str, name: &str) -> bool {
        match kind {
            "PodGang" => self.objects.gangs.remove(name).is_some(),
            "PodCliqueScalingGroup" => {
                let is_deleted = self.objects.groups.remove(name).is_some();
                let controlled = |clique: &PodClique| controller_of(&clique.metadata).is_some_and(|it| it.name == name);
                let cliques: BTreeSet<_> =
                    self.cliques().filter(|clique| controlled(clique)).map(ResourceExt::name_any).collect();
                for clique in &cliques {
                    self.delete("PodClique", clique);
                }
                is_deleted
            }
            "PodClique" => {
                self.pods.retain(|_, pod| controller_of(&pod.metadata).is_none_or(|owner| owner.name != name));
                self.objects.cliques.remove(name).is_some()
            }
            _ => self.pods.remove(name).is_some(),
        }
    }
}

fn is_broken(pod: &SlimPod) -> bool {
    pod.labels().get(BROKEN).is_some_and(|broken| broken == "true")
}

/// Whether the clique belongs to a scaling group.
pub(crate) fn is_member(clique: &PodClique) -> bool {
    clique.labels().get(labels::COMPONENT).is_some_and(|component| component == Component::GroupPodClique.value())
}
