//! The writes for the daemons of a domain: pods in, plan and status out.

use expect_test::{Expect, expect, expect_file};
use grove_api_types::compute_domain::STRATEGY_ANNOTATION;
use grove_api_types::compute_domain::clique::ComputeDomainClique;
use grove_api_types::compute_domain::daemon_pod::DaemonPodObject;
use grove_api_types::compute_domain::strategy::Strategy;
use grove_controller::plan::Step;
use grove_runtime::caches::{Cache, Delta};
use grove_test_support::check_watched_kind;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::objects::{SlimClaimTemplate, SlimDaemonSet, SlimNode};
use super::observed::Observed;
use super::triggers::domains_of;
use super::*;

mod live_reads;

/// The pod of the daemon of a node.
fn pod(node: usize, clique: &str, is_ready: bool) -> Value {
    let (name, ready) = (format!("daemon-{node}"), if is_ready { "True" } else { "False" });
    json!({
        "metadata": { "namespace": "grove-system", "name": name, "uid": format!("uid-{node}"),
            "labels": { "resource.nvidia.com/computeDomain": "u", "resource.nvidia.com/computeDomain.cliqueID": clique } },
        "spec": { "nodeName": format!("node-{node}") },
        "status": { "phase": "Running", "podIP": format!("10.0.0.{node}"), "conditions": [{ "type": "Ready", "status": ready }] },
    })
}

/// The object of a clique with the entries of these nodes, by index.
fn clique(id: &str, nodes: &[usize]) -> Value {
    let entry = |(index, node): (usize, &usize)| {
        json!({ "nodeName": format!("node-{node}"), "ipAddress": format!("10.0.0.{node}"), "cliqueID": id, "index": index,
            "status": "Ready" })
    };
    let owner = |node: &usize| json!({ "apiVersion": "v1", "kind": "Pod", "name": format!("daemon-{node}"), "uid": format!("uid-{node}") });
    json!({
        "metadata": { "namespace": "grove-system", "name": format!("u.{id}"), "resourceVersion": "7",
            "ownerReferences": nodes.iter().map(owner).collect::<Vec<_>>() },
        "daemons": nodes.iter().enumerate().map(entry).collect::<Vec<_>>(),
    })
}

fn observed(cliques: &[Value], pods: &[Value]) -> Observed {
    let decoded = |pod: &Value| serde_json::from_value::<DaemonPodObject>(pod.clone()).unwrap().daemon_pod();
    Observed {
        domain: domain(Strategy::ControllerClique),
        cliques: cliques.iter().map(|clique| Arc::new(serde_json::from_value(clique.clone()).unwrap())).collect(),
        pods: pods.iter().filter_map(decoded).collect(),
        daemon_set: Some(Arc::new(object("computedomain-daemon-u", None))),
        claim_templates: vec![template("Daemon"), template("Workload")],
        settings: settings(false),
        ..Observed::default()
    }
}

/// A domain whose synchronization has begun.
fn domain(strategy: Strategy) -> SyncedDomain {
    let metadata = json!({ "namespace": "team", "name": "llm-0", "uid": "u", "resourceVersion": "3",
        "finalizers": ["resource.nvidia.com/computeDomain"],
        "annotations": { "grove.io/compute-domain-sync-strategy": strategy.name() } });
    let spec = json!({ "numNodes": 2, "channel": { "resourceClaimTemplate": { "name": "llm-0" } } });
    serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap()
}

fn settings(mirrors_nodes: bool) -> Arc<Settings> {
    Arc::new(Settings { namespace: "grove-system".to_owned(), mirrors_nodes, ..Settings::default() })
}

/// An object with the label of the domain and the finalizer.
fn object<K: DeserializeOwned>(name: &str, target: Option<&str>) -> K {
    let labels = json!({ "resource.nvidia.com/computeDomain": "u", "resource.nvidia.com/computeDomainTarget": target.unwrap_or_default() });
    let metadata = json!({ "namespace": "grove-system", "name": name, "uid": format!("uid-{name}"), "labels": labels,
        "finalizers": ["resource.nvidia.com/computeDomain"] });
    serde_json::from_value(json!({ "metadata": metadata })).unwrap()
}

fn template(target: &str) -> Arc<SlimClaimTemplate> {
    Arc::new(object(&target.to_lowercase(), Some(target)))
}

#[track_caller]
fn check(observed: &Observed, expected: &Expect) {
    let cliques = observed.desired_cliques();
    let plan = plan::plan(observed, &cliques);
    let creates: Vec<_> = plan.steps().filter_map(|step| Some(created(step)?.to_string())).collect();
    let (creates, status) = (creates.join("\n"), json!(status::status(observed, &cliques)));
    expected.assert_eq(&format!("{plan}{creates}\n{status}\n"));
}

fn created(step: &Step) -> Option<Value> {
    match step {
        Step::Create(create) => Some(create.object.value()),
        Step::Patch(_) | Step::Delete(_) | Step::Adopt(_) => None,
    }
}

#[test]
fn a_clique_is_created_with_the_entries_of_all_its_pods() {
    check(
        &observed(&[], &[pod(0, "f.7", true), pod(1, "f.7", false), pod(2, "", true)]),
        &expect![[r#"
        cliques: create ComputeDomainClique u.f.7
        {"apiVersion":"resource.nvidia.com/v1beta1","daemons":[{"cliqueID":"f.7","index":0,"ipAddress":"10.0.0.0","nodeName":"node-0","status":"Ready"},{"cliqueID":"f.7","index":1,"ipAddress":"10.0.0.1","nodeName":"node-1","status":"NotReady"}],"kind":"ComputeDomainClique","metadata":{"labels":{"resource.nvidia.com/computeDomain":"u","resource.nvidia.com/computeDomain.cliqueID":"f.7"},"name":"u.f.7","namespace":"grove-system","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"daemon-0","uid":"uid-0"},{"apiVersion":"v1","kind":"Pod","name":"daemon-1","uid":"uid-1"}]}}
        {"cliques":[{"id":"f.7","status":"NotReady"}],"nodes":[{"cliqueID":"","index":-1,"ipAddress":"10.0.0.2","name":"node-2","status":"Ready"}],"status":"NotReady"}
    "#]],
    );
}

#[test]
fn a_settled_clique_is_not_written() {
    let pods = [pod(0, "f.7", true), pod(1, "f.7", true)];
    check(
        &observed(&[clique("f.7", &[0, 1])], &pods),
        &expect![[r#"
        nothing to do

        {"cliques":[{"id":"f.7","status":"Ready"}],"status":"Ready"}
    "#]],
    );
}

#[test]
fn entries_follow_the_pods_and_the_last_ones_leave_their_owners() {
    check(
        &observed(&[clique("f.7", &[0, 1])], &[pod(1, "f.7", true), pod(2, "f.7", true)]),
        &expect![[r#"
        cliques: patch ComputeDomainClique u.f.7 {"daemons":[{"cliqueID":"f.7","index":0,"ipAddress":"10.0.0.2","nodeName":"node-2","status":"Ready"},{"cliqueID":"f.7","index":1,"ipAddress":"10.0.0.1","nodeName":"node-1","status":"Ready"}],"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"daemon-2","uid":"uid-2"},{"apiVersion":"v1","kind":"Pod","name":"daemon-1","uid":"uid-1"}],"resourceVersion":"7"}}

        {"cliques":[{"id":"f.7","status":"Ready"}],"status":"Ready"}
    "#]],
    );
    check(
        &observed(&[clique("f.7", &[0])], &[]),
        &expect![[r#"
        cliques: patch ComputeDomainClique u.f.7 {"daemons":[],"metadata":{"resourceVersion":"7"}}

        {}
    "#]],
    );
}

#[test]
fn a_second_daemon_of_a_node_is_reported() {
    let mut second = pod(0, "f.7", true);
    second["metadata"]["name"] = json!("daemon-x");
    check(
        &observed(&[clique("f.7", &[0])], &[pod(0, "f.7", true), second]),
        &expect![[r#"
        warn: ComputeDomainDaemonRejected two daemon pods run on node node-0, which can have only one entry: daemon-0 and daemon-x; delete daemon-x

        {"cliques":[{"id":"f.7","status":"Ready"}],"status":"NotReady"}
    "#]],
    );
}

#[test]
fn a_second_daemon_of_a_node_is_reported_with_each_strategy() {
    let mut second = pod(0, "f.7", true);
    second["metadata"]["name"] = json!("daemon-x");
    for (_, strategy) in Strategy::ALL {
        let mut observed = observed(&[], &[pod(0, "f.7", true), second.clone()]);
        observed.domain = domain(strategy);
        let plan = plan::plan(&observed, &observed.desired_cliques()).to_string();
        assert!(plan.contains("two daemon pods run on node node-0"), "{strategy:?}: {plan}");
    }
}

#[test]
fn a_mirror_has_the_entries_too() {
    let mut mirrored = observed(&[clique("f.7", &[0])], &[pod(0, "f.7", true), pod(1, "", true)]);
    mirrored.settings = settings(true);
    check(
        &mirrored,
        &expect![[r#"
        nothing to do

        {"cliques":[{"id":"f.7","status":"Ready"}],"nodes":[{"cliqueID":"","index":-1,"ipAddress":"10.0.0.1","name":"node-1","status":"Ready"},{"cliqueID":"f.7","index":0,"ipAddress":"10.0.0.0","name":"node-0","status":"Ready"}],"status":"Ready"}
    "#]],
    );
}

#[test]
fn a_terminating_domain_gets_no_clique() {
    let mut terminating = observed(&[], &[pod(0, "f.7", true)]);
    terminating.domain.metadata.deletion_timestamp = deletion_time();
    let plan = plan::plan(&terminating, &terminating.desired_cliques());
    assert!(plan.steps().all(|step| step.verb() != "create"), "{plan}");
}

#[track_caller]
fn check_plan(observed: &Observed, expected: &Expect) {
    expected.assert_eq(&plan::plan(observed, &observed.desired_cliques()).to_string());
}

#[test]
fn a_domain_gets_finalizer_and_strategy_before_its_objects() {
    let mut new = observed(&[], &[]);
    (new.daemon_set, new.claim_templates) = (None, vec![]);
    new.domain.metadata.annotations = None;
    new.domain.metadata.finalizers = Some(vec!["grove.io/computedomain-finalizer".to_owned()]);
    check_plan(
        &new,
        &expect![[r#"
        registration: patch ComputeDomain llm-0 {"metadata":{"annotations":{"grove.io/compute-domain-sync-strategy":"ssa-status"},"finalizers":["grove.io/computedomain-finalizer","resource.nvidia.com/computeDomain"],"resourceVersion":"3"}}
    "#]],
    );
    assert!(!new.writes_status());
    new.domain = domain(Strategy::RmwClique);
    check_plan(
        &new,
        &expect![[r"
        daemons: create ResourceClaimTemplate computedomain-daemon-u
        daemons: create DaemonSet computedomain-daemon-u
        daemons: create ResourceClaimTemplate llm-0
    "]],
    );
}

#[test]
fn the_objects_of_a_domain_have_its_uid_and_its_strategy() {
    let mut new = observed(&[], &[]);
    (new.daemon_set, new.claim_templates) = (None, vec![]);
    new.domain = domain(Strategy::RmwClique);
    let creates: Vec<_> = plan::plan(&new, &[]).steps().filter_map(created).collect();
    let daemon_set = &creates[1]["spec"]["template"]["spec"];
    let strategy =
        daemon_set["containers"][0]["env"].as_array().unwrap().iter().find(|it| it["name"] == "SYNC_STRATEGY");
    assert_eq!(strategy.unwrap()["value"], "rmw-clique", "the strategy of the domain, not the configured one");
    let workload = [&creates[2]["metadata"], &creates[2]["spec"]].map(|value| format!("{value}\n")).concat();
    expect![[r#"
        {"spec":{"devices":{"config":[{"opaque":{"driver":"compute-domain.nvidia.com","parameters":{"apiVersion":"resource.nvidia.com/v1beta1","domainID":"u","kind":"ComputeDomainDaemonConfig"}},"requests":["daemon"]}],"requests":[{"exactly":{"deviceClassName":"compute-domain-daemon.nvidia.com"},"name":"daemon"}]}}}
        {"resource.nvidia.com/computeDomain":"u"}
        {"finalizers":["resource.nvidia.com/computeDomain"],"labels":{"resource.nvidia.com/computeDomain":"u","resource.nvidia.com/computeDomainTarget":"Workload"},"name":"llm-0","namespace":"team"}
        {"spec":{"devices":{"config":[{"opaque":{"driver":"compute-domain.nvidia.com","parameters":{"allocationMode":"Single","apiVersion":"resource.nvidia.com/v1beta1","domainID":"u","kind":"ComputeDomainChannelConfig"}},"requests":["channel"]}],"requests":[{"exactly":{"deviceClassName":"compute-domain-default-channel.nvidia.com"},"name":"channel"}]}}}
    "#]].assert_eq(&format!("{}\n{}\n{workload}", creates[0]["spec"], daemon_set["nodeSelector"]));
}

/// The probes decide when a pod is Ready, and with it its entry.
#[test]
fn the_daemon_set_runs_the_daemon_as_the_driver_does() {
    let mut new = observed(&[], &[]);
    (new.daemon_set, new.claim_templates) = (None, vec![]);
    let creates: Vec<_> = plan::plan(&new, &[]).steps().filter_map(created).collect();
    expect_file!["tests/daemon_set.json"].assert_eq(&serde_json::to_string_pretty(&creates[1]).unwrap());
}

#[test]
fn a_terminating_domain_releases_one_object_after_the_other() {
    let mut terminating = observed(&[], &[]);
    terminating.domain.metadata.deletion_timestamp = deletion_time();
    terminating.nodes = vec![Arc::new(object("node-0", None))];
    check_plan(
        &terminating,
        &expect![[r#"
        claim-template: delete ResourceClaimTemplate workload
        daemons: delete DaemonSet computedomain-daemon-u
        daemons: delete ResourceClaimTemplate daemon
        nodes: patch Node node-0 [{"op":"test","path":"/metadata/labels/resource.nvidia.com~1computeDomain","value":"u"},{"op":"remove","path":"/metadata/labels/resource.nvidia.com~1computeDomain"}]
        release-claim-template: patch ResourceClaimTemplate workload [{"op":"test","path":"/metadata/uid","value":"uid-workload"},{"op":"test","path":"/metadata/finalizers/0","value":"resource.nvidia.com/computeDomain"},{"op":"remove","path":"/metadata/finalizers/0"}]
    "#]],
    );
    terminating.claim_templates.pop();
    terminating.nodes.clear();
    check_plan(
        &terminating,
        &expect![[r#"
        daemons: delete DaemonSet computedomain-daemon-u
        daemons: delete ResourceClaimTemplate daemon
        release-daemons: patch DaemonSet computedomain-daemon-u [{"op":"test","path":"/metadata/uid","value":"uid-computedomain-daemon-u"},{"op":"test","path":"/metadata/finalizers/0","value":"resource.nvidia.com/computeDomain"},{"op":"remove","path":"/metadata/finalizers/0"}]
        release-daemons: patch ResourceClaimTemplate daemon [{"op":"test","path":"/metadata/uid","value":"uid-daemon"},{"op":"test","path":"/metadata/finalizers/0","value":"resource.nvidia.com/computeDomain"},{"op":"remove","path":"/metadata/finalizers/0"}]
    "#]],
    );
    (terminating.daemon_set, terminating.claim_templates) = (None, vec![]);
    check_plan(
        &terminating,
        &expect![[r#"
        release-domain: patch ComputeDomain llm-0 [{"op":"test","path":"/metadata/uid","value":"u"},{"op":"test","path":"/metadata/finalizers/0","value":"resource.nvidia.com/computeDomain"},{"op":"remove","path":"/metadata/finalizers/0"}]
    "#]],
    );
}

#[test]
fn nothing_is_written_beside_another_manager_or_with_an_unknown_strategy() {
    let mut other = observed(&[], &[pod(0, "f.7", true)]);
    other.other_manager = Some("compute-domain-controller".to_owned());
    check_plan(
        &other,
        &expect![[r"
            warn: ComputeDomainNotSynchronized the field manager compute-domain-controller writes the state of this ComputeDomain too, so Grove does not; delete the ComputeDomain, stop compute-domain-controller and create it again, or set computeDomain.stateSync to external
        "]],
    );
    assert!(!other.writes_status());
    let mut unknown = observed(&[], &[pod(0, "f.7", true)]);
    unknown.domain.metadata.annotations.as_mut().unwrap().insert(STRATEGY_ANNOTATION.to_owned(), "later".to_owned());
    check_plan(
        &unknown,
        &expect![[r#"
        warn: ComputeDomainNotSynchronized the annotation grove.io/compute-domain-sync-strategy has the value "later", which is none of rmw-status, ssa-status, rmw-clique, ssa-clique, controller-clique; correct it if a user changed it, otherwise create the ComputeDomain again
    "#]],
    );
    assert!(!unknown.writes_status());
}

#[test]
fn the_entries_of_daemons_without_pod_are_removed() {
    let mut in_cliques = observed(&[clique("f.7", &[0, 1])], &[pod(1, "f.7", true)]);
    in_cliques.domain = domain(Strategy::SsaClique);
    assert!(in_cliques.needs_live_pods());
    check(
        &in_cliques,
        &expect![[r#"
        cliques: patch ComputeDomainClique u.f.7 {"daemons":[{"cliqueID":"f.7","index":1,"ipAddress":"10.0.0.1","nodeName":"node-1","status":"Ready"}],"metadata":{"resourceVersion":"7"}}

        {"cliques":[{"id":"f.7","status":"Ready"}],"status":"NotReady"}
    "#]],
    );
    let mut in_status = observed(&[], &[pod(1, "f.7", true), pod(2, "", true)]);
    in_status.domain = domain(Strategy::SsaStatus);
    let node = |node: usize, index: i64| {
        json!({ "name": format!("node-{node}"), "ipAddress": format!("10.0.0.{node}"), "cliqueID": "f.7",
        "index": index, "status": "Ready" })
    };
    in_status.domain.status = serde_json::from_value(json!({ "nodes": [node(0, 0), node(1, 1)] })).unwrap();
    assert!(in_status.needs_live_pods());
    check(
        &in_status,
        &expect![[r#"
        nothing to do

        {"cliques":[{"id":"f.7","status":"Ready"}],"nodes":[{"cliqueID":"","index":-1,"ipAddress":"10.0.0.2","name":"node-2","status":"Ready"},{"cliqueID":"f.7","index":1,"ipAddress":"10.0.0.1","name":"node-1","status":"Ready"}],"status":"Ready"}
    "#]],
    );
}

#[test]
fn the_order_of_nodes_has_no_meaning() {
    let mut unordered = observed(&[], &[pod(0, "f.7", true), pod(2, "", true)]);
    unordered.domain = domain(Strategy::RmwStatus);
    let written = status::status(&unordered, &[]);
    let entry = json!({ "name": "node-0", "ipAddress": "10.0.0.0", "cliqueID": "f.7", "index": 0, "status": "Ready" });
    unordered.domain.status = written;
    unordered.domain.status.nodes.insert(0, serde_json::from_value(entry).unwrap());
    let nodes = unordered.domain.status.nodes.clone();
    assert_eq!((nodes.len(), status::status(&unordered, &[]).nodes), (2, nodes));
}

#[test]
fn pods_and_cliques_trigger_the_domain_of_their_uid() {
    let domain: SyncedDomain =
        serde_json::from_value(json!({ "metadata": { "namespace": "team", "name": "llm-0", "uid": "u" } })).unwrap();
    let domains = Cache::from_objects([domain]);
    let pod: DaemonPodObject = serde_json::from_value(pod(0, "f.7", true)).unwrap();
    let deleted = Delta { old: Some(Arc::new(pod)), new: None };
    assert_eq!(domains_of(&domains, &deleted, domain_of).len(), 1);
    let clique: ComputeDomainClique = serde_json::from_value(clique("f.7", &[])).unwrap();
    assert_eq!(clique.name_any(), "u.f.7");
    let created = Delta { old: None, new: Some(Arc::new(clique)) };
    assert_eq!(domains_of(&domains, &created, domain_of_clique).len(), 1);
}

#[test]
fn an_edited_object_affects_no_other_object_of_its_kind() {
    check_watched_kind!(SyncedDomain, json!({ "spec": { "numNodes": 2 }, "status": { "status": "Ready" } }));
    check_watched_kind!(ComputeDomainClique, json!({ "daemons": clique("f.7", &[0])["daemons"] }));
    check_watched_kind!(SlimDaemonSet, json!({}));
    check_watched_kind!(SlimClaimTemplate, json!({}));
    check_watched_kind!(SlimNode, json!({}));
    check_watched_kind!(
        DaemonPodObject,
        json!({ "spec": pod(0, "f.7", true)["spec"], "status": pod(0, "f.7", true)["status"] })
    );
}

fn deletion_time() -> Option<Time> {
    serde_json::from_value(json!("2030-01-01T00:00:00Z")).unwrap()
}

/// Otherwise the domain would never end, and its nodes would keep its label.
#[test]
fn a_terminating_domain_of_grove_is_stopped_although_something_prevents_its_synchronization() {
    let mut terminating = observed(&[], &[]);
    terminating.domain.metadata.deletion_timestamp = deletion_time();
    let stages = |observed: &Observed| {
        plan::plan(observed, &observed.desired_cliques())
            .steps()
            .filter(|step| step.to_string().contains("delete"))
            .count()
    };
    assert_eq!(stages(&terminating), 3);
    terminating.other_manager = Some("velero-server".to_owned());
    assert_eq!(stages(&terminating), 3, "the annotation shows that the objects are those of Grove");
    terminating.domain.metadata.annotations = None;
    assert_eq!(stages(&terminating), 0, "the domain of another manager");
    terminating.other_manager = None;
    assert_eq!(stages(&terminating), 3, "a user removed the annotation");
    let unknown = [(STRATEGY_ANNOTATION.to_owned(), "later".to_owned())];
    terminating.domain.metadata.annotations = Some(unknown.into());
    assert_eq!(stages(&terminating), 3, "a user changed the annotation");
}

#[test]
fn a_deleted_object_of_a_live_domain_is_released_and_created_again() {
    let mut live = observed(&[], &[]);
    let mut daemon_set = (**live.daemon_set.as_ref().unwrap()).clone();
    daemon_set.metadata.deletion_timestamp = deletion_time();
    live.daemon_set = Some(Arc::new(daemon_set));
    check_plan(
        &live,
        &expect![[r#"
        daemons: patch DaemonSet computedomain-daemon-u [{"op":"test","path":"/metadata/uid","value":"uid-computedomain-daemon-u"},{"op":"test","path":"/metadata/finalizers/0","value":"resource.nvidia.com/computeDomain"},{"op":"remove","path":"/metadata/finalizers/0"}]
    "#]],
    );
    live.daemon_set = None;
    check_plan(
        &live,
        &expect![[r"
        daemons: create DaemonSet computedomain-daemon-u
    "]],
    );
}
