//! Every route, asked about objects that nobody would write, and sent bytes that are no question: there is always an answer,
//! and it is one that an API server can use. A short series is part of every run of the tests; `cargo xtask soak fuzz` has
//! long ones.

use std::iter;

use grove_api_types::configuration::{Authorizer, Network, SchedulerProfile, Schedulers};
use grove_api_types::scheduler::Scheduler;
use grove_test_support::dice::Dice;
use grove_test_support::fuzz::{self, Tally, Wish};
use grove_test_support::reviews::{self, BINDING, Kind, MANAGED, SCALES, SET, Subject, TOPOLOGY};
use grove_test_support::rows::{changed, managed, object, rows, scales};
use k8s_openapi::ByteString;
use serde::Deserialize;
use tokio::runtime::{Builder, Runtime};

use super::*;

/// Inputs of the short series, for each route.
const SHORT: u64 = 1500;
/// Who asks.
const USERS: [&str; 4] =
    ["alice", "system:serviceaccount:grove-system:pcs-controller", "system:kube-controller-manager", ""];
/// No answer is longer, whatever was asked.
const LONGEST: usize = 512 * 1024;
/// What an API server hands on of warnings: these whole, or that many letters of each.
const WARNINGS: (usize, usize) = (4096, 256);

thread_local! {
    /// Time stands still while anything is to be done, and leaps to the next time limit when nothing is.
    static RUNTIME: Runtime =
        Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
}

/// The objects of all rows about this kind.
fn of_rows(kind: Kind) -> Subject {
    let of_kind = rows().iter().filter(|row| object(&row.object)["kind"] == kind.kind);
    let mut objects: Vec<_> = of_kind.flat_map(|row| [row.new_object(), row.old_object()]).collect();
    // One row tries the limit of annotations; its quarter of a megabyte would only slow the series down.
    objects.retain(|object| object.to_string().len() < 100_000);
    Subject { kinds: vec![kind], objects }
}

fn subjects(question: Question) -> Vec<Subject> {
    match question {
        Question::DefaultSet | Question::ValidateSet => vec![of_rows(SET)],
        Question::DefaultTopology => vec![of_rows(TOPOLOGY)],
        Question::ValidateTopology => vec![of_rows(TOPOLOGY), of_rows(BINDING)],
        Question::ValidateScale => {
            let names = ["serve", "serve-0-model", "serve-0-front", "serve-0-model-1-worker"];
            let numbers = scales().into_iter().flat_map(|row| [row.from, row.to]).flat_map(|replicas| {
                names.map(|name| {
                    json!({ "apiVersion": "autoscaling/v1", "kind": "Scale", "spec": { "replicas": replicas },
                        "metadata": { "name": name, "namespace": "team" }, "status": { "replicas": 1 } })
                })
            });
            vec![Subject { kinds: SCALES.to_vec(), objects: numbers.collect() }]
        }
        Question::Authorize => {
            let of = |row| -> [Value; 2] {
                let grove_test_support::rows::ManagedRow { change, before, .. } = row;
                [changed(&object("managed"), &change), changed(&object("managed"), &before)]
            };
            let objects = managed().into_iter().flat_map(of).chain(iter::once(object("managed")));
            vec![Subject { kinds: MANAGED.to_vec(), objects: objects.collect() }]
        }
    }
}

/// What the clusters of all servers have.
fn known() -> Vec<Value> {
    let mut packed = object("set");
    packed["metadata"]["name"] = json!("packed");
    packed["spec"]["template"]["topologyConstraint"] = json!({ "topologyName": "halls", "packDomain": "rack" });
    let metadata = |name: &str, set: &str| json!({ "name": name, "namespace": "team", "labels": { "app.kubernetes.io/part-of": set } });
    let clique = |name: &str, set: &str, scheduled: i32| {
        json!({ "kind": "PodClique", "metadata": metadata(name, set), "status": { "scheduledReplicas": scheduled },
            "spec": { "replicas": 2, "minAvailable": 1, "podSpec": { "containers": [] } } })
    };
    let group = json!({ "kind": "PodCliqueScalingGroup", "metadata": metadata("serve-0-model", "serve"),
        "spec": { "replicas": 2, "minAvailable": 1, "cliqueNames": ["leader", "worker"] } });
    let queue = json!({ "kind": "Queue", "metadata": { "name": "default" }, "status": { "state": "Open" } });
    let cliques = [
        clique("serve-0-front", "serve", 0),
        clique("serve-0-model-1-worker", "serve", 0),
        clique("packed-0-front", "packed", 2),
    ];
    let others = [packed, object("set"), object("topology"), object("binding"), group, queue];
    others.into_iter().chain(cliques).collect()
}

/// One as it comes, one with every feature, and one that hands pods to Volcano.
fn servers() -> [Server; 3] {
    let profiles = Scheduler::ALL.map(|(_, name)| SchedulerProfile { name, config: Value::Null });
    let with = |default_profile| Schedulers { profiles: profiles.to_vec(), default_profile };
    let plain = OperatorConfiguration::default();
    let mut full = OperatorConfiguration {
        schedulers: with(Scheduler::Kube),
        network: Network { auto_mnnvl_enabled: true },
        authorizer: Authorizer { enabled: true, exempt_users: vec!["friend".to_owned()] },
        ..plain.clone()
    };
    full.topology.enabled = true;
    let mut volcano = OperatorConfiguration { schedulers: with(Scheduler::Volcano), ..full.clone() };
    volcano.topology.enabled = false;
    [plain, full, volcano].map(|config| serving(cluster(config, &known())))
}

/// What came back, once everything was waited for that the answer waits for.
fn sent(server: &Server, question: Question, content_type: &str, body: Vec<u8>) -> (u16, Bytes) {
    let (status, answer) = RUNTIME.with(|runtime| runtime.block_on(server.send(question, content_type, body.into())));
    (status, answer)
}

fn law(holds: bool, says: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(says()) }
}

/// The laws of one answer. Says whether it was a review.
fn answered(server: &Server, question: Question, seed: u64, bytes: &[u8]) -> Result<bool, String> {
    let is_told = !seed.is_multiple_of(64);
    let content_type = if is_told { JSON } else { "text/plain" };
    let (status, answer) = sent(server, question, content_type, bytes.to_vec());
    law(answer.len() <= LONGEST, || format!("an answer of {} bytes", answer.len()))?;
    let told = || String::from_utf8_lossy(&answer).into_owned();
    match status {
        200 => {
            let asked = understood(bytes)?;
            let answer: Value = serde_json::from_slice(&answer).map_err(|error| format!("{error}: {}", told()))?;
            usable(&asked, &answer).map_err(|law| format!("{law}: {answer}"))?;
            settled(server, question, asked, &answer)?;
            Ok(true)
        }
        400 | 415 => {
            law(!(is_told && reviews::is_review(bytes)), || format!("a review is refused with {status}: {}", told()))?;
            law(!answer.is_empty() && answer.len() < 4096, || format!("{status} with {} bytes", answer.len()))?;
            Ok(false)
        }
        _ => Err(format!("{status}: {}", told())),
    }
}

/// What was asked. Parts that nobody reads may be no JSON, since they are passed over.
fn understood(bytes: &[u8]) -> Result<Value, String> {
    serde_json::from_str(&String::from_utf8_lossy(bytes)).or_else(|_| {
        let Request { uid, object, .. } = Request::read(bytes).map_err(|error| format!("it is answered: {error}"))?;
        let request = json!({ "uid": uid, "operation": "CREATE", "object": object });
        Ok(json!({ "apiVersion": "admission.k8s.io/v1", "request": request }))
    })
}

/// Whether an API server can use the answer.
fn usable(asked: &Value, answer: &Value) -> Result<(), String> {
    let response = &answer["response"];
    let fields = response.as_object().into_iter().flatten().map(|(field, _)| field.as_str());
    let known = ["uid", "allowed", "status", "patch", "patchType", "warnings"];
    law(fields.clone().all(|field| known.contains(&field)), || "an unknown field".to_owned())?;
    let names = [&answer["apiVersion"], &answer["kind"]];
    law(names == ["admission.k8s.io/v1", "AdmissionReview"], || "it is no review".to_owned())?;
    law(response["uid"] == asked["request"]["uid"], || "it answers another question".to_owned())?;
    let (status, patch) = (&response["status"], response.get("patch"));
    let code = status["code"].as_u64().unwrap_or_default();
    let has_message = status["message"].as_str().is_some_and(|message| !message.is_empty());
    match response["allowed"].as_bool() {
        Some(true) => law(status.is_null(), || "it is allowed, and says why not".to_owned())?,
        Some(false) => law([400, 403].contains(&code) && has_message && patch.is_none(), || "no reason".to_owned())?,
        None => return Err("neither yes nor no".to_owned()),
    }
    let lengths = response["warnings"].as_array().into_iter().flatten();
    let lengths: Vec<_> = lengths.map(|warning| warning.as_str().map_or(usize::MAX, |it| it.chars().count())).collect();
    let (together, each) = WARNINGS;
    let is_heard = lengths.iter().all(|length| *length <= each) && lengths.len() <= together / each;
    law(is_heard || lengths.iter().sum::<usize>() <= together, || "warnings that nobody hands on".to_owned())
}

/// What was filled in fits the object, and is not filled in again.
fn settled(server: &Server, question: Question, mut asked: Value, answer: &Value) -> Result<(), String> {
    let Some(patch) = answer["response"].get("patch") else { return Ok(()) };
    law(answer["response"]["patchType"] == "JSONPatch", || "a patch of no type".to_owned())?;
    let patch = ByteString::deserialize(patch).map_err(|error| error.to_string())?;
    let patch: json_patch::Patch = serde_json::from_slice(&patch.0).map_err(|error| error.to_string())?;
    json_patch::patch(&mut asked["request"]["object"], &patch).map_err(|error| format!("no patch of it: {error}"))?;
    let (_, again) = sent(server, question, JSON, asked.to_string().into_bytes());
    let again: Value = serde_json::from_slice(&again).map_err(|error| error.to_string())?;
    law(again["response"].get("patch").is_none(), || format!("it is filled in twice, by {patch} and by {again}"))
}

fn series(question: Question, wish: Wish, told: impl FnMut(&Tally)) -> Tally {
    let (servers, subjects) = (servers(), subjects(question));
    let input = |seed: u64| reviews::input(&subjects, &USERS, seed);
    let laws = |seed: u64, bytes: &[u8]| {
        let server = Dice::new(!seed).one_of(&servers).ok_or("no server")?;
        answered(server, question, seed, bytes)
    };
    let tally = fuzz::run(wish, input, laws, told);
    let tally = tally.unwrap_or_else(|broken| panic!("{}", broken.report(question.name())));
    for server in servers {
        assert!(server.counts("reviews_in_flight 0"));
        assert!(!server.counts("outcome=\"panicked\"") && !server.counts("outcome=\"abandoned\""));
    }
    tally
}

#[test]
fn every_route_answers_whatever_it_is_asked() {
    for question in Question::ALL {
        let tally = series(question, Wish { inputs: SHORT, seed: 1 }, |_| ());
        assert!(tally.understood > SHORT * 3 / 4, "{question:?}: too little of it is understood: {tally:?}");
    }
}

#[test]
#[ignore = "a long series: `cargo xtask soak fuzz`"]
fn many_inputs_are_answered() {
    for question in Question::ALL.into_iter().filter(|question| fuzz::is_wanted(question.name())) {
        let wish = Wish::of_environment(1_000_000);
        assert_eq!(series(question, wish, fuzz::telling(question.name(), wish)).inputs, wish.inputs);
    }
}
