//! The `ResourceClaim`s that pods of sets, scaling groups and cliques share, with a stand-in for a DRA driver of GPUs.

use std::collections::{BTreeMap, BTreeSet};

use e2e::audit::AuditLog;
use e2e::kubectl::kubectl_on;
use e2e::namespace_state::is_ready;
use e2e::poll::poll_until;
use e2e::resource_claims::{ClaimHistory, assert_allocated, claim_names, claims_by_pod, devices, is_shared, pod_key};
use e2e::{Namespace, NamespaceState, TestCluster, events, metrics, propagation};
use grove_api_types::deletion::is_terminating;
use grove_api_types::labels::{PART_OF, RESOURCE_CLAIMS};
use grove_api_types::ownership::controller_of;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_dev_harness::devices::GPUS;
use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimTemplate};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

mod access;
mod deletion;
mod faults;
mod kills;
mod levels;
mod lifetime;
mod stops;
mod stories;
mod templates;
mod unserved;

const SERVICES: [&str; 2] = ["pcs-controller", "pclq-controller"];
const CONDITION: &str = "ResourceClaimsCreated";
/// All claims of all scenarios fit on one node, so that pods with several claims never block each other.
const GPUS_PER_NODE: usize = 128;

/// A template within a set, for claims of one GPU.
fn template(name: &str) -> String {
    format!("{{name: {name}, templateSpec: {{spec: {{devices: {{requests: [{}]}}}}}}}}", request(1))
}

fn request(count: u32) -> String {
    format!("{{name: gpu, exactly: {{deviceClassName: gpu.nvidia.com, count: {count}}}}}")
}

/// A clique, with further fields and with the fields of its pods.
fn clique(name: &str, replicas: i32, fields: &str, pod_fields: &str) -> String {
    format!(
        "{{name: {name}, {fields}spec: {{roleName: {name}, replicas: {replicas}, minAvailable: 1, podSpec: {{{pod_fields}containers: \
         [{{name: main, image: registry.k8s.io/pause:3.10, resources: {{requests: {{cpu: 10m}}}}}}]}}}}}}"
    )
}

/// A set of a clique and a scaling group with claims of both scopes at each level. Its pods have these fields, and its cliques these
/// annotations.
fn set_with(name: &str, annotations: &str, pod_fields: &str) -> String {
    let both = "resourceSharing: [{name: gpus, scope: AllReplicas}, {name: net, scope: PerReplica}]";
    let annotations = format!("annotations: {{{annotations}}}, ");
    format!(
        "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {{name: {name}}}
spec:
  replicas: 1
  template:
    resourceClaimTemplates: [{}, {}]
    {both}
    cliques:
    - {}
    - {}
    podCliqueScalingGroups:
    - {{name: g, cliqueNames: [work], replicas: 2, minAvailable: 1, {both}}}
",
        template("gpus"),
        template("net"),
        clique("front", 2, &format!("{annotations}{both}, "), pod_fields),
        clique("work", 1, &annotations, pod_fields)
    )
}

fn set(name: &str) -> String {
    set_with(name, "", "")
}

/// The set as of [`set`], with pods that take 30 s to terminate.
fn slow_set(name: &str) -> String {
    set_with(name, "test.grove.io/behaviour: graceful-stop", "terminationGracePeriodSeconds: 30, ")
}

/// The pods of a set as of [`set`] with one replica.
const PODS: usize = 4;

/// The claims of a set as of [`set`] with this many replicas of the set, the clique and the scaling group.
fn names_of_claims(set: &str, sizes: &[(i32, i32)]) -> Vec<String> {
    let mut names = vec![format!("{set}-all-gpus")];
    for (replica, (pods, groups)) in sizes.iter().enumerate() {
        let replica = format!("{set}-{replica}");
        names.extend([format!("{replica}-net"), format!("{replica}-front-all-gpus"), format!("{replica}-g-all-gpus")]);
        names.extend((0..*pods).map(|index| format!("{replica}-front-{index}-net")));
        names.extend((0..*groups).map(|index| format!("{replica}-g-{index}-net")));
    }
    names
}

/// The pods of a set as of [`set`] with these sizes.
fn pod_count(sizes: &[(i32, i32)]) -> usize {
    usize::try_from(sizes.iter().map(|(pods, groups)| pods + groups).sum::<i32>()).expect("a small number")
}

/// A namespace, with a record of its watch events.
struct Fixture {
    ns: Namespace,
    claims: Api<ResourceClaim>,
    history: ClaimHistory,
    log: AuditLog,
}

impl Fixture {
    async fn create(cluster: &TestCluster, name: &str) -> Self {
        Self::of(cluster, Namespace::create(&cluster.client().await, name).await).await
    }

    async fn of(cluster: &TestCluster, ns: Namespace) -> Self {
        let history = ClaimHistory::start(&ns).await;
        Self { claims: ns.api::<ResourceClaim>(), history, log: cluster.audit_log(), ns }
    }

    /// Creates a `ResourceClaimTemplate` for claims of this many GPUs.
    async fn create_template(&self, name: &str, count: u32) {
        let template =
            format!("{{metadata: {{name: {name}}}, spec: {{spec: {{devices: {{requests: [{}]}}}}}}}}", request(count));
        self.ns.create_yaml::<ResourceClaimTemplate>(&template).await;
    }

    /// The claims of a set.
    async fn claims_of(&self, set: &str) -> Option<Vec<ResourceClaim>> {
        let claims = self.claims.list(&ListParams::default()).await.ok()?.items;
        let is_of_set = |claim: &ResourceClaim| claim.labels().get(PART_OF).is_some_and(|of| of == set);
        Some(claims.into_iter().filter(|claim| is_shared(claim) && is_of_set(claim)).collect())
    }

    /// Waits until the set has exactly these claims and none of them is terminating, and returns them.
    async fn wait_for_claims<S: AsRef<str>>(&self, set: &str, names: &[S]) -> Vec<ResourceClaim> {
        let names: BTreeSet<_> = names.iter().map(|name| name.as_ref().to_owned()).collect();
        poll_until(async || {
            let claims = self.claims_of(set).await?;
            let found: BTreeSet<_> = claims.iter().map(ResourceExt::name_any).collect();
            (found == names && !claims.iter().any(is_terminating)).then_some(claims)
        })
        .await
    }

    /// Waits until the claim satisfies the predicate.
    async fn wait_for_claim(&self, name: &str, holds: impl Fn(&ResourceClaim) -> bool) -> ResourceClaim {
        poll_until(async || self.claims.get_opt(name).await.ok()?.filter(|claim| holds(claim))).await
    }

    async fn delete_claim(&self, name: &str) {
        self.claims.delete(name, &DeleteParams::default()).await.expect("the claim is deleted");
    }

    /// Creates a set as of [`set`] or [`slow_set`], and waits until its pods are ready.
    async fn create_set(&self, name: &str, set: &str) -> NamespaceState {
        self.ns.create_yaml::<PodCliqueSet>(set).await;
        self.ns.wait_for_ready_pods(name, PODS).await
    }

    /// Waits until this many pods of the set are ready and not terminating.
    async fn wait_for_active_pods(&self, set: &str, count: usize) -> NamespaceState {
        let is_new = |pod: &&Pod| is_ready(pod) && !is_terminating(*pod);
        let what = format!("{count} active pods of {set} are ready");
        self.ns.wait_for(&what, |state| state.pods_of(set).filter(is_new).count() == count).await
    }

    /// Deletes the last set of the namespace, and waits until nothing is left.
    async fn delete_last_set(&self, name: &str) {
        self.ns.delete_object::<PodCliqueSet>(name).await;
        self.wait_until_nothing_is_left().await;
    }

    async fn wait_until_nothing_is_left(&self) {
        self.ns.wait_for("nothing is left", NamespaceState::is_empty).await;
    }

    /// Checks the rule about the lifetime of claims after each event, and that the services deleted no other claims.
    async fn check_lifetime(&self) {
        let deleted = self.history.check().await;
        let requests = self.log.deletes("resourceclaims", &self.ns.name);
        let forbidden: Vec<_> = requests.iter().filter(|(name, _)| !deleted.contains(name)).collect();
        assert!(forbidden.is_empty(), "deletes of claims that are needed: {forbidden:?}");
    }
}

/// Changes something as a user would, while this service is stopped, if any.
async fn change(cluster: &TestCluster, stopped: Option<&str>, step: impl Future<Output = ()>) {
    match stopped {
        Some(service) => cluster.during_stop(service, step).await,
        None => step.await,
    }
}

fn uid_of(objects: &[ResourceClaim], name: &str) -> Option<String> {
    objects.iter().find(|claim| claim.name_any() == name).and_then(ResourceExt::uid)
}

fn uids(objects: &[ResourceClaim]) -> BTreeMap<String, String> {
    objects.iter().map(|claim| (claim.name_any(), claim.uid().unwrap_or_default())).collect()
}

fn pod_uids<'p>(pods: impl IntoIterator<Item = &'p Pod>) -> BTreeMap<String, String> {
    pods.into_iter().map(|pod| (pod_key(pod), pod.uid().unwrap_or_default())).collect()
}

/// Starts a cluster with GPUs on each node.
async fn start_cluster(name: &str, flags: &[&str]) -> TestCluster {
    let cluster = TestCluster::with_own_services(name, flags).await;
    install_gpus(&cluster.client().await).await;
    cluster
}

async fn install_gpus(client: &Client) {
    GPUS.install(client, GPUS_PER_NODE).await.expect("the GPUs");
}

/// Takes minutes: 18 cases share the services, instead of a start for each. The last ones stop services, so they run in turn.
#[tokio::test(flavor = "multi_thread")]
async fn shared_claims_follow_their_owners() {
    let cluster = start_cluster("resource-claims", &[]).await;
    // These share the services, and each has a namespace of its own.
    tokio::join!(
        stories::both_stories_of_the_design_run(&cluster),
        levels::claims_of_each_level_and_scope(&cluster),
        lifetime::replicas_and_pods_return_while_pods_terminate(&cluster),
        lifetime::unallocated_claims_follow_their_owners(&cluster),
        lifetime::a_replaced_pod_uses_the_claim_of_its_index(&cluster),
        lifetime::an_ended_pod_is_deleted_before_its_replacement_is_due(&cluster),
        lifetime::deleted_cliques_wait_for_new_claims(&cluster),
        deletion::deletions_of_a_set_leave_no_claim(&cluster),
        deletion::deletions_in_each_order_leave_no_claim(&cluster),
        templates::a_template_is_missing_changed_and_deleted(&cluster, None),
        faults::foreign_claims_and_a_quota_block_only_their_cliques(&cluster),
        faults::edited_claims_are_restored(&cluster),
        faults::deleted_claims_are_created_again(&cluster, None),
        faults::deleted_claims_without_pods_are_created_again(&cluster, None),
        faults::more_pods_than_a_claim_permits_are_reported(&cluster),
    );
    access::templates_of_other_namespaces_need_a_review(&cluster).await;
    // These stop services.
    stops::each_step_completes_after_a_stop(&cluster).await;
    unserved::an_unserved_api_is_awaited(&cluster).await;
    cluster.down().await;
}
