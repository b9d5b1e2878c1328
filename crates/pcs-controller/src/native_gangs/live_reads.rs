//! The live LISTs that decisions about incarnations need: pcs-controller has no cache of pods, and its cache of cliques may be older than
//! the one of the process that led before. A dry run shows whether the API server stores the topology keys of `PodGroup`s.

use std::collections::{BTreeMap, BTreeSet};

use grove_api_types::labels;
use grove_api_types::names::PodCliqueSetName;
use grove_api_types::pod_group::PodGroupRef;
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use grove_controller::reconcile_error::ReconcileError;
use grove_controller::slim_pod::SlimSchedulingGroup;
use grove_runtime::api_error::ApiError;
use grove_runtime::client::{self, REQUEST_TIMEOUT};
use grove_runtime::live_list;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, PostParams};
use kube::core::Request as Requests;
use kube::{Client, Resource, ResourceExt};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::gang_pods::{BoundPod, BoundPods};
use super::{GangDecisions, SlimPodGroup};

/// Only the fields that are read, because any client may write values into the others that cannot be decoded.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    labels: Option<BTreeMap<String, String>>,
    deletion_timestamp: Option<IgnoredAny>,
}

/// A bound pod, with only the fields that are read.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListedPod {
    metadata: Metadata,
    spec: ListedPodSpec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListedPodSpec {
    scheduling_group: Option<SlimSchedulingGroup>,
}

/// Selects pods that are bound and not finished.
const BOUND: &str = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed";

/// Closes the decisions that depend on the cliques or on the bound pods of a gang, with at most one LIST each, in pages. If a LIST fails,
/// its decisions stay open. The keys of the next `PodGroup`s are dropped if the API server does not store them.
///
/// # Errors
/// If no response of the API server shows whether it stores the keys.
pub(crate) async fn close_decisions(
    client: &Client,
    set: &PodCliqueSet,
    gang_decisions: &mut GangDecisions,
    now: Timestamp,
) -> Result<(), ReconcileError> {
    if gang_decisions.needs_cliques() {
        let gangs = gangs_with_cliques(client, set).await.unwrap_or_else(log);
        if let Some(gangs) = gangs {
            gang_decisions.close_with_cliques(&gangs);
        }
    }
    let open: Vec<&str> = gang_decisions.need_bound_pods().collect();
    if !open.is_empty()
        && let Some(bound) = bound_pods(client, set, &open).await.unwrap_or_else(log)
    {
        gang_decisions.close_with_bound_pods(&bound, now);
    }
    let Some(next) = gang_decisions.key_to_confirm() else { return Ok(()) };
    let stores_key = stores_key(client, set, next).await;
    if !stores_key.map_err(|error| ReconcileError::read(&next.name, &error))? {
        gang_decisions.drop_keys();
    }
    Ok(())
}

/// Whether the API server would store the key of a `PodGroup`: without a feature gate, it drops or rejects the key. Without permission
/// for the dry run, the answer is no, because a gang must not rely on a key that the API server may drop.
async fn stores_key(client: &Client, set: &PodCliqueSet, group: &PodGroupRef) -> Result<bool, kube::Error> {
    let key = group.spec.packing.as_ref().and_then(|packing| packing.key.as_deref());
    let object = json!({
        "apiVersion": SlimPodGroup::api_version(&()), "kind": SlimPodGroup::kind(&()), "metadata": { "name": group.name },
        "spec": {
            "schedulingPolicy": { "gang": { "minCount": 1 } },
            "schedulingConstraints": { "topology": [{ "key": key }] },
        },
    });
    match client::with_timeout(REQUEST_TIMEOUT, dry_run(client, set, &object)).await {
        Ok(stored) => Ok(stored["spec"]["schedulingConstraints"]["topology"][0]["key"].as_str() == key),
        Err(kube::Error::Api(status)) if status.code < 500 && status.code != 429 && status.code != 409 => {
            tracing::warn!(message = status.message, "the API server rejects the topology key of a PodGroup");
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// The object as the API server would store it.
#[expect(clippy::disallowed_methods, reason = "a dry run stores nothing")]
async fn dry_run(client: &Client, set: &PodCliqueSet, object: &Value) -> Result<Value, kube::Error> {
    let params = PostParams { dry_run: true, field_manager: None };
    let path = SlimPodGroup::url_path(&(), set.metadata.namespace.as_deref());
    let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
    let mut request = Requests::new(path).create(&params, body).map_err(kube::Error::BuildRequest)?;
    request.extensions_mut().insert("dry_run");
    client.request(request).await
}

#[expect(clippy::needless_pass_by_value, reason = "the signature of a closure for unwrap_or_else")]
fn log<T>(error: ApiError) -> Option<T> {
    tracing::warn!(%error, "cannot list the cliques or the bound pods of the set");
    None
}

/// The gangs of the cliques of the set that are not terminating.
async fn gangs_with_cliques(client: &Client, set: &PodCliqueSet) -> Result<Option<BTreeSet<String>>, ApiError> {
    let params = ListParams::default().labels(&selector(set, &[]));
    let mut gangs = BTreeSet::new();
    let insert = live_list::visit_all(|metadata: Metadata| {
        let labels = metadata.labels.filter(|_| metadata.deletion_timestamp.is_none());
        gangs.extend(labels.and_then(|mut labels| labels.remove(labels::POD_GANG)));
    });
    let namespace = set.metadata.namespace.as_deref();
    let listed = live_list::find_metadata::<PodClique, _, _>(client, namespace, params, insert).await;
    listed.map_err(|error| ApiError::from(&error))?;
    Ok(Some(gangs))
}

/// The bound pods of these gangs, and possibly of further ones, that are neither terminating nor finished.
async fn bound_pods(
    client: &Client,
    set: &PodCliqueSet,
    gangs: &[&str],
) -> Result<Option<BTreeMap<String, BoundPods>>, ApiError> {
    let params = ListParams::default().labels(&selector(set, gangs)).fields(BOUND);
    let mut bound = BTreeMap::<String, BoundPods>::new();
    let insert = live_list::visit_all(|ListedPod { metadata, spec }: ListedPod| {
        let mut labels = metadata.labels.unwrap_or_default();
        let gang = labels.remove(labels::POD_GANG).filter(|_| metadata.deletion_timestamp.is_none());
        let (clique, group) = (labels.remove(labels::POD_CLIQUE), spec.scheduling_group.unwrap_or_default());
        if let Some(gang) = gang {
            bound.entry(gang).or_default().push(BoundPod { clique, pod_group: group.pod_group_name });
        }
    });
    let listed = live_list::find::<Pod, _, _>(client, set.metadata.namespace.as_deref(), params, insert).await;
    listed.map_err(|error| ApiError::from(&error))?;
    Ok(Some(bound))
}

/// Selects the objects of the set. If there is only one gang, it selects those of the gang.
fn selector(set: &PodCliqueSet, gangs: &[&str]) -> String {
    let mut selected = labels::base(&PodCliqueSetName::new(set.name_any()));
    if let [gang] = gangs {
        selected.extend(labels::of([(labels::POD_GANG, *gang)]));
    }
    labels::selector(&selected)
}

#[cfg(test)]
mod tests {
    use grove_api_types::pod_group::{PackRecord, PodGroupSpec};
    use grove_test_support::mock_api_server::{self, MockResponse, RecordedRequest};
    use serde_json::{Value, json};

    use super::*;

    fn set() -> PodCliqueSet {
        let spec = serde_json::from_value(json!({ "template": { "cliques": [] } })).expect("a spec");
        let mut set = PodCliqueSet::new("llm", spec);
        set.metadata.namespace = Some("prod".to_owned());
        set
    }

    /// The clique and the `PodGroup` of each bound pod of `llm-0`.
    async fn bound_in(items: &Value) -> Option<BoundPods> {
        let response = json!({ "metadata": {}, "items": items });
        let (client, _) = mock_api_server::client(move |request: &RecordedRequest| {
            assert_eq!(request.path, "/api/v1/namespaces/prod/pods");
            for selector in ["spec.nodeName%21%3D", "status.phase%21%3DFailed", "grove.io%2Fpodgang%3Dllm-0"] {
                assert!(request.query.contains(selector), "{selector}: {}", request.query);
            }
            MockResponse::ok(response.clone())
        });
        let mut bound = bound_pods(&client, &set(), &["llm-0"]).await.ok()??;
        Some(bound.remove("llm-0").unwrap_or_default())
    }

    #[tokio::test]
    async fn only_pods_that_are_not_terminating_count() {
        let labels = json!({ "grove.io/podgang": "llm-0", "grove.io/podclique": "llm-0-a" });
        let spec = json!({ "nodeName": "n", "schedulingGroup": { "podGroupName": "llm-0-5" }, "containers": [] });
        let active = json!({ "metadata": { "labels": labels }, "spec": spec });
        let without_group = json!({ "metadata": { "labels": { "grove.io/podgang": "llm-0" } }, "spec": {} });
        let terminating =
            json!({ "metadata": { "labels": labels, "deletionTimestamp": "beyond the range" }, "spec": spec });
        let without_gang = json!({ "metadata": {}, "spec": spec });
        let none = Some(BoundPods::default());
        assert_eq!(bound_in(&Value::Null).await, none);
        assert_eq!(bound_in(&json!([])).await, none);
        assert_eq!(bound_in(&json!([terminating, without_gang])).await, none);
        let mut expected = BoundPods::default();
        expected.push(BoundPod { clique: Some("llm-0-a".to_owned()), pod_group: Some("llm-0-5".to_owned()) });
        expected.push(BoundPod { clique: None, pod_group: None });
        assert_eq!(bound_in(&json!([terminating, active, without_group])).await, Some(expected));
        assert_eq!(bound_in(&json!("invalid")).await, None);
    }

    #[tokio::test]
    async fn a_list_for_several_gangs_has_the_pods_of_the_set() {
        let (client, _) = mock_api_server::client(move |request: &RecordedRequest| {
            assert!(!request.query.contains("podgang"), "{}", request.query);
            MockResponse::ok(json!({ "metadata": {}, "items": [] }))
        });
        let bound = bound_pods(&client, &set(), &["llm-0", "llm-1"]).await;
        assert_eq!(bound.ok().flatten(), Some(BTreeMap::new()));
    }

    #[tokio::test]
    async fn only_cliques_that_are_not_terminating_count() {
        let labels = |gang: &str| json!({ "grove.io/podgang": gang });
        let active = json!({ "metadata": { "labels": labels("llm-0") } });
        let terminating = json!({ "metadata": { "labels": labels("llm-1"), "deletionTimestamp": "beyond the range" } });
        let (client, _) = mock_api_server::client(move |request: &RecordedRequest| {
            assert_eq!(request.path, "/apis/grove.io/v1alpha1/namespaces/prod/podcliques");
            MockResponse::ok(json!({ "metadata": {}, "items": [terminating.clone(), active.clone()] }))
        });
        let gangs = gangs_with_cliques(&client, &set()).await.ok().flatten();
        assert_eq!(gangs, Some(BTreeSet::from(["llm-0".to_owned()])));
    }

    /// What a dry run with this response shows; `None` if it shows nothing.
    async fn stores_key_after(code: u16, stored: Value) -> Option<bool> {
        let (client, _) = mock_api_server::client(move |request: &RecordedRequest| {
            assert_eq!(request.method, "POST");
            assert_eq!(request.path, "/apis/scheduling.k8s.io/v1alpha2/namespaces/prod/podgroups");
            assert!(request.query.contains("dryRun=All"), "{}", request.query);
            if code == 201 { MockResponse::Json(code, stored.clone()) } else { MockResponse::error(code, "Reason") }
        });
        let packing = PackRecord { key: Some("rack".to_owned()), constraints: "1".to_owned() };
        let spec = PodGroupSpec { min_count: 1, packing: Some(packing), ..PodGroupSpec::default() };
        stores_key(&client, &set(), &PodGroupRef::of_incarnation("llm-0", 1, spec)).await.ok()
    }

    #[tokio::test]
    async fn a_dry_run_shows_whether_the_api_server_stores_the_key() {
        let stored = json!({ "spec": { "schedulingConstraints": { "topology": [{ "key": "rack" }] } } });
        assert_eq!(stores_key_after(201, stored).await, Some(true));
        assert_eq!(stores_key_after(201, json!({ "spec": {} })).await, Some(false));
        for rejected in [403, 404, 422] {
            assert_eq!(stores_key_after(rejected, Value::Null).await, Some(false), "{rejected}");
        }
        for temporary in [409, 429, 500, 503] {
            assert_eq!(stores_key_after(temporary, Value::Null).await, None, "{temporary}");
        }
    }
}
