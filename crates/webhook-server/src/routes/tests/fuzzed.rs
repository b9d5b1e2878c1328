//! Fuzzes every endpoint with mutated objects and with bytes that are not a review. Each input gets a response that an
//! API server can use. A short series runs with every test; `cargo xtask soak fuzz` runs long ones.

use std::iter;

use grove_api_types::configuration::{Authorizer, Network, SchedulerProfile, Schedulers};
use grove_api_types::scheduler::Scheduler;
use grove_test_support::edits::pick;
use grove_test_support::fuzz::{self, FuzzConfig, FuzzStats, JsonBytes};
use grove_test_support::reviews::{self, BINDING, Kind, MANAGED, SCALES, SET, Subject, TOPOLOGY};
use grove_test_support::rows::{changed, managed, object, rows, scales};
use k8s_openapi::ByteString;
use proptest::bool::weighted;
use proptest::prelude::{Strategy, any};
use proptest::sample::Index;
use serde::Deserialize;
use tokio::runtime::{Builder, Runtime};

use super::*;

/// Inputs of the short series, per webhook.
const SHORT_SERIES: u64 = 1500;
/// Names of the requesting users.
const USERS: [&str; 4] =
    ["alice", "system:serviceaccount:grove-system:pcs-controller", "system:kube-controller-manager", ""];
/// Largest response in bytes.
const MAX_RESPONSE_BYTES: usize = 512 * 1024;
/// Limits of the API server for warnings: it passes on all of them up to this many characters in total, and above that
/// this many characters of each.
const WARNING_LIMITS: (usize, usize) = (4096, 256);

const NOT_REVIEWED: &str = "did not review the access to ResourceClaimTemplates";

thread_local! {
    /// The clock is paused. It advances to the next timeout when no task can make progress.
    static RUNTIME: Runtime =
        Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
}

/// The objects of this kind in all rows of the admission tables.
fn objects_in_rows(kind: Kind) -> Subject {
    let of_kind = rows().iter().filter(|row| object(&row.object)["kind"] == kind.kind);
    let mut objects: Vec<_> = of_kind.flat_map(|row| [row.new_object(), row.old_object()]).collect();
    // One row tests the size limit of annotations. Its 256 kB would slow down the series.
    objects.retain(|object| object.to_string().len() < 100_000);
    Subject { kinds: vec![kind], objects }
}

fn subjects(webhook: Webhook) -> Vec<Subject> {
    match webhook {
        Webhook::DefaultSet | Webhook::ValidateSet => vec![objects_in_rows(SET)],
        Webhook::DefaultTopology => vec![objects_in_rows(TOPOLOGY)],
        Webhook::ValidateTopology => vec![objects_in_rows(TOPOLOGY), objects_in_rows(BINDING)],
        Webhook::ValidateTemplates => {
            let claims = r#"{"claims":[{"template":"gpus","namespace":"shared","scope":"PerReplica"}]}"#;
            let clique = json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "spec": { "replicas": 1, "podSpec": {} },
                "metadata": { "name": "c", "namespace": "team", "annotations": { "grove.io/resource-claims": claims } } });
            vec![objects_in_rows(SET), Subject { kinds: vec![MANAGED[0]], objects: vec![clique] }]
        }
        Webhook::ValidateScale => {
            let names = ["serve", "serve-0-model", "serve-0-front", "serve-0-model-1-worker"];
            let numbers = scales().into_iter().flat_map(|row| [row.from, row.to]).flat_map(|replicas| {
                names.map(|name| {
                    json!({ "apiVersion": "autoscaling/v1", "kind": "Scale", "spec": { "replicas": replicas },
                        "metadata": { "name": name, "namespace": "team" }, "status": { "replicas": 1 } })
                })
            });
            vec![Subject { kinds: SCALES.to_vec(), objects: numbers.collect() }]
        }
        Webhook::Authorize => {
            let of = |row| -> [Value; 2] {
                let grove_test_support::rows::ManagedRow { changes, old_changes, .. } = row;
                [changed(&object("managed"), &changes), changed(&object("managed"), &old_changes)]
            };
            let objects = managed().into_iter().flat_map(of).chain(iter::once(object("managed")));
            vec![Subject { kinds: MANAGED.to_vec(), objects: objects.collect() }]
        }
    }
}

/// The objects in the caches of all servers.
fn cached_objects() -> Vec<Value> {
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

/// A server with the default configuration, one with all features, and one with Volcano as the default scheduler.
fn servers() -> [Server; 3] {
    let profiles = Scheduler::ALL.map(|(_, name)| SchedulerProfile { name, config: Value::Null });
    let with = |default_profile| Schedulers { profiles: profiles.to_vec(), default_profile };
    let defaults = OperatorConfiguration::default();
    let mut all_features = OperatorConfiguration {
        schedulers: with(Scheduler::Kube),
        network: Network { auto_mnnvl_enabled: true, ..Network::default() },
        authorizer: Authorizer { enabled: true, exempt_users: vec!["friend".to_owned()] },
        ..defaults.clone()
    };
    all_features.topology.enabled = true;
    let mut volcano = OperatorConfiguration { schedulers: with(Scheduler::Volcano), ..all_features.clone() };
    volcano.topology.enabled = false;
    [defaults, all_features, volcano].map(|config| server_with(cluster(config, &cached_objects())))
}

fn send(server: &Server, webhook: Webhook, content_type: &str, body: Vec<u8>) -> (u16, Bytes) {
    RUNTIME.with(|runtime| runtime.block_on(server.send(webhook, content_type, body.into())))
}

fn check(holds: bool, violation: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(violation()) }
}

/// Checks the response to one input. Returns whether the input is a review.
fn check_response(server: &Server, webhook: Webhook, is_json: bool, bytes: &[u8]) -> Result<bool, String> {
    let content_type = if is_json { JSON } else { "text/plain" };
    let (status, body) = send(server, webhook, content_type, bytes.to_vec());
    check(body.len() <= MAX_RESPONSE_BYTES, || format!("the response has {} bytes", body.len()))?;
    let text = || String::from_utf8_lossy(&body).into_owned();
    match status {
        200 => {
            let request = parse_leniently(bytes)?;
            let review: Value = serde_json::from_slice(&body).map_err(|error| format!("{error}: {}", text()))?;
            check_review(&request, &review).map_err(|violation| format!("{violation}: {review}"))?;
            check_patch(server, webhook, request, &review)?;
            Ok(true)
        }
        400 | 415 => {
            check(!(is_json && reviews::is_review(bytes)), || {
                format!("a review is rejected with {status}: {}", text())
            })?;
            check(!body.is_empty() && body.len() < 4096, || format!("{status} with {} bytes", body.len()))?;
            Ok(false)
        }
        // No task sends the requests of the client of these servers.
        503 if text().contains(NOT_REVIEWED) => Ok(true),
        _ => Err(format!("{status}: {}", text())),
    }
}

/// The review of the input. The server skips fields that it does not read; if one of those is not valid JSON, the
/// review contains only the fields that the checks need.
fn parse_leniently(bytes: &[u8]) -> Result<Value, String> {
    serde_json::from_str(&String::from_utf8_lossy(bytes)).or_else(|_| {
        let AdmissionRequest { uid, object, .. } =
            AdmissionRequest::parse(bytes).map_err(|error| format!("an invalid review gets status 200: {error}"))?;
        let request = json!({ "uid": uid, "operation": "CREATE", "object": object });
        Ok(json!({ "apiVersion": "admission.k8s.io/v1", "request": request }))
    })
}

/// Checks that an API server can use the response.
fn check_review(request: &Value, review: &Value) -> Result<(), String> {
    let response = &review["response"];
    let fields = response.as_object().into_iter().flatten().map(|(field, _)| field.as_str());
    let known = ["uid", "allowed", "status", "patch", "patchType", "warnings"];
    check(fields.clone().all(|field| known.contains(&field)), || "unknown field".to_owned())?;
    let types = [&review["apiVersion"], &review["kind"]];
    check(types == ["admission.k8s.io/v1", "AdmissionReview"], || "not a review".to_owned())?;
    check(response["uid"] == request["request"]["uid"], || "uid of another request".to_owned())?;
    let (status, patch) = (&response["status"], response.get("patch"));
    let code = status["code"].as_u64().unwrap_or_default();
    let has_message = status["message"].as_str().is_some_and(|message| !message.is_empty());
    let is_denial = [400, 403].contains(&code) && has_message && patch.is_none();
    match response["allowed"].as_bool() {
        Some(true) => check(status.is_null(), || "allowed with a status".to_owned())?,
        Some(false) => check(is_denial, || "denied without a reason".to_owned())?,
        None => return Err("no decision".to_owned()),
    }
    let lengths = response["warnings"].as_array().into_iter().flatten();
    let lengths: Vec<_> = lengths.map(|warning| warning.as_str().map_or(usize::MAX, |it| it.chars().count())).collect();
    let (total, each) = WARNING_LIMITS;
    let is_passed_on = lengths.iter().all(|length| *length <= each) && lengths.len() <= total / each;
    let is_short = is_passed_on || lengths.iter().sum::<usize>() <= total;
    check(is_short, || "the API server drops warnings".to_owned())
}

/// Checks that the patch applies to the object, and that the patched object gets no further patch.
fn check_patch(server: &Server, webhook: Webhook, mut request: Value, review: &Value) -> Result<(), String> {
    let Some(patch) = review["response"].get("patch") else { return Ok(()) };
    check(review["response"]["patchType"] == "JSONPatch", || "a patch without a type".to_owned())?;
    let patch = ByteString::deserialize(patch).map_err(|error| error.to_string())?;
    let patch: json_patch::Patch = serde_json::from_slice(&patch.0).map_err(|error| error.to_string())?;
    json_patch::patch(&mut request["request"]["object"], &patch)
        .map_err(|error| format!("the patch does not apply: {error}"))?;
    let (_, second) = send(server, webhook, JSON, request.to_string().into_bytes());
    let second: Value = serde_json::from_slice(&second).map_err(|error| error.to_string())?;
    check(second["response"].get("patch").is_none(), || format!("two patches: {patch} and {second}"))
}

/// An input, the index of its server, and whether its content type is JSON.
fn inputs(subjects: &[Subject]) -> impl Strategy<Value = (JsonBytes, Index, bool)> + use<> {
    (reviews::inputs(subjects, &USERS), any::<Index>(), weighted(63.0 / 64.0))
}

fn series(webhook: Webhook, config: FuzzConfig, on_progress: impl FnMut(&FuzzStats)) -> FuzzStats {
    let subjects = subjects(webhook);
    let servers = RUNTIME.with(|runtime| {
        // The client of the servers starts a task.
        let _entered = runtime.enter();
        servers()
    });
    let checks = |_, (bytes, server, is_json): &(JsonBytes, Index, bool)| {
        check_response(pick(server, &servers).ok_or("no server")?, webhook, *is_json, &bytes.0)
    };
    let stats = fuzz::run(config, || inputs(&subjects), checks, on_progress);
    let stats = stats.unwrap_or_else(|failure| panic!("{}", failure.report(webhook.name())));
    for server in servers {
        assert!(server.is_idle());
        assert!(!server.has_metric("code=\"500\"") && !server.has_metric("code=\"499\""));
    }
    stats
}

#[test]
fn every_endpoint_gives_a_valid_response_to_fuzzed_input() {
    for webhook in Webhook::ALL {
        let stats = series(webhook, FuzzConfig { inputs: SHORT_SERIES, seed: 1 }, |_| ());
        assert!(stats.valid > SHORT_SERIES * 3 / 4, "{webhook:?}: too few inputs are reviews: {stats:?}");
    }
}

#[test]
#[ignore = "a long series: `cargo xtask soak fuzz`"]
fn many_inputs_get_a_valid_response_from_every_endpoint() {
    for webhook in Webhook::ALL.into_iter().filter(|webhook| fuzz::is_selected(webhook.name())) {
        let config = FuzzConfig::from_env(1_000_000);
        assert_eq!(series(webhook, config, fuzz::progress_printer(webhook.name(), config)).inputs, config.inputs);
    }
}
