//! The delays of replacements, for sequences of pods that end.

use std::sync::Arc;

use grove_api_types::names::{PodCliqueName, PodName};
use grove_controller::plan::{ManifestTemplate, Stage, Step, Target};
use serde_json::json;

use super::*;

fn clique(replicas: i32, hash: &str) -> PodClique {
    let metadata = json!({ "namespace": "ns", "name": "c", "uid": "u", "labels": { (labels::TEMPLATE_HASH): hash } });
    let object = json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "metadata": metadata,
        "spec": { "roleName": "r", "replicas": replicas, "podSpec": { "containers": [] } } });
    serde_json::from_value(object).unwrap()
}

fn pod(name: &str, index: i32, phase: &str) -> SlimPod {
    let metadata = json!({ "namespace": "ns", "name": name, "uid": name, "labels": { (labels::TEMPLATE_HASH): "1h" },
        "creationTimestamp": "1970-01-01T00:00:00Z" });
    let spec = json!({ "hostname": format!("c-{index}") });
    serde_json::from_value(json!({ "metadata": metadata, "spec": spec, "status": { "phase": phase } })).unwrap()
}

#[derive(Debug)]
struct EmptyTemplate;

impl ManifestTemplate for EmptyTemplate {
    fn render(&self, _name: &str, _index: i32) -> String {
        "{}".to_owned()
    }
}

fn creating(index: i32) -> Plan {
    let target = Target::of(&pod("next", index, "Pending"));
    Plan::new().stage(Stage::new("pods", [Step::create_from_template(target, Arc::new(EmptyTemplate), index)]))
}

/// The seconds until the replacement at index 0, if the pods were created `age` seconds ago.
fn wait(backoff: &ReplacementBackoff, pods: &[SlimPod], age: i64) -> u64 {
    wait_after_deletions(backoff, pods, &[], age)
}

/// The same, if some pods that ended were deleted.
fn wait_after_deletions(backoff: &ReplacementBackoff, pods: &[SlimPod], deleted: &[SlimPod], age: i64) -> u64 {
    let now = Timestamp::from_second(age).unwrap();
    let delays = backoff.observe((&clique(2, "1h"), false), pods.iter(), deleted.iter(), now);
    delays.get(&0).copied().unwrap_or_default().as_secs()
}

#[tokio::test(start_paused = true)]
async fn replacements_of_pods_that_end_at_once_are_delayed_exponentially() {
    let backoff = ReplacementBackoff::default();
    for (nth, expected) in [10, 20, 40, 80, 160, 300, 300].into_iter().enumerate() {
        let ended = [pod(&format!("p{nth}"), 0, "Failed")];
        assert_eq!(wait(&backoff, &ended, 0), expected);
        tokio::time::advance(Duration::from_secs(expected / 2)).await;
        assert_eq!(wait(&backoff, &ended, 0), expected / 2, "the pod counts once");
        tokio::time::advance(Duration::from_secs(expected / 2)).await;
        assert_eq!(wait(&backoff, &ended, 0), 0);
        backoff.record_creation_times("u", &creating(0));
    }
}

#[tokio::test(start_paused = true)]
async fn the_lifetime_of_a_pod_shortens_the_delay_and_a_long_one_resets_it() {
    let backoff = ReplacementBackoff::default();
    assert_eq!(wait(&backoff, &[pod("a", 0, "Succeeded")], 7), 3);
    assert_eq!(wait(&ReplacementBackoff::default(), &[pod("a", 0, "Succeeded")], 3600), 0);
    for (name, lifetime, expected) in [("b", 15, 5), ("c", 100, 0), ("d", 0, 80), ("e", 600, 0), ("f", 0, 20)] {
        backoff.record_creation_times("u", &creating(0));
        tokio::time::advance(Duration::from_secs(lifetime)).await;
        assert_eq!(wait(&backoff, &[pod(name, 0, "Failed")], 0), expected, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_ended_pod_that_a_user_deleted_is_replaced_at_once_and_counts() {
    let backoff = ReplacementBackoff::default();
    assert_eq!(wait(&backoff, &[pod("a", 0, "Failed")], 0), 10);
    let mut terminating = pod("a", 0, "Failed");
    terminating.metadata.deletion_timestamp = terminating.metadata.creation_timestamp.clone();
    assert_eq!(wait(&backoff, &[terminating], 0), 0);
    assert_eq!((wait(&backoff, &[], 0), backoff.len()), (0, 1));
    backoff.record_creation_times("u", &creating(0));
    assert_eq!(wait(&backoff, &[pod("b", 0, "Failed")], 0), 20, "the deleted pod counts");
    assert_eq!(wait(&backoff, &[pod("c", 0, "Failed")], 0), 40);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_deletes_every_ended_pod_does_not_end_the_backoff() {
    let (observed, unobserved) = (ReplacementBackoff::default(), ReplacementBackoff::default());
    for (nth, expected) in [0, 10, 20, 40, 80, 160, 300, 300].into_iter().enumerate() {
        let ended = [pod(&format!("p{nth}"), 0, "Failed")];
        wait(&observed, &ended, 0);
        assert_eq!(wait_after_deletions(&observed, &[], &ended, 0), expected);
        assert_eq!(wait_after_deletions(&unobserved, &[], &ended, 0), expected, "no reconcile observed the pod");
        tokio::time::advance(Duration::from_secs(expected)).await;
        assert_eq!(wait_after_deletions(&observed, &[], &ended, 0), 0);
        observed.record_creation_times("u", &creating(0));
        unobserved.record_creation_times("u", &creating(0));
        assert_eq!(wait_after_deletions(&observed, &[], &ended, 0), 0, "the deleted pod counts once");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_ran_long_and_was_deleted_after_its_end_has_no_entry() {
    let (backoff, ended) = (ReplacementBackoff::default(), [pod("a", 0, "Failed")]);
    assert_eq!((wait_after_deletions(&backoff, &[], &ended, 600), backoff.len()), (0, 0));
    assert_eq!((wait_after_deletions(&backoff, &[], &ended, 599), backoff.len()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn each_index_has_its_own_backoff_and_the_latest_pod_counts() {
    let backoff = ReplacementBackoff::default();
    let now = Timestamp::UNIX_EPOCH;
    let pods = [pod("a", 0, "Failed"), pod("b", 0, "Failed"), pod("c", 1, "Failed"), pod("d", 5, "Failed")];
    for _ in 0..3 {
        let delays = backoff.observe((&clique(2, "1h"), false), pods.iter(), [].iter(), now);
        assert_eq!(delays, BTreeMap::from([(0, MIN_DELAY), (1, MIN_DELAY)]));
    }
}

#[tokio::test(start_paused = true)]
async fn of_pods_with_equal_creation_times_the_successor_counts() {
    let uids = ["9", "1", "5"];
    let mut pods = Vec::new();
    let mut replaces: Option<&str> = None;
    for uid in uids {
        let mut pod = pod(uid, 0, "Failed");
        pod.metadata.name =
            PodName::candidates(&PodCliqueName::new("c"), "u", 0, replaces).next().map(|name| name.to_string());
        pods.push(pod);
        replaces = Some(uid);
    }
    let backoff = ReplacementBackoff::default();
    assert_eq!(wait_after_deletions(&backoff, &[], &pods[..1], 0), 0);
    backoff.record_creation_times("u", &creating(0));
    assert_eq!(wait_after_deletions(&backoff, &[], &pods[..2], 0), 10);
    assert_eq!(wait_after_deletions(&backoff, &[], &pods[..2], 0), 10, "the pod counts once");
    tokio::time::advance(Duration::from_secs(10)).await;
    backoff.record_creation_times("u", &creating(0));
    assert_eq!(wait_after_deletions(&backoff, &[], &pods[1..], 0), 20);
}

#[tokio::test(start_paused = true)]
async fn live_and_terminating_pods_and_pods_of_another_template_do_not_count() {
    let backoff = ReplacementBackoff::default();
    let mut terminating = pod("b", 0, "Failed");
    terminating.metadata.deletion_timestamp = terminating.metadata.creation_timestamp.clone();
    let mut outdated = pod("c", 0, "Failed");
    outdated.labels_mut().insert(labels::TEMPLATE_HASH.to_owned(), "1old".to_owned());
    assert_eq!(wait(&backoff, &[pod("a", 0, "Running"), terminating, outdated], 0), 0);
    assert_eq!(backoff.len(), 0);
    assert_eq!(wait(&backoff, &[pod("d", 0, "Failed")], 0), 10);
    let other_template = backoff.observe((&clique(2, "1new"), false), [].iter(), [].iter(), Timestamp::UNIX_EPOCH);
    assert_eq!((other_template, backoff.len()), (BTreeMap::new(), 0));
}

#[tokio::test(start_paused = true)]
async fn an_entry_ends_with_its_index_its_clique_or_a_long_running_replacement() {
    let backoff = ReplacementBackoff::default();
    let now = Timestamp::UNIX_EPOCH;
    let ended = [pod("a", 1, "Failed")];
    assert_eq!(backoff.observe((&clique(2, "1h"), false), ended.iter(), [].iter(), now).len(), 1);
    assert_eq!((backoff.observe((&clique(1, "1h"), false), ended.iter(), [].iter(), now).len(), backoff.len()), (0, 0));

    backoff.observe((&clique(2, "1h"), false), ended.iter(), [].iter(), now);
    backoff.record_creation_times("u", &creating(1));
    tokio::time::advance(RESET_AFTER).await;
    backoff.observe((&clique(2, "1h"), false), [].iter(), [].iter(), now);
    assert_eq!(backoff.len(), 0);

    backoff.observe((&clique(2, "1h"), false), ended.iter(), [].iter(), now);
    backoff.forget("u");
    assert_eq!(backoff.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_shares_a_claim_and_was_deleted_at_once_is_replaced_when_its_replacement_is_due() {
    let (backoff, ended) = (ReplacementBackoff::default(), [pod("a", 0, "Failed")]);
    let wait = |pods: &[SlimPod], deleted: &[SlimPod]| {
        let delays = backoff.observe((&clique(2, "1h"), true), pods.iter(), deleted.iter(), Timestamp::UNIX_EPOCH);
        delays.get(&0).copied().unwrap_or_default().as_secs()
    };
    assert_eq!([wait(&ended, &[]), wait(&[], &ended), wait(&[], &[])], [10, 10, 10]);
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(wait(&[], &[]), 0);
}
