//! Topologies of both kinds: the finalizer, the default topology of the configuration, the status, and the topology objects of KAI.
//! topology-controller is killed in the middle of the cases.

mod default_topology;
mod deletion;
mod switching;

use e2e::events::is_about;
use e2e::kubectl::kubectl_on;
use e2e::poll::poll_until;
use e2e::service_replica::ServiceReplica;
use e2e::{Namespace, NamespaceState, TestCluster};
use grove_api_types::v1alpha1::{ClusterTopology, ClusterTopologyBinding, PodCliqueSet};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

const SERVICE: &str = "topology-controller";
const DEFAULT: &str = "grove-topology";
const FINALIZER: &str = "grove.io/clustertopology";
const HOST: &str = "kubernetes.io/hostname";

/// Takes long: 15 cases share the services. They change the default topology and the configuration of one controller, so they run in turn.
#[tokio::test(flavor = "multi_thread")]
async fn topologies_are_reconciled_into_statuses_and_topology_objects() {
    let flags = configuration("first", &enabled());
    let cluster = TestCluster::with_own_services("topologies", &flags.each_ref().map(String::as_str)).await;
    let client = cluster.client().await;
    let ns = Namespace::create(&client, "e2e-topologies").await;

    let mut services = Services::start(cluster).await;
    default_topology::the_default_topology_is_created_and_restored(&mut services, &client).await;
    services.apply(include_str!("../../../crds/kai-scheduler.yaml")).await;
    wait_for_levels(&client, DEFAULT, &["r", HOST]).await;
    levels_of_topology_objects_follow(&mut services, &client).await;
    foreign_topology_objects_stay(&client).await;
    bindings_report_drift(&client).await;
    referring_sets_delay_the_deletion(&mut services, &client, &ns).await;
    deletion::a_topology_without_sets_is_deleted(&mut services, &client).await;
    deletion::a_binding_with_sets_is_deleted(&mut services, &client, &ns).await;
    deletion::topologies_are_deleted_while_sets_are_created(&mut services, &client, &ns).await;
    switching::constraints_are_removed_and_return_while_sets_run(&mut services, &client, &ns).await;
    default_topology::configured_levels_wait_for_running_sets(&mut services, &client, &ns).await;
    default_topology::a_default_without_levels_is_an_ordinary_topology(&mut services, &client).await;
    default_topology::a_topology_of_a_user_becomes_the_default(&mut services, &client).await;
    default_topology::a_binding_of_a_user_becomes_the_default(&mut services, &client).await;
    default_topology::a_required_default_that_does_not_exist_ends_the_service(&mut services).await;
    services.down().await;
}

/// A cluster, of which the test runs topology-controller itself, so that it restarts quickly.
struct Services {
    cluster: TestCluster,
    /// `None` while the cluster starts the process.
    controller: Option<ServiceReplica>,
    /// The program of topology-controller, and its arguments.
    command_line: Vec<String>,
}

impl Services {
    async fn start(cluster: TestCluster) -> Self {
        let command_line = cluster.command_line(SERVICE);
        let controller = Some(ServiceReplica::take_over(&cluster, SERVICE, &[]).await);
        Self { cluster, controller, command_line }
    }

    /// Runs a step of a user. Meanwhile, topology-controller is killed, and starts again.
    async fn interrupt<T>(&mut self, step: impl Future<Output = T>) -> T {
        let controller = self.controller.as_mut().expect("a process");
        let (result, ()) = tokio::join!(step, controller.kill_and_restart());
        result
    }

    /// Runs a step while topology-controller is stopped.
    async fn while_stopped<T>(&mut self, step: impl Future<Output = T>) -> T {
        self.controller.as_mut().expect("a process").while_stopped(step).await
    }

    /// Starts the services with another configuration, and restarts topology-controller after its start.
    async fn up_with(&mut self, name: &str, topology: &Value) {
        let flags = configuration(name, topology);
        self.controller.take().expect("a process").stop().await;
        self.cluster.up_with(&flags.each_ref().map(String::as_str)).await;
        self.controller = Some(ServiceReplica::take_over(&self.cluster, SERVICE, &[]).await);
    }

    async fn apply(&self, manifests: &str) {
        kubectl_on(&self.cluster, &["apply", "--filename=-"], manifests).await.expect("the manifests are applied");
    }

    async fn down(self) {
        drop(self.controller);
        self.cluster.down().await;
    }
}

/// A configuration with the levels of the default topology.
fn enabled() -> Value {
    with_levels("r")
}

/// A configuration with these levels of the default topology.
fn with_levels(rack: &str) -> Value {
    json!({ "enabled": true, "levels": [{ "domain": "rack", "key": rack }, { "domain": "host", "key": HOST }] })
}

/// The flags for a configuration with `topologyAwareScheduling`.
fn configuration(name: &str, topology: &Value) -> [String; 2] {
    configuration_of(name, "topologyAwareScheduling", topology)
}

/// The flags for a configuration with this section.
fn configuration_of(name: &str, section: &str, topology: &Value) -> [String; 2] {
    let configuration = json!({
        "apiVersion": "operator.config.grove.io/v1alpha1",
        "kind": "OperatorConfiguration",
        section: topology,
        "scheduler": { "profiles": [{ "name": "default-scheduler" }, { "name": "kai-scheduler" }] },
    });
    let file = TestCluster::shared().dir().join(format!("topologies-{name}.yaml"));
    std::fs::write(&file, configuration.to_string()).expect("the configuration is written");
    ["--config".to_owned(), file.display().to_string()]
}

fn topologies(client: &Client) -> Api<ClusterTopology> {
    Api::all(client.clone())
}

/// The topology objects of KAI.
fn scheduler_topologies(client: &Client) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("kai.scheduler", "v1alpha1", "Topology"));
    Api::all_with(client.clone(), &kind)
}

fn topology(name: &str, keys: &[(&str, &str)]) -> ClusterTopology {
    let level = |(domain, key): &(&str, &str)| json!({ "domain": domain, "key": key });
    let levels: Vec<Value> = keys.iter().map(level).collect();
    ClusterTopology::new(name, serde_json::from_value(json!({ "levels": levels })).expect("a spec"))
}

fn scheduler_topology(name: &str, labels: &[&str]) -> DynamicObject {
    let levels: Vec<Value> = labels.iter().map(|label| json!({ "nodeLabel": label })).collect();
    let object = json!({ "apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": { "name": name },
        "spec": { "levels": levels } });
    serde_json::from_value(object).expect("a topology object")
}

fn node_labels(object: &DynamicObject) -> Vec<&str> {
    let levels = object.data["spec"]["levels"].as_array().into_iter().flatten();
    levels.filter_map(|level| level["nodeLabel"].as_str()).collect()
}

fn condition<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

async fn wait_for(client: &Client, name: &str, holds: impl Fn(&ClusterTopology) -> bool) -> ClusterTopology {
    let api = topologies(client);
    poll_until(async || api.get_opt(name).await.expect("an answer").filter(&holds)).await
}

async fn wait_until_deleted(client: &Client, name: &str) {
    let api = topologies(client);
    poll_until(async || api.get_opt(name).await.expect("an answer").is_none().then_some(())).await;
}

/// Waits for the topology object that the topology controls and that has these node labels.
async fn wait_for_levels(client: &Client, name: &str, labels: &[&str]) -> DynamicObject {
    let owner = wait_for(client, name, |_| true).await.uid().expect("a uid");
    let objects = scheduler_topologies(client);
    poll_until(async || {
        let object = objects.get_opt(name).await.ok()??;
        let is_controlled = object.owner_references().iter().any(|reference| reference.uid == owner);
        (is_controlled && node_labels(&object) == labels && object.metadata.deletion_timestamp.is_none())
            .then_some(object)
    })
    .await
}

fn has_reason(topology: &ClusterTopology, type_: &str, status: &str, reason: &str) -> bool {
    let conditions = topology.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    condition(conditions, type_).is_some_and(|condition| condition.status == status && condition.reason == reason)
}

fn keys(topology: &ClusterTopology) -> Vec<&str> {
    topology.spec.levels.iter().map(|level| level.key.as_str()).collect()
}

async fn levels_of_topology_objects_follow(services: &mut Services, client: &Client) {
    let api = topologies(client);
    let (params, created) = (PostParams::default(), topology("racks", &[("host", HOST)]));
    services.interrupt(api.create(&params, &created)).await.expect("the topology is created");
    let first = wait_for_levels(client, "racks", &[HOST]).await;
    let levels = json!({ "spec": topology("racks", &[("rack", "r"), ("host", HOST)]).spec });
    api.patch("racks", &PatchParams::default(), &Patch::Merge(&levels)).await.expect("new levels");
    let second = wait_for_levels(client, "racks", &["r", HOST]).await;
    assert_ne!(first.uid(), second.uid(), "the levels are immutable, so the object is deleted and created");
    let objects = scheduler_topologies(client);
    objects.delete("racks", &DeleteParams::default()).await.expect("the object is deleted");
    let third = wait_for_levels(client, "racks", &["r", HOST]).await;
    assert_ne!(second.uid(), third.uid());
    wait_for(client, "racks", |topology| has_reason(topology, "SchedulerTopologyDrift", "False", "InSync")).await;
}

async fn foreign_topology_objects_stay(client: &Client) {
    let objects = scheduler_topologies(client);
    let foreign =
        objects.create(&PostParams::default(), &scheduler_topology("foreign", &["mine"])).await.expect("it is created");
    topologies(client)
        .create(&PostParams::default(), &topology("foreign", &[("host", HOST)]))
        .await
        .expect("the topology");
    wait_for(client, "foreign", |topology| {
        let conditions = topology.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        condition(conditions, "SchedulerTopologyDrift").is_some_and(|drift| {
            (drift.status.as_str(), drift.reason.as_str()) == ("True", "Drift")
                && drift.message.contains("ClusterTopology foreign does not control it")
        })
    })
    .await;
    let live = objects.get("foreign").await.expect("the object");
    assert_eq!(live.resource_version(), foreign.resource_version(), "it is not changed");
    topologies(client).delete("foreign", &DeleteParams::default()).await.expect("the topology is deleted");
    wait_until_deleted(client, "foreign").await;
    assert_eq!(
        objects.get("foreign").await.expect("the object").uid(),
        foreign.uid(),
        "the object of another owner stays"
    );
}

fn bindings(client: &Client) -> Api<ClusterTopologyBinding> {
    Api::all(client.clone())
}

async fn create_binding(client: &Client, name: &str, external: Value) -> ClusterTopologyBinding {
    let spec = json!({ "levels": [{ "domain": "host", "key": HOST }], "schedulerTopologyBindings": external });
    let binding = ClusterTopologyBinding::new(name, serde_json::from_value(spec).expect("a spec"));
    bindings(client).create(&PostParams::default(), &binding).await.expect("the binding is created")
}

/// Waits until the binding reports this difference of its topology object, or none.
async fn wait_for_drift(client: &Client, name: &str, message: Option<&str>) -> ClusterTopologyBinding {
    let expected = if message.is_some() { "True" } else { "False" };
    let is_current = |binding: &ClusterTopologyBinding| {
        let Some(live) = &binding.status else { return false };
        let drift = condition(&live.conditions, "SchedulerTopologyDrift");
        let of_scheduler = live.scheduler_topology_statuses.first();
        let has_message =
            of_scheduler.is_some_and(|of| of.in_sync == message.is_none() && of.message.as_deref() == message);
        has_message && drift.is_some_and(|drift| drift.status == expected)
    };
    let api = bindings(client);
    poll_until(async || api.get(name).await.ok().filter(&is_current)).await
}

async fn bindings_report_drift(client: &Client) {
    let objects = scheduler_topologies(client);
    let own = create_binding(client, "own", json!([])).await;
    wait_for_drift(client, "own", None).await;
    let object = objects.get("own").await.expect("the object");
    assert_eq!((node_labels(&object), &object.owner_references()[0].uid), (vec![HOST], &own.uid().expect("a uid")));

    external_topology_objects_are_compared(client).await;
    bindings(client).delete("own", &DeleteParams::default()).await.expect("the binding is deleted");
    poll_until(async || objects.get_opt("own").await.expect("an answer").is_none().then_some(())).await;
}

async fn external_topology_objects_are_compared(client: &Client) {
    let objects = scheduler_topologies(client);
    let external = json!([{ "schedulerName": "kai-scheduler", "topologyReference": "foreign" }]);
    create_binding(client, "external", external).await;
    let differ = "KAI Topology levels differ from ClusterTopologyBinding levels";
    wait_for_drift(client, "external", Some(differ)).await;
    objects.delete("foreign", &DeleteParams::default()).await.expect("the object is deleted");
    wait_for_drift(client, "external", Some("KAI Topology \"foreign\" not found")).await;
    let current = restore_foreign(client).await;
    a_repeated_event_is_a_series(client).await;
    assert!(current.finalizers().is_empty(), "a binding has no finalizer");
    assert!(objects.get_opt("external").await.expect("an answer").is_none());
    bindings(client).delete("external", &DeleteParams::default()).await.expect("the binding is deleted");
    poll_until(async || bindings(client).get_opt("external").await.expect("an answer").is_none().then_some(())).await;
    objects.get("foreign").await.expect("the object of the administrator stays");
}

/// Creates the topology object of the administrator again, with the levels of the binding.
async fn restore_foreign(client: &Client) -> ClusterTopologyBinding {
    let foreign = scheduler_topology("foreign", &[HOST]);
    scheduler_topologies(client).create(&PostParams::default(), &foreign).await.expect("it is created");
    wait_for_drift(client, "external", None).await
}

/// A service that publishes the same normal event again counts it in the series of the first one. Warnings are not repeated.
async fn a_repeated_event_is_a_series(client: &Client) {
    scheduler_topologies(client).delete("foreign", &DeleteParams::default()).await.expect("the object is deleted");
    wait_for_drift(client, "external", Some("KAI Topology \"foreign\" not found")).await;
    restore_foreign(client).await;
    let events = Api::<Event>::all(client.clone());
    let has_count = |event: &Event| event.series.as_ref().is_some_and(|series| series.count == 2);
    poll_until(async || {
        let events = events.list(&ListParams::default()).await.ok()?.items;
        events.iter().any(|event| is_about(event, "external", "TopologyInSync") && has_count(event)).then_some(())
    })
    .await;
}

/// A set of one pod that must be packed by host.
fn set(name: &str, topology: Option<&str>) -> PodCliqueSet {
    let pod_spec = json!({ "containers": [{ "name": "main", "image": "registry.k8s.io/pause:3.10" }] });
    let clique = json!({ "name": "a", "spec": { "roleName": "a", "replicas": 1, "podSpec": pod_spec } });
    let constraint = json!({ "topologyName": topology, "pack": { "required": "host" } });
    let template = json!({ "topologyConstraint": constraint, "cliques": [clique] });
    let set = json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": { "name": name },
        "spec": { "replicas": 1, "template": template } });
    serde_json::from_value(set).expect("a set")
}

async fn create_set(ns: &Namespace, set: &PodCliqueSet) {
    ns.api::<PodCliqueSet>().create(&PostParams::default(), set).await.expect("the set is created");
    let name = set.name_any();
    ns.wait_for("the set is available", |state| state.is_available(&name)).await;
}

async fn referring_sets_delay_the_deletion(services: &mut Services, client: &Client, ns: &Namespace) {
    create_set(ns, &set("user", Some("racks"))).await;
    let counts_set = |topology: &ClusterTopology| {
        let status = topology.status.clone().unwrap_or_default();
        let names = [format!("{}/user", ns.name)];
        (status.referring_sets, status.scheduled_sets) == (Some(1), Some(1)) && status.referring_set_names == names
    };
    wait_for(client, "racks", counts_set).await;
    let api = topologies(client);
    services.interrupt(api.delete("racks", &DeleteParams::default())).await.expect("the delete is accepted");
    let waits = |topology: &ClusterTopology| has_reason(topology, "Ready", "False", "TopologyTerminating");
    wait_for(client, "racks", waits).await;
    let denied = ns.api::<PodCliqueSet>().create(&PostParams::default(), &set("late", Some("racks"))).await;
    assert!(denied.is_err(), "a terminating topology counts as not found");

    // On the heap: it is a large future.
    let deletion = Box::pin(async {
        ns.delete_object::<PodCliqueSet>("user").await;
        ns.wait_for("no objects exist", NamespaceState::is_empty).await;
        wait_for(client, "racks", |topology| topology.finalizers().len() == 1).await;
    });
    services.while_stopped(deletion).await;
    wait_until_deleted(client, "racks").await;
    let objects = scheduler_topologies(client);
    poll_until(async || objects.get_opt("racks").await.expect("an answer").is_none().then_some(())).await;
}
