//! What one daemon does with events, responses and odd objects.

use grove_api_types::compute_domain::daemon::{Daemon, ImexChange, Input, Output, QueuedTask, Response, Task};
use grove_api_types::compute_domain::daemon_state::Imex;
use grove_api_types::compute_domain::entry::{Entry, Readiness};
use grove_api_types::compute_domain::request::{Request, Verb};
use grove_api_types::compute_domain::state_object::StateObject;
use grove_api_types::compute_domain::strategy::Strategy;
use serde_json::json;

use super::model_server::{CLIQUE, DOMAIN_UID};
use super::world::identity;

/// The entry of a node of the daemon's clique. Node 0 is that of the daemon.
fn entry(number: usize, index: i64) -> Entry {
    let identity = identity(number, 0);
    let (node_name, ip_address) = (identity.node, identity.pod_ip);
    Entry { node_name, ip_address, clique_id: CLIQUE.to_owned(), index, status: Readiness::NotReady }
}

/// A version of the domain.
fn domain(uid: &str, version: u64, entries: &[Entry]) -> StateObject {
    let nodes: Vec<_> = entries
        .iter()
        .map(|entry| {
            json!({ "name": entry.node_name, "ipAddress": entry.ip_address, "cliqueID": entry.clique_id, "index": entry.index,
                "status": entry.status })
        })
        .collect();
    let domain = json!({
        "metadata": { "namespace": "team", "name": "llm-0", "uid": uid, "resourceVersion": version.to_string() },
        "status": { "nodes": nodes },
    });
    serde_json::from_value::<grove_api_types::compute_domain::ComputeDomainState>(domain).unwrap().into()
}

/// A version of the object of the clique.
fn clique(version: u64, entries: &[Entry]) -> StateObject {
    let metadata = json!({ "namespace": "grove-system", "name": format!("{DOMAIN_UID}.{CLIQUE}"),
        "resourceVersion": version.to_string() });
    let clique = json!({ "metadata": metadata, "daemons": entries });
    serde_json::from_value::<grove_api_types::compute_domain::clique::ComputeDomainClique>(clique).unwrap().into()
}

/// A daemon whose tasks run without delay.
struct Driver {
    daemon: Daemon,
}

impl Driver {
    fn new(strategy: Strategy) -> Self {
        let mut driver = Self { daemon: Daemon::new(identity(0, 0), strategy) };
        driver.handle(Input::Start);
        driver.handle(Input::Response(Response::Success(None)));
        driver
    }

    fn observe(&mut self, object: StateObject) -> Vec<Output> {
        self.handle(Input::ObjectChanged(object))
    }

    /// The outputs without the queued tasks, which have run.
    fn handle(&mut self, input: Input) -> Vec<Output> {
        let mut outputs = self.daemon.handle(input);
        while let Some(position) = outputs.iter().position(|output| matches!(output, Output::Queue(_))) {
            let Output::Queue(task) = outputs.remove(position) else { continue };
            if task.failures == 0 {
                outputs.extend(self.daemon.handle(Input::Due(task)));
            }
        }
        outputs
    }
}

fn sent(outputs: &[Output]) -> Vec<&Request> {
    outputs.iter().filter_map(|output| if let Output::Send(request) = output { Some(request) } else { None }).collect()
}

fn reports(outputs: &[Output]) -> Vec<String> {
    let report = |output: &Output| if let Output::Report(problem) = output { Some(problem.to_string()) } else { None };
    outputs.iter().filter_map(report).collect()
}

/// The queued task; after the first list of the object, that behind the one that joins it.
fn retry(outputs: &[Output]) -> Option<QueuedTask> {
    outputs.iter().rev().find_map(|output| if let Output::Queue(task) = output { Some(*task) } else { None })
}

#[test]
fn a_daemon_first_labels_its_pod_with_its_clique() {
    for (_, strategy) in Strategy::ALL {
        let outputs = Daemon::new(identity(0, 0), strategy).handle(Input::Start);
        let [request] = sent(&outputs)[..] else { panic!("one request, not {outputs:?}") };
        assert_eq!((&request.verb, request.name.as_str()), (&Verb::MergePatch, "daemon-0-0"));
        let labels = json!({ "resource.nvidia.com/computeDomain.cliqueID": CLIQUE });
        assert_eq!(request.body, json!({ "metadata": { "labels": labels, "uid": "uid-0-0" } }));
    }
}

#[test]
fn a_failed_task_is_retried_later_each_time() {
    let mut daemon = Driver::new(Strategy::RmwStatus).daemon;
    let queued = retry(&daemon.handle(Input::ObjectChanged(domain(DOMAIN_UID, 1, &[])))).unwrap();
    let mut failures = Vec::new();
    let mut due = queued;
    for _ in 0..3 {
        assert_eq!(sent(&daemon.handle(Input::Due(due))).len(), 1);
        due = retry(&daemon.handle(Input::Response(Response::Conflict))).unwrap();
        failures.push((due.task, due.failures));
    }
    assert_eq!(failures, [(Task::Register, 1), (Task::Register, 2), (Task::Register, 3)]);
}

#[test]
fn a_failed_task_is_not_retried_if_a_later_event_has_queued_it() {
    let mut daemon = Driver::new(Strategy::RmwStatus).daemon;
    let first = retry(&daemon.handle(Input::ObjectChanged(domain(DOMAIN_UID, 1, &[])))).unwrap();
    daemon.handle(Input::Due(first));
    let second = retry(&daemon.handle(Input::ObjectChanged(domain(DOMAIN_UID, 2, &[entry(1, 0)])))).unwrap();
    assert_eq!(retry(&daemon.handle(Input::Response(Response::Conflict))), None);
    let outputs = daemon.handle(Input::Due(second));
    let [request] = sent(&outputs)[..] else { panic!("one request, not {outputs:?}") };
    assert_eq!(request.body["metadata"]["resourceVersion"], "2");
    assert_eq!(request.body["status"]["nodes"][1]["index"], 1);
}

#[test]
fn tasks_wait_for_the_response_of_the_request_before() {
    let mut driver = Driver::new(Strategy::RmwStatus);
    assert_eq!(sent(&driver.observe(domain(DOMAIN_UID, 1, &[]))).len(), 1);
    assert_eq!(driver.observe(domain(DOMAIN_UID, 2, &[])), []);
    assert_eq!(sent(&driver.handle(Input::Response(Response::Conflict))).len(), 1);
}

#[test]
fn readiness_before_the_entry_is_reported_and_retried() {
    for strategy in [Strategy::RmwStatus, Strategy::SsaStatus, Strategy::RmwClique, Strategy::SsaClique] {
        let mut daemon = Driver::new(strategy).daemon;
        // With a request in flight, for the object of the clique, the tasks would only wait.
        daemon.handle(Input::Response(Response::Success(None)));
        let task = retry(&daemon.handle(Input::PodChanged { is_ready: true, published: None })).unwrap();
        let outputs = daemon.handle(Input::Due(task));
        assert_eq!(
            reports(&outputs),
            ["there is no entry of node node-0 yet, so its readiness cannot be published; the daemon retries"]
        );
        assert_eq!(retry(&outputs).unwrap().failures, 1);
    }
}

#[test]
fn an_entry_that_lost_its_readiness_gets_it_again_without_an_event_of_the_pod() {
    for strategy in [Strategy::RmwStatus, Strategy::SsaStatus] {
        let mut driver = Driver::new(strategy);
        driver.handle(Input::PodChanged { is_ready: true, published: None });
        let outputs = driver.observe(domain(DOMAIN_UID, 1, &[entry(0, 0)]));
        let [request] = sent(&outputs)[..] else { panic!("one request, not {outputs:?}") };
        assert_eq!(request.body["status"]["nodes"][0]["status"], "Ready");
    }
}

#[test]
fn a_deleted_object_of_the_clique_is_created_again() {
    for strategy in [Strategy::RmwClique, Strategy::SsaClique] {
        let mut driver = Driver::new(strategy);
        driver.handle(Input::ObjectDeleted);
        driver.handle(Input::Response(Response::Success(Some(clique(1, &[entry(0, 2)])))));
        let outputs = driver.handle(Input::ObjectDeleted);
        let [request] = sent(&outputs)[..] else { panic!("one request, not {outputs:?}") };
        assert!(matches!(request.verb, Verb::Create | Verb::Apply { .. }), "{request:?}");
    }
}

#[test]
fn a_registered_daemon_does_not_join_again() {
    let mut driver = Driver::new(Strategy::SsaClique);
    driver.handle(Input::ObjectDeleted);
    driver.handle(Input::Response(Response::Failure));
    driver.observe(clique(1, &[entry(0, 2)]));
    let join = QueuedTask { task: Task::Join, failures: 1, event: 1 };
    assert_eq!(driver.handle(Input::Due(join)), [], "the apply without entry would remove the entry");
}

#[test]
fn a_daemon_joins_only_after_the_first_list_and_only_without_an_entry_of_its_node() {
    let earlier = |ip: &str| Entry { ip_address: ip.to_owned(), ..entry(0, 2) };
    // A container that was restarted, and the next pod of the node: its index stays, although a lower one is free.
    for (stored, applied) in [(earlier("10.0.0.0"), 0), (earlier("10.0.0.9"), 1)] {
        let mut driver = Driver::new(Strategy::SsaClique);
        assert!(driver.daemon.state.entries().is_empty());
        let outputs = driver.observe(clique(1, &[entry(1, 0), stored]));
        let indices: Vec<_> =
            sent(&outputs).iter().map(|request| request.body["daemons"][0]["index"].clone()).collect();
        assert_eq!(indices, vec![json!(2); applied]);
    }
    let mut driver = Driver::new(Strategy::SsaClique);
    assert_eq!(sent(&driver.handle(Input::ObjectDeleted)).len(), 1);
}

#[test]
fn the_readiness_of_a_restarted_daemon_stays_until_it_knows_its_pod() {
    let ready = Entry { status: Readiness::Ready, ..entry(0, 0) };
    for strategy in [Strategy::RmwStatus, Strategy::SsaStatus] {
        let mut driver = Driver::new(strategy);
        assert_eq!(sent(&driver.observe(domain(DOMAIN_UID, 1, std::slice::from_ref(&ready)))), [] as [&Request; 0]);
        let outputs = driver.handle(Input::PodChanged { is_ready: false, published: None });
        assert_eq!(sent(&outputs)[0].body["status"]["nodes"][0]["status"], "NotReady");
    }
}

#[test]
fn imex_does_not_start_with_the_entry_of_an_earlier_pod() {
    let mut daemon = Driver::new(Strategy::RmwStatus).daemon;
    let earlier = Entry { ip_address: "10.9.9.9".to_owned(), ..entry(0, 4) };
    let register = retry(&daemon.handle(Input::ObjectChanged(domain(DOMAIN_UID, 1, &[earlier])))).unwrap();
    assert_eq!(sent(&daemon.handle(Input::Due(register))).len(), 1);
    let outputs = daemon.handle(Input::Response(Response::Conflict));
    assert!(!outputs.iter().any(|output| matches!(output, Output::Imex(_))), "{outputs:?}");
}

#[test]
fn an_old_pod_does_not_remove_the_entry_of_the_next_pod_of_its_node() {
    let mut driver = Driver::new(Strategy::SsaStatus);
    let next = Entry { ip_address: "10.9.9.9".to_owned(), ..entry(0, 4) };
    driver.daemon.handle(Input::ObjectChanged(domain(DOMAIN_UID, 1, &[next])));
    assert_eq!(driver.daemon.handle(Input::Stop), [Output::Stopped]);
}

#[test]
fn an_address_that_is_none_is_reported_and_the_other_peers_count() {
    let mut driver = Driver::new(Strategy::RmwStatus);
    let hostile = Entry { ip_address: "10.0.0.1\n10.6.6.6 registry".to_owned(), ..entry(1, 1) };
    let outputs = driver.observe(domain(DOMAIN_UID, 1, &[entry(0, 0), hostile]));
    let report = reports(&outputs).concat();
    assert!(report.contains("has address \"10.0.0.1\\n10.6.6.6 registry\", which is no IP address"), "{report}");
    assert!(outputs.contains(&Output::Imex(ImexChange::Start(vec![entry(0, 0)]))));
}

#[test]
fn older_versions_are_ignored_and_another_domain_of_the_name_has_no_entries() {
    let mut driver = Driver::new(Strategy::RmwStatus);
    driver.observe(domain(DOMAIN_UID, 9, &[entry(0, 4), entry(1, 0)]));
    driver.observe(domain(DOMAIN_UID, 8, &[entry(0, 3)]));
    assert_eq!(driver.daemon.state.entries(), [entry(0, 4), entry(1, 0)]);
    driver.observe(domain("uid-of-next-domain", 10, &[entry(1, 0)]));
    assert_eq!(driver.daemon.state.entries(), []);
    // The next domain gets no write of this daemon.
    let mut driver = Driver::new(Strategy::SsaStatus);
    assert_eq!(driver.observe(domain("uid-of-next-domain", 10, &[])), []);
}

#[test]
fn a_newcomer_fills_the_gap_and_a_restarted_daemon_retains_its_index() {
    let mut driver = Driver::new(Strategy::RmwStatus);
    let outputs = driver.observe(domain(DOMAIN_UID, 1, &[entry(1, 0), entry(2, 2)]));
    assert_eq!(sent(&outputs)[0].body["status"]["nodes"][2]["index"], 1);

    let mut driver = Driver::new(Strategy::RmwStatus);
    let before = Entry { ip_address: "10.0.0.9".to_owned(), ..entry(0, 5) };
    let outputs = driver.observe(domain(DOMAIN_UID, 1, &[before]));
    let own = &sent(&outputs)[0].body["status"]["nodes"][0];
    assert_eq!((own["index"].as_i64(), own["ipAddress"].as_str()), (Some(5), Some("10.0.0.0")));
}

#[test]
fn the_19th_node_of_a_clique_gets_a_message_and_no_index() {
    let full: Vec<_> = (1..=18).map(|number| entry(number, i64::try_from(number).unwrap() - 1)).collect();
    for strategy in [Strategy::RmwStatus, Strategy::SsaStatus] {
        let mut driver = Driver::new(strategy);
        let outputs = driver.observe(domain(DOMAIN_UID, 1, &full));
        assert_eq!(sent(&outputs), [] as [&Request; 0]);
        assert_eq!(
            reports(&outputs),
            [
                "clique fabric.7 has no free index for node node-0: it has 18 nodes already; delete the daemon pod of a node that needs no \
                 fabric"
            ]
        );
        // It gets the next free index.
        let outputs = driver.observe(domain(DOMAIN_UID, 2, &full[1..]));
        assert_eq!(sent(&outputs).len(), 1);
    }
}

#[test]
fn a_node_without_fabric_only_labels_its_pod() {
    let mut identity = identity(0, 0);
    identity.clique = String::new();
    let mut driver = Driver { daemon: Daemon::new(identity, Strategy::SsaClique) };
    let outputs = driver.handle(Input::Start);
    assert_eq!(
        sent(&outputs)[0].body["metadata"]["labels"],
        json!({ "resource.nvidia.com/computeDomain.cliqueID": "" })
    );
    assert_eq!(
        reports(&driver.handle(Input::Response(Response::Success(None)))),
        [
            "CLIQUE_ID is empty: node node-0 has no NVLink fabric, so the daemon starts no IMEX process; if it should have one, check \
          the fabric manager of the node"
        ]
    );
    assert_eq!(driver.handle(Input::PodChanged { is_ready: true, published: None }), []);
    assert_eq!(driver.handle(Input::Stop), [Output::Stopped]);
}

#[test]
fn imex_starts_with_the_own_entry_and_reads_its_peers_again_when_another_joins() {
    let mut driver = Driver::new(Strategy::RmwStatus);
    let mut observe = |version, entries: &[Entry]| driver.observe(domain(DOMAIN_UID, version, entries));
    let [a, b] = [entry(0, 1), entry(1, 0)];
    let start = ImexChange::Start(vec![b.clone(), a.clone()]);
    assert_eq!(observe(1, &[a.clone(), b.clone()]), [Output::Imex(start)]);
    // Readiness is no reason to read them again.
    let ready = Entry { status: Readiness::Ready, ..b.clone() };
    assert_eq!(observe(2, &[a.clone(), ready]), []);
    let third = entry(2, 2);
    let joined = ImexChange::Peers { peers: vec![b.clone(), a.clone(), third.clone()], has_new: true };
    assert_eq!(observe(3, &[a.clone(), b.clone(), third]), [Output::Imex(joined)]);
    // If a peer leaves, the process need not read the rest.
    let left = ImexChange::Peers { peers: vec![b.clone(), a.clone()], has_new: false };
    assert_eq!(observe(4, &[a.clone(), b.clone()]), [Output::Imex(left)]);
    let moved = Entry { ip_address: "10.0.1.9".to_owned(), ..b };
    let changed = ImexChange::Peers { peers: vec![moved.clone(), a.clone()], has_new: true };
    assert_eq!(observe(5, &[a, moved]), [Output::Imex(changed)]);
}

#[test]
fn imex_reads_its_peers_again_when_two_of_them_have_exchanged_their_indices() {
    for (_, strategy) in Strategy::ALL {
        let object = |version, entries: &[Entry]| {
            if strategy.has_cliques() { clique(version, entries) } else { domain(DOMAIN_UID, version, entries) }
        };
        let mut driver = Driver::new(strategy);
        driver.daemon.state.imex = Some(Imex { index: 2, peers: vec![entry(1, 0), entry(3, 1), entry(0, 2)] });
        let exchanged = [entry(3, 0), entry(1, 1), entry(0, 2)];
        let mut outputs = driver.observe(object(1, &exchanged));
        // The request to join, or the one with the index.
        outputs.extend(driver.handle(Input::Response(Response::Success(None))));
        let peers = ImexChange::Peers { peers: exchanged.to_vec(), has_new: true };
        assert!(outputs.contains(&Output::Imex(peers)), "{strategy:?}: {outputs:?}");
    }
}

#[test]
fn an_index_that_the_clique_does_not_have_is_reported_and_the_other_peers_count() {
    let mut driver = Driver::new(Strategy::RmwStatus);
    let outputs = driver.observe(domain(DOMAIN_UID, 1, &[entry(0, 0), entry(1, 18)]));
    assert_eq!(
        reports(&outputs),
        [
            "the entry of node node-1 in clique fabric.7 has index 18, which is not from 0 to 17: delete the entry, and its daemon \
          registers again"
        ]
    );
    assert!(outputs.contains(&Output::Imex(ImexChange::Start(vec![entry(0, 0)]))));
}

#[test]
fn imex_starts_again_if_a_client_changes_the_index_of_its_node() {
    let mut driver = Driver::new(Strategy::SsaStatus);
    driver.observe(domain(DOMAIN_UID, 1, &[entry(0, 0)]));
    let joined = entry(1, 0);
    let outputs = driver.observe(domain(DOMAIN_UID, 2, &[entry(0, 4), joined.clone()]));
    assert_eq!(
        reports(&outputs),
        ["the index of node node-0 changed from 0 to 4 while IMEX was running; the daemon restarts IMEX"]
    );
    assert!(outputs.contains(&Output::Imex(ImexChange::Restart(vec![joined, entry(0, 4)]))));
}

#[test]
fn an_entry_that_an_update_wrote_is_taken_over_by_force_and_removed_at_the_end() {
    let mut driver = Driver::new(Strategy::SsaStatus);
    let before = Entry { ip_address: "10.0.0.9".to_owned(), ..entry(0, 3) };
    let outputs = driver.observe(domain(DOMAIN_UID, 1, &[before]));
    assert!(format!("{:?}", sent(&outputs)[0].verb).contains("force: false"));
    let outputs = driver.daemon.handle(Input::Response(Response::Conflict));
    let outputs = driver.daemon.handle(Input::Due(retry(&outputs).unwrap()));
    let request = sent(&outputs)[0];
    assert!(format!("{:?}", request.verb).contains("force: true"));
    assert_eq!(request.body["status"]["nodes"][0]["index"], 3);
    driver.handle(Input::Response(Response::Success(Some(domain(DOMAIN_UID, 2, &[entry(0, 3)])))));
    // The other manager still owns a part of the entry, so the apply without entry does not remove it.
    let outputs = driver.handle(Input::Stop);
    assert_eq!(sent(&outputs)[0].body["status"], json!({ "nodes": [] }));
    let outputs = driver.handle(Input::Response(Response::Success(Some(domain(DOMAIN_UID, 3, &[entry(0, 3)])))));
    assert_eq!(sent(&outputs)[0].body["status"], json!({}));
    let outputs = driver.handle(Input::Response(Response::Success(Some(domain(DOMAIN_UID, 4, &[])))));
    assert_eq!(outputs, [Output::Stopped]);
}

#[test]
fn a_stopping_daemon_waits_for_its_request_and_a_deleted_domain_has_no_entry() {
    let mut driver = Driver::new(Strategy::RmwStatus);
    assert_eq!(sent(&driver.observe(domain(DOMAIN_UID, 1, &[]))).len(), 1);
    assert_eq!(driver.handle(Input::Stop), []);
    let outputs = driver.handle(Input::Response(Response::Success(Some(domain(DOMAIN_UID, 2, &[entry(0, 0)])))));
    assert_eq!(sent(&outputs)[0].body["status"], json!({}));
    assert_eq!(driver.observe(domain(DOMAIN_UID, 3, &[entry(0, 0), entry(1, 1)])), []);
    assert_eq!(driver.handle(Input::Response(Response::NotFound)), [Output::Stopped]);
}
