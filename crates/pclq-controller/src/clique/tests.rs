//! Tables of short YAML rows: each row describes a clique, its pods and its gang, and the expected plan is text.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use expect_test::Expect;
use grove_api_types::configuration::StartupToken;
use grove_api_types::names::PodGangName;
use grove_api_types::scheduler::Scheduler;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodClique, PodCliqueStatus};
use grove_controller::create_backoff::{BackedOffCreates, CreateBackoff};
use grove_controller::create_state::CreateState;
use grove_controller::executor::{ExecutionResult, StepResult};
use grove_controller::expectations::PendingCreates;
use grove_controller::plan::{Plan, Step, Target};
use grove_controller::slim_pod::SlimPod;
use grove_runtime::api_error::ApiError;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::observed::Observed;
use crate::gangs::{GatingGang, GatingGangState, ObservedGang};
use crate::observed::ObservedClique;
use crate::startup::{InitContainer, ObservedParent, ObservedStartup};
use crate::write_history::{CliqueWrites, WriteHistory};

mod adoption;
mod affinity;
mod claim_deletions;
mod claim_interleavings;
mod claim_observation;
mod claim_rows;
mod claim_status;
mod claims;
mod decorators;
mod gated_cliques;
mod gates;
mod interleavings;
mod memory;
mod names;
mod pod;
mod pod_claims;
mod references;
mod rejected_indices;
mod rejections;
mod replacement;
mod scale;
mod startup;
mod status;
mod update;

const NAME: &str = "llm-0-decode";

/// The in-memory state about the writes of the process, used as `observe` and `reconcile` use it.
struct ProcessMemory {
    creates: CreateState<PodClique>,
    write_history: WriteHistory,
}

impl Default for ProcessMemory {
    fn default() -> Self {
        let creates = CreateState::new(CreateBackoff::of_alike_children());
        Self { creates, write_history: WriteHistory::default() }
    }
}

impl ProcessMemory {
    fn observe(&self, observed: &mut Observed, relists: u64) {
        let is_cached = |uid: &str| observed.known_pods().any(|pod| pod.metadata.uid.as_deref() == Some(uid));
        observed.pending_creates =
            self.creates.expectations.pending(&observed.clique, |_, uid| is_cached(uid), |_| relists);
        observed.own_writes =
            self.write_history.of_clique(observed.uid(), observed.known_pods(), &observed.pending_creates);
    }

    fn record(&self, clique: &PodClique, relists: u64, plan: &Plan, result: &ExecutionResult) {
        let uid = clique.uid().expect("a uid");
        self.creates.expectations.expect_creations(clique, plan, |_| relists);
        self.write_history.record_created_names(&uid, plan);
        self.creates.expectations.record_results(clique, result);
        self.write_history.record_conflicts(&uid, result);
    }
}

/// The default of `now` in a row.
const NOW: &str = "2026-01-02T00:00:00Z";

/// The plan, which does not depend on the time. The API server accepts all creates of claims.
fn plan(observed: &Observed) -> Plan {
    let claims = crate::claims::plan(observed, &observed.claims);
    let created = claims.steps().filter(|step| step.verb() == "create");
    let created = created.map(|step| StepResult::new("s", "create", step.target().clone(), Ok(())));
    let mut observed = observed.clone();
    observed.claims.record_created(&ExecutionResult { steps: created.collect() });
    super::plan::merged(claims, super::plan::pods(&observed))
}

/// The status after the plan was executed with `result`.
fn status(observed: &Observed, result: &ExecutionResult, now: Timestamp) -> PodCliqueStatus {
    super::status::status(observed, &plan(observed), result, now)
}

/// The snapshot that a row describes. Keys: `replicas`, `minAvailable`, `podSpec`, `labels`, `annotations`, `terminating` and
/// `status` of the clique; `pods`, `orphans` and `tombstones`, each `{i, name, at, phase, terminating, ready, labels, group, affinity, unschedulable, …}`;
/// `gang`, the pod references in its pod group, absent if there is no gang; `base`, the base gang, or `own`, the own gang, that gates pods, and `scaledCliques`, whether the gang gates cliques; `conflicting`, names
/// of pods of others; `backedOff`, names of pods with rejected creates, and `retry`, whether their backoff has ended; `delayed`, the
/// indices at which the replacement waits for 20 s; `now`; `namespaceTerminating`; `claims`: see `claim_rows.rs`; `startup`: see [`startup`].
fn snapshot(row: &str) -> Observed {
    let row: Value = if row.is_empty() { json!({}) } else { serde_saphyr::from_str(row).expect("YAML") };
    let list = |key: &str| row[key].as_array().cloned().unwrap_or_default();
    let conflicting_names: BTreeSet<_> =
        list("conflicting").iter().filter_map(|name| name.as_str().map(String::from)).collect();
    let mut pods: Vec<_> = list("pods").iter().map(pod).collect();
    pods.sort_by_key(|pod| pod.name_any());
    let mut orphans: Vec<_> = list("orphans").iter().map(pod).collect();
    orphans.sort_by_key(|pod| pod.name_any());
    let state = ObservedClique {
        clique: clique(&row),
        orphans_pods: row["orphansPods"] == json!(true),
        pods,
        orphans,
        unreadable_pods: Vec::new(),
        tombstones: list("tombstones").iter().map(pod).collect(),
        relists: 0,
        pending_creates: PendingCreates::default(),
        own_writes: CliqueWrites { conflicting_names, ..CliqueWrites::default() },
        now: row["now"].as_str().unwrap_or(NOW).parse().expect("a time"),
        is_namespace_terminating: row["namespaceTerminating"] == json!(true),
    };
    Observed {
        state,
        gang: ObservedGang {
            object: row.get("gang").map(gang),
            max_references: None,
            gating: row.get("base").map(|base| gating_gang(base, "llm-0", 0)).or_else(|| row.get("own").map(own_gang)),
            gates_cliques: row["scaledCliques"] == json!(true),
        },
        backed_off: backed_off(&list("backedOff"), row["retry"] == json!(true)),
        delayed_replacements: list("delayed").iter().map(delayed_replacement).collect(),
        default_scheduler: Scheduler::default(),
        claims: claim_rows::observed(&row["claims"]),
        missing_domain_template: row["missingDomain"].as_str().map(String::from),
        startup: startup(&row["startup"]),
    }
}

/// `{image, projected, parents: [{name, required, ready}]}`; a parent without `required` does not exist.
fn startup(row: &Value) -> ObservedStartup {
    let count = |count: &Value| count.as_i64().and_then(|count| i32::try_from(count).ok());
    let parent = |row: &Value| ObservedParent {
        name: row["name"].as_str().expect("a name").to_owned(),
        pods: count(&row["required"]).zip(count(&row["ready"]).or(Some(0))),
    };
    let token = if row["projected"] == json!(true) { StartupToken::Projected } else { StartupToken::Secret };
    ObservedStartup {
        parents: row["parents"].as_array().into_iter().flatten().map(parent).collect(),
        init_container: InitContainer { image: row["image"].as_str().map(str::to_owned), token },
    }
}

/// The rejected creates of these pods; their retry is due in 8 s or now.
fn backed_off(names: &[Value], is_retry: bool) -> BackedOffCreates {
    let rejected = |name: &Value| {
        let target = Target::of(&*pod(&json!({ "name": name })));
        let message = format!("pods \"{}\" is forbidden: exceeded quota: small", target.name);
        (target, ApiError::new(403, "Forbidden", message))
    };
    let retry_after = (!names.is_empty()).then_some(Duration::from_secs(8));
    let children = names.iter().map(rejected).collect();
    let retried_kinds = is_retry.then(|| "Pod".to_owned()).into_iter().collect();
    BackedOffCreates { children, retry_after, retried_kinds, ..BackedOffCreates::default() }
}

fn delayed_replacement(index: &Value) -> (i32, Duration) {
    (index.as_i64().and_then(|index| i32::try_from(index).ok()).expect("an index"), Duration::from_secs(20))
}

fn clique(row: &Value) -> PodClique {
    let mut object = json!({
        "apiVersion": "grove.io/v1alpha1", "kind": "PodClique",
        "metadata": {
            "name": NAME, "namespace": "prod", "uid": "clique-uid", "generation": 4,
            "labels": {
                "app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "llm",
                "app.kubernetes.io/name": NAME, "app.kubernetes.io/component": "pcs-podclique",
                "grove.io/podcliqueset-replica-index": "0", "grove.io/podgang": "llm-0",
                "grove.io/pod-template-hash": "1new",
            },
            "annotations": row["annotations"], "finalizers": row["finalizers"],
        },
        "spec": {
            "roleName": "decode", "replicas": row["replicas"].as_i64().unwrap_or(1),
            "minAvailable": row["minAvailable"].as_i64().unwrap_or(1),
            "podSpec": row.get("podSpec").cloned().unwrap_or(json!({ "containers": [{ "name": "main" }] })),
        },
        "status": row["status"],
    });
    json_patch::merge(&mut object["metadata"]["labels"], row.get("labels").unwrap_or(&json!({})));
    if row["terminating"] == json!(true) {
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T01:00:00Z");
    }
    serde_json::from_value(object).expect("a clique")
}

/// One pod; its name is `<clique>-<name>` and its uid `uid-<name>`.
fn pod(row: &Value) -> Arc<SlimPod> {
    let name = row["name"].as_str().expect("a name");
    let is = |key: &str| row[key] == json!(true);
    let at = row["at"].as_i64().unwrap_or(0);
    let mut object = json!({
        "metadata": {
            "name": format!("{NAME}-{name}"), "namespace": "prod", "uid": format!("uid-{name}"),
            "resourceVersion": row["version"],
            "creationTimestamp": format!("2026-01-01T00:00:{at:02}Z"),
            "labels": {
                "app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "llm",
                "app.kubernetes.io/name": NAME, "app.kubernetes.io/component": "pcs-podclique",
                "grove.io/podcliqueset-replica-index": "0", "grove.io/podgang": "llm-0", "grove.io/podclique": NAME,
                "grove.io/pod-template-hash": row["hash"].as_str().unwrap_or("1new"),
            },
        },
        "spec": { "nodeName": if is("ready") || is("bound") { json!("node") } else { Value::Null } },
        "status": {
            "phase": row["phase"].as_str().unwrap_or("Running"),
            "conditions": [{
                "type": "Ready", "status": if is("ready") { "True" } else { "False" }, "lastTransitionTime": row["readyAt"],
            }],
        },
    });
    if let Some(message) = row["unschedulable"].as_str() {
        let condition =
            json!({ "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message });
        object["status"]["conditions"].as_array_mut().expect("a list").push(condition);
    }
    if let Some(index) = row["i"].as_i64() {
        object["metadata"]["labels"]["grove.io/podclique-pod-index"] = json!(index.to_string());
    }
    json_patch::merge(&mut object["metadata"]["labels"], row.get("labels").unwrap_or(&json!({})));
    if is("initialized") {
        let condition = json!({ "type": "Initialized", "status": "True" });
        object["status"]["conditions"].as_array_mut().expect("a list").push(condition);
    }
    if let Some(argument) = row["initc"].as_str() {
        object["spec"]["initContainers"] = json!([{ "name": "grove-initc", "args": [argument] }]);
    }
    if let Some(host) = row["host"].as_str() {
        object["spec"]["hostname"] = json!(host);
    }
    if is("terminating") {
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:01:00Z");
    }
    if let Some(group) = row["group"].as_str() {
        object["spec"]["schedulingGroup"] = json!({ "podGroupName": group });
        let number = group.strip_prefix("llm-0-").expect("a PodGroup of the gang");
        let incarnation = number.split('.').next();
        object["metadata"]["labels"]["grove.io/podgang-incarnation"] = json!(incarnation);
    }
    if let Some(affinity) = row["affinity"].as_str() {
        object["metadata"]["annotations"] = json!({ "grove.io/pack-affinity": affinity });
    }
    if is("gated") {
        object["spec"]["schedulingGates"] = json!([{ "name": "other.io/gate" }]);
    }
    if is("gatedByGrove") {
        let gates = json!([{ "name": "other.io/gate" }, { "name": "grove.io/podgang-pending-creation" }]);
        object["spec"]["schedulingGates"] = gates;
    }
    if row.get("container").is_some() {
        object["status"]["containerStatuses"] = json!([row["container"]]);
    }
    Arc::new(serde_json::from_value(object).expect("a pod"))
}

/// The own gang `llm-0` of a clique with a `PodGroup`: `{from, scheduled}`, the index of the first gated pod and the pods scheduled by clique.
fn own_gang(row: &Value) -> GatingGang {
    let first = row["from"].as_i64().and_then(|index| i32::try_from(index).ok()).expect("an index");
    gating_gang(&row["scheduled"], "llm-0", first)
}

/// A gang: pods scheduled by clique, each clique requires 2; null if the gang does not exist.
fn gating_gang(row: &Value, name: &str, first_index: i32) -> GatingGang {
    let is_scheduled = |scheduled: &Value| scheduled.as_i64().expect("a count") >= 2;
    let state = match row.as_object() {
        None => GatingGangState::NotFound,
        Some(groups) if groups.values().all(is_scheduled) => GatingGangState::Scheduled,
        Some(_) => GatingGangState::NotScheduled,
    };
    GatingGang { name: PodGangName::new(name), state, first_index }
}

fn gang(listed: &Value) -> Arc<PodGang> {
    let listed = listed.as_array().cloned().unwrap_or_default();
    let reference = |name: &Value| json!({ "namespace": "prod", "name": format!("{NAME}-{}", name.as_str().unwrap()) });
    let references: Vec<_> = listed.iter().map(reference).collect();
    let group = |name: &str, references: Value| json!({ "name": name, "minReplicas": 1, "podReferences": references });
    Arc::new(
        serde_json::from_value(json!({
            "apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang",
            "metadata": { "name": "llm-0", "namespace": "prod", "uid": "gang-uid", "resourceVersion": "7" },
            "spec": { "podgroups": [group("llm-0-prefill", json!([])), group(NAME, references.into())] },
        }))
        .expect("a gang"),
    )
}

#[track_caller]
fn check(row: &str, expected: &Expect) {
    let observed = snapshot(row);
    let plan = plan(&observed);
    check_invariants(&observed, &plan);
    expected.assert_eq(&plan.to_string().replace(NAME, "~"));
}

/// Checks the invariants of every plan: it is a function of the snapshot, changes no object twice, deletes only observed objects,
/// and creates pods with owner, manager and index, never under the name of a live pod.
#[track_caller]
fn check_invariants(observed: &Observed, plan: &Plan) {
    assert_eq!(*plan, self::plan(observed), "the plan is no function of the snapshot");
    let mut targets = BTreeSet::new();
    let mut indices = BTreeSet::new();
    for step in plan.steps() {
        let target = step.target();
        assert!(
            targets.insert((target.resource.kind.clone(), target.name.clone())),
            "{step} changes the object a second time"
        );
        match step {
            Step::Create(create) => {
                let metadata = &create.object.value()["metadata"];
                assert_eq!(metadata["ownerReferences"][0]["uid"], "clique-uid");
                assert_eq!(metadata["ownerReferences"][0]["controller"], true);
                assert_eq!(metadata["ownerReferences"][0]["blockOwnerDeletion"], true);
                assert_eq!(metadata["labels"]["app.kubernetes.io/managed-by"], "grove-operator");
                let index = metadata["labels"]["grove.io/podclique-pod-index"].to_string();
                assert!(target.resource.kind != "Pod" || indices.insert(index));
                assert!(observed.live().all(|pod| pod.name_any() != target.name), "{step} has the name of a live pod");
            }
            Step::Delete(_) => assert!(target.uid.is_some(), "{step} without a uid"),
            Step::Adopt(adopt) => assert_eq!(adopt.owner.uid.as_deref(), Some("clique-uid")),
            Step::Patch(_) => {}
        }
    }
}

/// The result of the create of a pod that the API server forbids with this message.
fn rejected_create(name: &str, message: &str) -> StepResult {
    let target = Target { name: name.to_owned(), ..Target::of(&*snapshot("{pods: [{i: 0, name: a}]}").pods[0]) };
    StepResult::new("pods", "create", target, Err(ApiError::new(403, "Forbidden", message)))
}
