//! The live LISTs that decisions about incarnations need: pcs-controller has no cache of pods, and its cache of cliques may be older than
//! the one of the process that led before. A dry run shows whether the API server stores the topology keys of `PodGroup`s.

use std::collections::{BTreeMap, BTreeSet};

use grove_api_types::labels;
use grove_api_types::names::PodCliqueSetName;
use grove_api_types::pod_group::PodGroupRef;
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use grove_controller::reconcile_error::ReconcileError;
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

use super::{PodGroup, PodGroups};

/// Only the fields that are read, because any client may write values into the others that cannot be decoded.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    labels: Option<BTreeMap<String, String>>,
    deletion_timestamp: Option<IgnoredAny>,
}

/// Closes the decisions that depend on the cliques or on the bound pods of a gang, with at most one LIST each. If a LIST fails, its
/// decisions stay open. The keys of the next `PodGroup`s are dropped if the API server does not store them.
///
/// # Errors
/// If no response of the API server shows whether it stores the keys.
pub(crate) async fn close_decisions(
    client: &Client,
    set: &PodCliqueSet,
    pod_groups: &mut PodGroups,
    now: Timestamp,
) -> Result<(), ReconcileError> {
    if pod_groups.needs_cliques() {
        let gangs = gangs_of::<PodClique>(client, set, "").await.unwrap_or_else(log);
        if let Some(gangs) = gangs {
            pod_groups.close_with_cliques(&gangs);
        }
    }
    if pod_groups.needs_bound_pods() {
        let gangs = gangs_of::<Pod>(client, set, "spec.nodeName!=").await.unwrap_or_else(log);
        if let Some(gangs) = gangs {
            pod_groups.close_with_bound_pods(&gangs, now);
        }
    }
    let Some(next) = pod_groups.key_to_confirm() else { return Ok(()) };
    let stores_key = stores_key(client, set, next).await;
    if !stores_key.map_err(|error| ReconcileError::read(&next.name, &error))? {
        pod_groups.drop_keys();
    }
    Ok(())
}

/// Whether the API server would store the key of a `PodGroup`: without a feature gate, it drops or rejects the key. Without permission
/// for the dry run, the answer is no, because a gang must not rely on a key that the API server may drop.
async fn stores_key(client: &Client, set: &PodCliqueSet, group: &PodGroupRef) -> Result<bool, kube::Error> {
    let key = group.spec.packing.as_ref().and_then(|packing| packing.key.as_deref());
    let object = json!({
        "apiVersion": PodGroup::api_version(&()), "kind": PodGroup::kind(&()), "metadata": { "name": group.name },
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
    let path = PodGroup::url_path(&(), set.metadata.namespace.as_deref());
    let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
    let mut request = Requests::new(path).create(&params, body).map_err(kube::Error::BuildRequest)?;
    request.extensions_mut().insert("dry_run");
    client.request(request).await
}

#[expect(clippy::needless_pass_by_value, reason = "the signature of a closure for unwrap_or_else")]
fn log(error: ApiError) -> Option<BTreeSet<String>> {
    tracing::warn!(%error, "cannot list the cliques or the bound pods of the set");
    None
}

/// The gangs of the objects of the set that the field selector selects and that are not terminating.
async fn gangs_of<K>(client: &Client, set: &PodCliqueSet, fields: &str) -> Result<Option<BTreeSet<String>>, ApiError>
where
    K: Resource<DynamicType = ()>,
{
    let selector = labels::selector(&labels::base(&PodCliqueSetName::new(set.name_any())));
    let params = ListParams::default().labels(&selector).fields(fields);
    let objects = live_list::metadata::<K, Metadata>(client, set.metadata.namespace.as_deref(), &params).await;
    let objects = objects.map_err(|error| ApiError::from(&error))?;
    let active = objects.into_iter().filter(|object| object.deletion_timestamp.is_none());
    Ok(Some(active.filter_map(|object| object.labels?.remove(labels::POD_GANG)).collect()))
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

    async fn gangs_in(items: &Value) -> Option<Vec<String>> {
        let response = json!({ "metadata": {}, "items": items });
        let (client, _) = mock_api_server::client(move |request: &RecordedRequest| {
            assert_eq!(request.path, "/api/v1/namespaces/prod/pods");
            MockResponse::ok(response.clone())
        });
        let gangs = gangs_of::<Pod>(&client, &set(), "spec.nodeName!=").await.ok()??;
        Some(gangs.into_iter().collect())
    }

    #[tokio::test]
    async fn only_objects_that_are_not_terminating_count() {
        let labels = |gang: &str| json!({ "grove.io/podgang": gang });
        let active = json!({ "metadata": { "labels": labels("llm-0") } });
        let terminating = json!({ "metadata": { "labels": labels("llm-1"), "deletionTimestamp": "beyond the range" } });
        let without_gang = json!({ "metadata": {} });
        let none = Some(Vec::<String>::new());
        assert_eq!(gangs_in(&Value::Null).await, none);
        assert_eq!(gangs_in(&json!([])).await, none);
        assert_eq!(gangs_in(&json!([terminating, without_gang])).await, none);
        assert_eq!(gangs_in(&json!([terminating, active])).await, Some(vec!["llm-0".to_owned()]));
        assert_eq!(gangs_in(&json!("invalid")).await, None);
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
