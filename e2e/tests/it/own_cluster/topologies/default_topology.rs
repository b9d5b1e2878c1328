//! The default topology of the configuration: it is created, edited by a user, changed and removed in the configuration, and adopted from a user.

use e2e::standalone::run_to_exit;
use e2e::{Namespace, NamespaceState};
use grove_api_types::SERVICE_USER_PREFIX;
use grove_api_types::v1alpha1::{ClusterTopology, PodCliqueSet};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use super::{
    DEFAULT, FINALIZER, HOST, SERVICE, Services, configuration_of, create_set, enabled, has_reason, keys, set,
    topologies, topology, wait_for, wait_for_levels, wait_until_deleted, with_levels,
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

    for interruption in [Interruption::None, Interruption::Stopped, Interruption::Killed] {
        an_edit_is_reverted(services, client, interruption).await;
    }
}

async fn an_edit_is_reverted(services: &mut Services, client: &Client, interruption: Interruption) {
    let edit = json!({ "metadata": { "labels": null }, "spec": { "levels": [{ "domain": "host", "key": "other" }] } });
    let (api, params, edit) = (topologies(client), PatchParams::default(), Patch::Merge(&edit));
    let edited = api.patch(DEFAULT, &params, &edit);
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
    services.interrupt(ns.delete_object::<PodCliqueSet>("running")).await;
    wait_for(client, DEFAULT, |topology| keys(topology) == ["new", HOST]).await;
    wait_for_levels(client, DEFAULT, &["new", HOST]).await;
    ns.wait_for("no objects exist", NamespaceState::is_empty).await;
    services.up_with("third", &with_levels("newer")).await;
    wait_for_levels(client, DEFAULT, &["newer", HOST]).await;
    wait_for(client, DEFAULT, |topology| has_reason(topology, "Ready", "True", "TopologyAvailable")).await;
}

pub(super) async fn a_default_without_levels_is_an_ordinary_topology(services: &mut Services, client: &Client) {
    services.up_with("fourth", &json!({ "enabled": true })).await;
    wait_for(client, DEFAULT, |topology| topology.labels().is_empty()).await;
    let levels = json!({ "spec": topology(DEFAULT, &[("host", HOST)]).spec });
    topologies(client).patch(DEFAULT, &PatchParams::default(), &Patch::Merge(&levels)).await.expect("an edit");
    wait_for_levels(client, DEFAULT, &[HOST]).await;
    let denied = topologies(client).delete(DEFAULT, &DeleteParams::default()).await.expect_err("a denial");
    assert!(denied.to_string().contains("is the default topology of the configuration"), "{denied}");
    // webhook-server admits all requests of Grove's accounts. Without webhook-server, users can delete the topology, too.
    let account = format!("{SERVICE_USER_PREFIX}{SERVICE}");
    let api = topologies(&services.cluster.client_as(&account, &["system:masters"]).await);
    services.interrupt(api.delete(DEFAULT, &DeleteParams::default())).await.expect("the delete is accepted");
    let waits = |topology: &ClusterTopology| has_reason(topology, "Ready", "False", "TopologyTerminating");
    wait_for(client, DEFAULT, waits).await;
    services.up_with("fifth", &json!({ "enabled": false })).await;
    wait_until_deleted(client, DEFAULT).await;
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
