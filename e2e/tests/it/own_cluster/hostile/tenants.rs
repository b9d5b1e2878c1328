//! Tenants that cause as much work as the API server allows, each with sets in a namespace of its own.

use std::convert::Infallible;
use std::time::Duration;

use e2e::poll::poll_until;
use e2e::{Namespace, NamespaceState, fixtures, test_cluster};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use k8s_openapi::api::core::v1::{Namespace as KubeNamespace, Pod, Service, ServiceAccount};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::conditions;
use kube::runtime::wait::await_condition;
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::time::interval;

use crate::it::rejected_creates::{CLIQUES, PODS, create_empty_quota, create_quota};

mod memory;
mod templates;

/// The pods that fit the quota of the waiting cliques: four replicas of five pods.
const POD_QUOTA: u32 = 20;
/// The quota of the sets with more cliques, and the number of these sets.
const CLIQUE_QUOTA: u32 = 100;
const QUOTA_SETS: usize = 4;
/// A clique and its only pod count twice in the size of a gang, which is at most 8000.
const MAX_POD_GROUPS: usize = 4000;
/// The pods of the clique that makes its gang too large.
const OVERSIZED_PODS: [usize; 2] = [100, 99];
/// The sizes of the sets of the tenants.
pub(super) struct Sizes {
    large_pods: usize,
    spec_bytes: usize,
    gangs: usize,
    gang_pods: usize,
    pod_groups: usize,
    cliques: usize,
    quota_cliques: usize,
    pod_claims: usize,
    dense_sets: usize,
}

impl Sizes {
    pub(super) fn from_env() -> Self {
        let number = test_cluster::required_number;
        Self {
            large_pods: number("GROVE_SOAK_LARGE_PODS"),
            spec_bytes: number("GROVE_SOAK_SPEC_BYTES"),
            gangs: number("GROVE_SOAK_GANGS"),
            gang_pods: number("GROVE_SOAK_GANG_PODS"),
            pod_groups: number("GROVE_SOAK_POD_GROUPS"),
            cliques: number("GROVE_SOAK_CLIQUES"),
            quota_cliques: number("GROVE_SOAK_QUOTA_CLIQUES"),
            pod_claims: number("GROVE_SOAK_POD_CLAIMS"),
            dense_sets: number("GROVE_SOAK_DENSE_SETS"),
        }
    }
}

/// A tenant.
#[derive(Clone, Copy)]
pub(super) enum Tenant {
    /// Creates and deletes a set with a very large pod spec. A quota rejects its pods.
    LargePods,
    /// Creates and deletes a set with almost as many pods as a set may have. A quota rejects them.
    ManyPods,
    /// Creates and deletes a set with a gang of very many pod groups. Its pods are created, and wait for a gate of the tenant.
    ManyPodGroups,
    /// Has such a gang, and scales one of its cliques up and down, so that the gang is too large.
    OversizedGang,
    /// Has many cliques that wait for quota, and deletes pods that use the quota.
    WaitingCliques,
    /// Has sets with more cliques than a quota allows, and creates and deletes a Service once a second.
    RejectedCliques,
    /// Has a clique with very many claims for each pod, and scales it to more claims than a clique may have, and to as many as it may have. A
    /// quota rejects the claims.
    ClaimsPerPod,
    /// Has sets with pod specs that consist of very small maps. A quota rejects their pods.
    DenseSets,
    /// Has a set that refers to very many claim templates that do not exist, and annotates it.
    MissingTemplates,
}

impl Tenant {
    pub(super) const ALL: [Self; 9] = [
        Self::LargePods,
        Self::ManyPods,
        Self::ManyPodGroups,
        Self::OversizedGang,
        Self::WaitingCliques,
        Self::RejectedCliques,
        Self::ClaimsPerPod,
        Self::DenseSets,
        Self::MissingTemplates,
    ];

    /// The name of the tenant, and the end of the name of its dev cluster.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::LargePods => "large-pods",
            Self::ManyPods => "many-pods",
            Self::ManyPodGroups => "many-pod-groups",
            Self::OversizedGang => "oversized-gang",
            Self::WaitingCliques => "waiting-cliques",
            Self::RejectedCliques => "rejected-cliques",
            Self::ClaimsPerPod => "claims-per-pod",
            Self::DenseSets => "dense-sets",
            Self::MissingTemplates => "missing-templates",
        }
    }

    pub(super) fn description(self, sizes: &Sizes) -> String {
        let Sizes {
            large_pods,
            spec_bytes,
            gangs,
            gang_pods,
            pod_groups,
            cliques,
            quota_cliques,
            pod_claims,
            dense_sets,
        } = sizes;
        match self {
            Self::LargePods => format!("{large_pods} pods with a spec of {spec_bytes} bytes"),
            Self::ManyPods => format!("{gangs} gangs of {gang_pods} pods"),
            Self::ManyPodGroups => format!("a gang of {pod_groups} pod groups"),
            Self::OversizedGang => format!("a gang of {pod_groups} pod groups that is too large"),
            Self::WaitingCliques => format!("{cliques} cliques that wait for quota"),
            Self::RejectedCliques => format!("{QUOTA_SETS} sets of {quota_cliques} cliques above a quota"),
            Self::ClaimsPerPod => format!("{pod_claims} claims per pod"),
            Self::DenseSets => format!("{dense_sets} sets of small maps"),
            Self::MissingTemplates => {
                format!("{} references to claim templates that do not exist", templates::references())
            }
        }
    }

    /// Creates the quota, and the objects that stay during the measurement.
    pub(super) async fn prepare(self, ns: &Namespace, sizes: &Sizes) {
        match self {
            Self::LargePods | Self::ManyPods => create_empty_quota(ns, PODS).await,
            Self::ManyPodGroups => create_unwatched_namespace(ns).await,
            Self::ClaimsPerPod => memory::create_clique(ns, sizes.pod_claims).await,
            Self::DenseSets => memory::create_dense_sets(ns, sizes.dense_sets).await,
            Self::MissingTemplates => templates::create(ns).await,
            Self::OversizedGang => {
                create_unwatched_namespace(ns).await;
                create_pod_groups(ns, sizes.pod_groups).await;
            }
            Self::WaitingCliques => create_waiting_cliques(ns, sizes.cliques).await,
            Self::RejectedCliques => {
                create_quota(ns, CLIQUES, CLIQUE_QUOTA).await;
                for number in 0..QUOTA_SETS {
                    let in_base_gang = sizes.quota_cliques.min(MAX_POD_GROUPS);
                    let set = set_of_group(&format!("hostile-{number}"), sizes.quota_cliques, in_base_gang);
                    ns.create_yaml::<PodCliqueSet>(&set).await;
                }
                ns.wait_for("the quota is used, and all scaling groups exist", |state| {
                    state.groups.len() == QUOTA_SETS && u32::try_from(state.cliques.len()) == Ok(CLIQUE_QUOTA)
                })
                .await;
            }
        }
    }

    /// Causes work until the future is dropped.
    pub(super) async fn disturb(self, ns: &Namespace, sizes: &Sizes) -> Infallible {
        let mut pace = self.period().map(interval);
        let mut round = 0;
        loop {
            if let Some(pace) = &mut pace {
                pace.tick().await;
            }
            self.disturb_once(ns, sizes, round).await;
            round += 1;
        }
    }

    /// The time from one disturbance to the next; `None` if it begins as soon as the services have done the work of the last one.
    fn period(self) -> Option<Duration> {
        match self {
            Self::LargePods | Self::ManyPods | Self::ManyPodGroups | Self::WaitingCliques => None,
            Self::OversizedGang | Self::RejectedCliques | Self::ClaimsPerPod | Self::MissingTemplates => {
                Some(Duration::from_secs(1))
            }
            // A change of a dense set is a second of work for the services and the API server together.
            Self::DenseSets => Some(Duration::from_secs(10)),
        }
    }

    async fn disturb_once(self, ns: &Namespace, sizes: &Sizes, round: usize) {
        match self {
            Self::LargePods => {
                create_and_delete(ns, 1, &set_of_replicas(1, sizes.large_pods, sizes.spec_bytes)).await;
            }
            Self::ManyPods => {
                create_and_delete(ns, sizes.gangs, &set_of_replicas(sizes.gangs, sizes.gang_pods, 1)).await;
            }
            Self::ManyPodGroups => create_and_delete_pod_groups(ns, sizes.pod_groups).await,
            Self::OversizedGang => scale_a_clique(ns).await,
            Self::WaitingCliques => delete_a_pod(ns).await,
            Self::RejectedCliques => create_and_delete_a_service(ns).await,
            Self::ClaimsPerPod => memory::scale_clique(ns, sizes.pod_claims).await,
            Self::DenseSets => memory::change_dense_set(ns, sizes.dense_sets, round).await,
            Self::MissingTemplates => templates::annotate(ns, round).await,
        }
    }
}

async fn create_and_delete_a_service(ns: &Namespace) {
    let service = "{metadata: {name: other}, spec: {clusterIP: None, selector: {app: other}}}";
    ns.create_yaml::<Service>(service).await;
    ns.delete_object::<Service>("other").await;
}

/// Creates a set that uses the whole quota, and cliques that wait for it.
async fn create_waiting_cliques(ns: &Namespace, cliques: usize) {
    create_quota(ns, PODS, POD_QUOTA).await;
    ns.create_yaml::<PodCliqueSet>(&fixtures::three_cliques("other", 4)).await;
    let is_available = |state: &NamespaceState| state.is_available("other") && state.pods.len() == 20;
    let other = ns.wait_for("the other set uses the quota", is_available).await.cliques.len();
    ns.create_yaml::<PodCliqueSet>(&set_of_replicas(cliques, 1, 1)).await;
    ns.wait_for("all cliques exist", |state| state.cliques.len() == other + cliques).await;
}

/// A set with one clique per replica.
fn set_of_replicas(replicas: usize, pods: usize, text_bytes: usize) -> String {
    let text = "x".repeat(text_bytes);
    let env = format!("env: [{{name: TEXT, value: {text}}}]");
    set("hostile", (replicas, pods), &format!("containers: [{{name: main, image: pause, {env}}}]"))
}

/// A set with a scaling group of replicas of one pod. A gate of the tenant keeps the pods from the scheduler.
fn set_of_group(name: &str, replicas: usize, min_available: usize) -> String {
    let gate = "schedulingGates: [{name: e2e.example/hold}]";
    let set = set(name, (1, 1), &format!("{gate}, containers: [{{name: main, image: pause}}]"));
    let group = format!("{{name: g, cliqueNames: [a], replicas: {replicas}, minAvailable: {min_available}}}");
    format!("{set}    podCliqueScalingGroups: [{group}]\n")
}

fn set(name: &str, (replicas, pods): (usize, usize), pod_spec: &str) -> String {
    format!(
        "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  template:
    cliques:
    - {{name: a, spec: {{roleName: a, replicas: {pods}, minAvailable: 1, podSpec: {{{pod_spec}}}}}}}
"
    )
}

/// Creates a set, waits until the creates of all its cliques are rejected, and deletes it. A new set has no backoff.
async fn create_and_delete(ns: &Namespace, replicas: usize, set: &str) {
    ns.create_yaml::<PodCliqueSet>(set).await;
    ns.wait_for("each clique reports the rejection", |state| {
        state.cliques.len() == replicas && state.cliques.values().all(reports_an_error)
    })
    .await;
    ns.delete_object::<PodCliqueSet>("hostile").await;
    ns.wait_for("the set is deleted", NamespaceState::is_empty).await;
}

fn reports_an_error(clique: &PodClique) -> bool {
    clique.status.as_ref().is_some_and(|status| !status.last_errors.is_empty())
}

/// The name of a namespace that the test does not watch: each change of a large gang is an event of a megabyte.
fn unwatched(ns: &Namespace) -> String {
    format!("{}-groups", ns.name)
}

async fn create_unwatched_namespace(ns: &Namespace) {
    let (client, name) = (&ns.client, unwatched(ns));
    let namespace: KubeNamespace = serde_json::from_value(json!({ "metadata": { "name": name } })).expect("JSON");
    let namespaces = Api::<KubeNamespace>::all(client.clone());
    namespaces.create(&PostParams::default(), &namespace).await.expect("a namespace");
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), &name);
    let exists = |account: Option<&ServiceAccount>| account.is_some();
    await_condition(accounts, "default", exists).await.expect("the namespace's default ServiceAccount");
}

/// Creates a set with one gang, waits until the gang has references to all its pods, and deletes the set with its pods.
async fn create_and_delete_pod_groups(ns: &Namespace, pod_groups: usize) {
    let sets = Api::<PodCliqueSet>::namespaced(ns.client.clone(), &unwatched(ns));
    let uid = create_pod_groups(ns, pod_groups).await.uid().expect("a uid");
    sets.delete("hostile", &DeleteParams::foreground()).await.expect("the set is deleted");
    await_condition(sets, "hostile", conditions::is_deleted(&uid)).await.expect("the set and its pods are deleted");
}

/// Creates a set with one gang, and waits until the gang has references to all its pods.
async fn create_pod_groups(ns: &Namespace, pod_groups: usize) -> PodCliqueSet {
    let sets = Api::<PodCliqueSet>::namespaced(ns.client.clone(), &unwatched(ns));
    let gangs = Api::<PodGang>::namespaced(ns.client.clone(), &unwatched(ns));
    let set = set_of_group("hostile", pod_groups, pod_groups);
    let set: PodCliqueSet = serde_saphyr::from_str(&set).expect("a set");
    let set = sets.create(&PostParams::default(), &set).await.expect("the set is created");
    // A poll every few seconds, because the gang has a megabyte.
    let mut polls = interval(Duration::from_secs(5));
    loop {
        polls.tick().await;
        let gang = gangs.get_opt("hostile-0").await.expect("a response");
        if gang.as_ref().is_some_and(is_initialized) {
            return set;
        }
    }
}

/// Scales the first clique of the gang up and down without its scale subresource, so that admission does not check the size of the gang.
async fn scale_a_clique(ns: &Namespace) {
    let cliques = Api::<PodClique>::namespaced(ns.client.clone(), &unwatched(ns));
    for pods in OVERSIZED_PODS {
        let scale = Patch::Merge(json!({ "spec": { "replicas": pods } }));
        cliques.patch("hostile-0-g-0-a", &PatchParams::default(), &scale).await.expect("the clique is scaled");
    }
}

/// Whether the gang has references to all its pods.
fn is_initialized(gang: &PodGang) -> bool {
    let mut conditions = gang.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|condition| condition.type_ == "Initialized" && condition.status == "True")
}

/// Deletes any pod, and so releases quota. Lists only pods, because the namespace has many other objects.
async fn delete_a_pod(ns: &Namespace) {
    let pods = ns.api::<Pod>();
    let pod = poll_until(async || {
        let listed = pods.list(&ListParams::default()).await.expect("a list of pods");
        listed.items.into_iter().find(|pod| pod.metadata.deletion_timestamp.is_none())
    })
    .await;
    let (name, uid) = (pod.name_any(), pod.uid().expect("a uid"));
    ns.delete_object::<Pod>(&name).await;
    await_condition(pods, &name, conditions::is_deleted(&uid)).await.expect("the pod is deleted");
}
