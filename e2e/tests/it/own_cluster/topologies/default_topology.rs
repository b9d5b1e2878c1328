//! The default topology of the configuration, as both kinds: it is created, edited by a user, changed and removed in the configuration, and
//! adopted from a user.

use e2e::poll::poll_until;
use e2e::standalone::run_to_exit;
use e2e::{Namespace, NamespaceState};
use grove_api_types::SERVICE_USER_PREFIX;
use grove_api_types::v1alpha1::{ClusterTopology, ClusterTopologyBinding, PodCliqueSet};
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::deletion::wait_until_binding_is_deleted;
use super::{
    DEFAULT, FINALIZER, HOST, SERVICE, Services, bindings, condition, configuration_of, create_set, enabled,
    has_reason, keys, set, topologies, topology, wait_for, wait_for_levels, wait_until_deleted, with_levels,
};

const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

pub(super) async fn the_default_topology_is_created_and_restored(services: &mut Services, client: &Client) {
    let is_ready = |topology: &ClusterTopology| has_reason(topology, "Ready", "True", "TopologyAvailable");
    let has_finalizer = |topology: &ClusterTopology| topology.finalizers().iter().any(|other| other == FINALIZER);
    let created = wait_for(client, DEFAULT, |topology| is_ready(topology) && has_finalizer(topology)).await;
    assert_eq!(created.labels().get(MANAGED_BY).map(String::as_str), Some("grove-operator"));
    assert_eq!(keys(&created), ["r", HOST]);
    let status = created.status.expect("a status");
    let without: Vec<_> = status.nodes_without_key.iter().map(|level| (level.key.as_str(), level.nodes)).collect();
    assert_eq!(without, [("r", status.nodes.expect("a number")), (HOST, 0)], "no node has the key r");
    assert!(status.nodes > Some(0));
    let binding = wait_for_binding(client, "r").await;
    the_binding_is_created_again(services, client, &binding).await;

    for interruption in [Interruption::None, Interruption::Stopped, Interruption::Killed] {
        an_edit_is_reverted(services, client, interruption).await;
    }
}

async fn an_edit_is_reverted(services: &mut Services, client: &Client, interruption: Interruption) {
    let edit = json!({ "metadata": { "labels": null }, "spec": { "levels": [{ "domain": "host", "key": "other" }] } });
    let (api, params, edit) = (topologies(client), PatchParams::default(), Patch::Merge(&edit));
    let of_binding = bindings(client);
    let edited = async {
        of_binding.patch(DEFAULT, &params, &edit).await?;
        api.patch(DEFAULT, &params, &edit).await
    };
    let edited = match interruption {
        Interruption::None => edited.await,
        Interruption::Stopped => services.while_stopped(edited).await,
        Interruption::Killed => services.interrupt(edited).await,
    };
    let generation = edited.expect("the edit").metadata.generation;
    let restored =
        |topology: &ClusterTopology| topology.metadata.generation > generation && keys(topology) == ["r", HOST];
    let restored = wait_for(client, DEFAULT, restored).await;
    assert_eq!(restored.labels().len(), 1, "the label is restored with the levels");
    wait_for_binding(client, "r").await;
}

/// Waits until a client that reads only bindings finds the managed default topology with this key of the racks.
async fn wait_for_binding(client: &Client, rack: &str) -> DynamicObject {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("grove.io", "v1alpha1", "ClusterTopologyBinding"));
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    let levels = json!([{ "domain": "rack", "key": rack }, { "domain": "host", "key": HOST }]);
    let is_managed = |binding: &DynamicObject| {
        binding.data["spec"]["levels"] == levels
            && binding.labels().get(MANAGED_BY).is_some_and(|manager| manager == "grove-operator")
    };
    poll_until(async || api.get_opt(DEFAULT).await.expect("an answer").filter(&is_managed)).await
}

/// A user cannot delete the binding. webhook-server admits all requests of Grove's accounts; then topology-controller creates it again.
async fn the_binding_is_created_again(services: &mut Services, client: &Client, first: &DynamicObject) {
    let denied = bindings(client).delete(DEFAULT, &DeleteParams::default()).await.expect_err("a denial");
    assert!(denied.to_string().contains("is the default topology of the configuration"), "{denied}");
    let api = bindings(&account(services).await);
    api.delete(DEFAULT, &DeleteParams::default()).await.expect("the binding is deleted");
    let second = wait_for_binding(client, "r").await;
    assert_ne!(second.uid(), first.uid());
}

/// A client with the account of topology-controller, and with all permissions.
async fn account(services: &Services) -> Client {
    let account = format!("{SERVICE_USER_PREFIX}{SERVICE}");
    services.cluster.client_as(&account, &["system:masters"]).await
}

/// What happens to topology-controller during a step.
#[derive(Clone, Copy)]
enum Interruption {
    None,
    /// It is stopped before the step, and starts again after it.
    Stopped,
    /// It is killed during the step, and starts again after it.
    Killed,
}

/// The configured levels change while a set runs, and while none does.
pub(super) async fn configured_levels_wait_for_running_sets(services: &mut Services, client: &Client, ns: &Namespace) {
    create_set(ns, &set("running", None)).await;
    services.up_with("second", &with_levels("new")).await;
    let is_blocked = |topology: &ClusterTopology| has_reason(topology, "Ready", "False", "LevelsInUse");
    let blocked = wait_for(client, DEFAULT, is_blocked).await;
    assert_eq!(keys(&blocked), ["r", HOST], "the levels stay");
    wait_for_binding(client, "r").await;
    services.interrupt(ns.delete_object::<PodCliqueSet>("running")).await;
    wait_for(client, DEFAULT, |topology| keys(topology) == ["new", HOST]).await;
    wait_for_levels(client, DEFAULT, &["new", HOST]).await;
    wait_for_binding(client, "new").await;
    ns.wait_for("no objects exist", NamespaceState::is_empty).await;
    services.up_with("third", &with_levels("newer")).await;
    wait_for_levels(client, DEFAULT, &["newer", HOST]).await;
    wait_for_binding(client, "newer").await;
    wait_for(client, DEFAULT, |topology| has_reason(topology, "Ready", "True", "TopologyAvailable")).await;
}

pub(super) async fn a_default_without_levels_is_an_ordinary_topology(services: &mut Services, client: &Client) {
    services.up_with("fourth", &json!({ "enabled": true })).await;
    wait_for(client, DEFAULT, |topology| topology.labels().is_empty()).await;
    wait_until_unmanaged(client).await;
    let levels = json!({ "spec": topology(DEFAULT, &[("host", HOST)]).spec });
    topologies(client).patch(DEFAULT, &PatchParams::default(), &Patch::Merge(&levels)).await.expect("an edit");
    wait_for_levels(client, DEFAULT, &[HOST]).await;
    let denied = topologies(client).delete(DEFAULT, &DeleteParams::default()).await.expect_err("a denial");
    assert!(denied.to_string().contains("is the default topology of the configuration"), "{denied}");
    // webhook-server admits all requests of Grove's accounts. Without webhook-server, users can delete the topology, too.
    let api = topologies(&account(services).await);
    services.interrupt(api.delete(DEFAULT, &DeleteParams::default())).await.expect("the delete is accepted");
    let waits = |topology: &ClusterTopology| has_reason(topology, "Ready", "False", "TopologyTerminating");
    wait_for(client, DEFAULT, waits).await;
    services.up_with("fifth", &json!({ "enabled": false })).await;
    wait_until_deleted(client, DEFAULT).await;
    bindings(client).delete(DEFAULT, &DeleteParams::default()).await.expect("the binding is deleted");
    wait_until_binding_is_deleted(client, DEFAULT).await;
}

/// Waits until the binding of the default topology has no label of Grove.
async fn wait_until_unmanaged(client: &Client) {
    wait_until(client, |binding| binding.labels().is_empty()).await;
}

/// An administrator has created a topology with the name of the default, and then configures its levels.
pub(super) async fn a_topology_of_a_user_becomes_the_default(services: &mut Services, client: &Client) {
    let of_user = topology(DEFAULT, &[("host", "of-user")]);
    let of_user = topologies(client).create(&PostParams::default(), &of_user).await.expect("the topology is created");
    services.up_with("sixth", &enabled()).await;
    let is_adopted =
        |topology: &ClusterTopology| keys(topology) == ["r", HOST] && topology.labels().contains_key(MANAGED_BY);
    let adopted = wait_for(client, DEFAULT, is_adopted).await;
    assert_eq!(adopted.uid(), of_user.uid());
    wait_for_levels(client, DEFAULT, &["r", HOST]).await;
    wait_for_binding(client, "r").await;
}

/// Only a binding has the name of the default, with other levels than the configuration. Its user changes them.
pub(super) async fn a_binding_of_a_user_becomes_the_default(services: &mut Services, client: &Client) {
    let of_user = only_a_binding_remains(services, client).await;
    services.up_with("eighth", &enabled()).await;
    let blocked = wait_until(client, reports_levels).await;
    assert_eq!((blocked.spec, blocked.metadata.labels), (of_user.spec, None), "the binding is not changed");
    assert!(topologies(client).get_opt(DEFAULT).await.expect("an answer").is_none());

    let configured = json!([{ "domain": "rack", "key": "r" }, { "domain": "host", "key": HOST }]);
    services.interrupt(set_levels(client, configured)).await;
    let adopted = wait_for_binding(client, "r").await;
    assert_eq!(adopted.uid(), of_user.metadata.uid, "it is not created again");
    wait_for_levels(client, DEFAULT, &["r", HOST]).await;
    wait_until(client, reports_nothing).await;
}

/// Topology-aware scheduling is disabled, and a user deletes the ClusterTopology and changes the binding.
async fn only_a_binding_remains(services: &mut Services, client: &Client) -> ClusterTopologyBinding {
    services.up_with("seventh", &json!({ "enabled": false })).await;
    wait_until_unmanaged(client).await;
    topologies(client).delete(DEFAULT, &DeleteParams::default()).await.expect("the delete is accepted");
    wait_until_deleted(client, DEFAULT).await;
    set_levels(client, json!([{ "domain": "host", "key": HOST }])).await
}

async fn wait_until(client: &Client, holds: fn(&ClusterTopologyBinding) -> bool) -> ClusterTopologyBinding {
    let api = bindings(client);
    poll_until(async || api.get(DEFAULT).await.ok().filter(holds)).await
}

/// A user changes the levels of the binding.
async fn set_levels(client: &Client, levels: Value) -> ClusterTopologyBinding {
    let patch = Patch::Merge(json!({ "spec": { "levels": levels } }));
    bindings(client).patch(DEFAULT, &PatchParams::default(), &patch).await.expect("other levels")
}

fn reports_levels(binding: &ClusterTopologyBinding) -> bool {
    let conditions = binding.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    condition(conditions, "Ready").is_some_and(|ready| ready.reason == "LevelsDiffer")
}

/// The topology objects of schedulers belong to the ClusterTopology.
fn reports_nothing(binding: &ClusterTopologyBinding) -> bool {
    let status = binding.status.as_ref();
    status.is_some_and(|status| status.conditions.is_empty() && status.scheduler_topology_statuses.is_empty())
}

/// The service ends, with ENOENT if the configuration has the section `topology`.
pub(super) async fn a_required_default_that_does_not_exist_ends_the_service(services: &mut Services) {
    for (section, exit_code) in [("topology", 2), ("topologyAwareScheduling", 3)] {
        let mut arguments = services.command_line[1..].to_vec();
        let name = format!("without-default-{section}");
        let [flag, file] = configuration_of(&name, section, &json!({ "enabled": true, "name": "absent" }));
        let at = arguments.iter().position(|argument| *argument == flag).expect("the flag");
        arguments[at + 1] = file;
        let output = services.while_stopped(run_to_exit(SERVICE, &arguments)).await;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        assert_eq!(output.status.code(), Some(exit_code), "{text}");
        assert!(text.contains("create a ClusterTopology with the name absent"), "{text}");
    }
}
