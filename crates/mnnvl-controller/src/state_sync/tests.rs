//! The writes for the daemons of a domain: pods in, plan and status out.

use expect_test::{Expect, expect};
use grove_api_types::compute_domain::clique::ComputeDomainClique;
use grove_api_types::compute_domain::daemon_pod::DaemonPodObject;
use grove_controller::plan::Step;
use grove_runtime::caches::Delta;
use grove_test_support::check_watched_kind;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::observed::Observed;
use super::*;

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
    let domain = json!({ "metadata": { "namespace": "team", "name": "llm-0", "uid": "u" }, "spec": { "numNodes": 2 } });
    let decoded = |pod: &Value| serde_json::from_value::<DaemonPodObject>(pod.clone()).unwrap().daemon_pod();
    Observed {
        domain: serde_json::from_value(domain).unwrap(),
        cliques: cliques.iter().map(|clique| Arc::new(serde_json::from_value(clique.clone()).unwrap())).collect(),
        pods: pods.iter().filter_map(decoded).collect(),
        namespace: "grove-system".to_owned(),
        mirrors_nodes: false,
    }
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
        warn: ComputeDomainDaemonRejected two daemon pods run on node node-0: daemon-0 has the entry of the node, daemon-x gets none; delete daemon-x

        {"cliques":[{"id":"f.7","status":"Ready"}],"status":"NotReady"}
    "#]],
    );
}

#[test]
fn a_mirror_has_the_entries_too() {
    let mut mirrored = observed(&[clique("f.7", &[0])], &[pod(0, "f.7", true), pod(1, "", true)]);
    mirrored.mirrors_nodes = true;
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
    let domain = json!({ "metadata": { "uid": "u", "deletionTimestamp": "2030-01-01T00:00:00Z" } });
    terminating.domain = serde_json::from_value(domain).unwrap();
    assert!(plan::plan(&terminating, &terminating.desired_cliques()).is_empty());
}

#[test]
fn pods_and_cliques_trigger_the_domain_of_their_uid() {
    let domain: SyncedDomain =
        serde_json::from_value(json!({ "metadata": { "namespace": "team", "name": "llm-0", "uid": "u" } })).unwrap();
    let domains = Cache::from_objects([domain]);
    let pod: DaemonPodObject = serde_json::from_value(pod(0, "f.7", true)).unwrap();
    let deleted = Delta { old: Some(Arc::new(pod)), new: None };
    assert_eq!(domains_of_pod(&domains, &deleted).len(), 1);
    let clique: ComputeDomainClique = serde_json::from_value(clique("f.7", &[])).unwrap();
    assert_eq!(clique.name_any(), "u.f.7");
    let created = Delta { old: None, new: Some(Arc::new(clique)) };
    assert_eq!(domains_of_clique(&domains, &created).len(), 1);
}

#[test]
fn an_edited_object_affects_no_other_object_of_its_kind() {
    check_watched_kind!(SyncedDomain, json!({ "spec": { "numNodes": 2 }, "status": { "status": "Ready" } }));
    check_watched_kind!(ComputeDomainClique, json!({ "daemons": clique("f.7", &[0])["daemons"] }));
    check_watched_kind!(
        DaemonPodObject,
        json!({ "spec": pod(0, "f.7", true)["spec"], "status": pod(0, "f.7", true)["status"] })
    );
}
