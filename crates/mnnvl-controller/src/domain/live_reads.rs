//! The live reads before Grove's finalizer is removed: the caches may be older than the objects that still need the domain.

use grove_api_types::labels;
use grove_api_types::v1alpha1::PodClique;
use grove_controller::reconcile_error::ReconcileError;
use grove_controller::requeue::Requeue;
use grove_runtime::live_list;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::ListParams;
use kube::{Client, Resource, ResourceExt};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::observed::{Confirmation, Observed, Replica};
use crate::context::DomainContext;
use crate::replica_objects::{is_controlled_by_set_or_group, selector};

/// The fields that select the pods that have not ended.
const NOT_ENDED: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// Only the fields that are read, because any client may write values into the others that cannot be decoded.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    owner_references: Option<Vec<OwnerReference>>,
    deletion_timestamp: Option<IgnoredAny>,
}

/// Asks the API server for what the snapshot needs, if it needs anything.
pub(super) async fn confirm(ctx: &DomainContext, observed: &mut Observed) -> Result<(), ReconcileError> {
    observed.is_confirmed = match observed.confirmation() {
        None => false,
        Some(Confirmation::SetDeleted(set)) => {
            let requeue = Requeue::AwaitChange;
            let deleted = ctx.executor.confirm_deleted(&*set).await;
            deleted.map_err(|source| ReconcileError::Execute { source, requeue })?
        }
        Some(Confirmation::ReplicaUnused(replica)) => {
            let namespace = observed.domain.namespace().unwrap_or_default();
            let used = is_used(&ctx.client, &namespace, &replica).await;
            !used.map_err(|source| ReconcileError::Read { name: observed.domain.name_any(), source })?
        }
    };
    Ok(())
}

/// Whether the replica has a clique that may create pods, or a live pod. The pods are listed last: a clique creates no pods after its
/// deletion.
async fn is_used(client: &Client, namespace: &str, replica: &Replica) -> Result<bool, kube::Error> {
    let cliques = list::<PodClique>(client, namespace, replica, "").await?;
    if cliques.into_iter().any(|clique| is_active(&clique) && is_of_set(clique)) {
        return Ok(true);
    }
    let pods = list::<Pod>(client, namespace, replica, NOT_ENDED).await?;
    Ok(pods.iter().any(is_active))
}

fn is_active(object: &Metadata) -> bool {
    object.deletion_timestamp.is_none()
}

fn is_of_set(clique: Metadata) -> bool {
    let metadata = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
        owner_references: clique.owner_references,
        ..Default::default()
    };
    is_controlled_by_set_or_group(&metadata)
}

async fn list<K>(
    client: &Client,
    namespace: &str,
    replica: &Replica,
    fields: &str,
) -> Result<Vec<Metadata>, kube::Error>
where
    K: Resource<DynamicType = ()>,
{
    let selector = labels::selector(&selector(&replica.set, replica.index));
    let params = ListParams::default().labels(&selector).fields(fields);
    live_list::metadata::<K, Metadata>(client, Some(namespace), &params).await
}

#[cfg(test)]
mod tests {
    use grove_test_support::mock_api_server::{self, MockResponse, RecordedRequest};
    use serde_json::{Value, json};

    use super::*;

    /// Whether a replica with these cliques and pods is in use.
    async fn used(cliques: &Value, pods: &Value) -> bool {
        let list = |items: &Value| json!({ "metadata": {}, "items": items });
        let (cliques, pods) = (list(cliques), list(pods));
        let (client, _) = mock_api_server::client(move |request: &RecordedRequest| {
            MockResponse::ok(if request.path.ends_with("/podcliques") { cliques.clone() } else { pods.clone() })
        });
        let replica = Replica { set: "llm".to_owned(), index: Some(1) };
        is_used(&client, "prod", &replica).await.expect("both lists")
    }

    #[tokio::test]
    async fn a_replica_is_used_while_it_has_active_cliques_or_live_pods() {
        let owner = |kind: &str| json!([{ "apiVersion": "grove.io/v1alpha1", "kind": kind, "name": "o", "uid": "u", "controller": true }]);
        let active = json!([{ "metadata": { "ownerReferences": owner("PodCliqueScalingGroup") } }]);
        let foreign = json!([{ "metadata": { "ownerReferences": owner("Other") } }, { "metadata": {} }]);
        let mut terminating = active.clone();
        terminating[0]["metadata"]["deletionTimestamp"] = json!("beyond the range");
        let (pod, none) = (json!([{ "metadata": {} }]), json!(null));
        let ending = json!([{ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }]);
        for (cliques, pods, expected) in [
            (&none, &none, false),
            (&active, &none, true),
            (&foreign, &none, false),
            (&terminating, &none, false),
            (&terminating, &pod, true),
            (&none, &pod, true),
            (&none, &ending, false),
        ] {
            assert_eq!(used(cliques, pods).await, expected, "{cliques} {pods}");
        }
    }
}
