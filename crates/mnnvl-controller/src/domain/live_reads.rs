//! The live reads before Grove's finalizer is removed: the caches may be older than the objects that still need the domain.

use grove_api_types::names::PodGangName;
use grove_api_types::ownership::{controller_of, is_of_kind};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use grove_api_types::{labels, mnnvl};
use grove_controller::reconcile_error::ReconcileError;
use grove_controller::requeue::Requeue;
use grove_runtime::live_list;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::ListParams;
use kube::{Client, Resource, ResourceExt};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::observed::{Confirmation, ConfirmationResult, Observed, Replica};
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
    observed.confirmed = match observed.confirmation() {
        None => ConfirmationResult::No,
        Some(Confirmation::SetDeleted(set)) => {
            let requeue = Requeue::AwaitChange;
            let deleted = ctx.executor.confirm_deleted(&*set).await;
            let deleted = deleted.map_err(|source| ReconcileError::Execute { source, requeue })?;
            if deleted { ConfirmationResult::Yes } else { ConfirmationResult::No }
        }
        Some(Confirmation::ReplicaUnused(replica)) => {
            let namespace = observed.domain.namespace().unwrap_or_default();
            let confirmed = confirm_unused(&ctx.client, &namespace, &replica).await;
            confirmed.map_err(|error| ReconcileError::read(observed.domain.name_any(), &error))?
        }
    };
    Ok(())
}

/// Whether the replica has neither a clique that may create pods nor a live pod, and gets none before its domain. The pods are listed after
/// the cliques: a clique creates no pods after its deletion.
async fn confirm_unused(
    client: &Client,
    namespace: &str,
    replica: &Replica,
) -> Result<ConfirmationResult, kube::Error> {
    let cliques = list::<PodClique>(client, namespace, replica, "").await?;
    if cliques.into_iter().any(|clique| is_active(&clique) && is_of_set(clique)) {
        return Ok(ConfirmationResult::No);
    }
    let pods = list::<Pod>(client, namespace, replica, NOT_ENDED).await?;
    if pods.iter().any(is_active) {
        return Ok(ConfirmationResult::No);
    }
    if let Some(base_gang) = &replica.base_gang
        && had_cliques(client, namespace, base_gang).await?
    {
        return Ok(ConfirmationResult::CliquesExpected);
    }
    Ok(ConfirmationResult::Yes)
}

/// Whether cliques of the replica with this base gang existed.
async fn had_cliques(client: &Client, namespace: &str, base_gang: &PodGangName) -> Result<bool, kube::Error> {
    let params = ListParams::default().fields(&format!("metadata.name={base_gang}"));
    let gangs = live_list::page::<PodGang, PodGang>(client, Some(namespace), &params).await?.items;
    let is_of_set = |gang: &PodGang| controller_of(&gang.metadata).is_some_and(is_of_kind::<PodCliqueSet>);
    Ok(gangs.iter().any(|gang| is_of_set(gang) && mnnvl::had_cliques(gang)))
}

fn is_active(object: &Metadata) -> bool {
    object.deletion_timestamp.is_none()
}

fn is_of_set(clique: Metadata) -> bool {
    let metadata = ObjectMeta { owner_references: clique.owner_references, ..ObjectMeta::default() };
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
    use grove_api_types::names::PodCliqueSetName;
    use grove_test_support::mock_api_server::{self, MockResponse, RecordedRequest};
    use serde_json::{Value, json};

    use super::*;

    /// What the API server confirms for a replica with these cliques and pods, and with this base gang if the set needs the domain.
    async fn confirmed(cliques: &Value, pods: &Value, gang: Option<&Value>) -> ConfirmationResult {
        let list = |items: &Value| json!({ "metadata": {}, "items": items });
        let (cliques, pods, gangs) = (list(cliques), list(pods), list(&json!([gang])));
        let (client, _) = mock_api_server::client(move |request: &RecordedRequest| {
            MockResponse::ok(match request.path.rsplit('/').next() {
                Some("podcliques") => cliques.clone(),
                Some("pods") => pods.clone(),
                _ => {
                    assert!(request.query.contains("fieldSelector=metadata.name%3Dllm-1"), "{}", request.query);
                    gangs.clone()
                }
            })
        });
        let base_gang = gang.map(|_| PodGangName::base(&PodCliqueSetName::new("llm".to_owned()), 1));
        let replica = Replica { set: "llm".to_owned(), index: Some(1), base_gang };
        confirm_unused(&client, "prod", &replica).await.expect("the lists")
    }

    fn owner(kind: &str) -> Value {
        json!([{ "apiVersion": "grove.io/v1alpha1", "kind": kind, "name": "o", "uid": "u", "controller": true }])
    }

    #[tokio::test]
    async fn a_replica_is_used_while_it_has_active_cliques_or_live_pods() {
        let active = json!([{ "metadata": { "ownerReferences": owner("PodCliqueScalingGroup") } }]);
        let foreign = json!([{ "metadata": { "ownerReferences": owner("Other") } }, { "metadata": {} }]);
        let mut terminating = active.clone();
        terminating[0]["metadata"]["deletionTimestamp"] = json!("beyond the range");
        let (pod, none) = (json!([{ "metadata": {} }]), json!(null));
        let ending = json!([{ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }]);
        for (cliques, pods, expected) in [
            (&none, &none, ConfirmationResult::Yes),
            (&active, &none, ConfirmationResult::No),
            (&foreign, &none, ConfirmationResult::Yes),
            (&terminating, &none, ConfirmationResult::Yes),
            (&terminating, &pod, ConfirmationResult::No),
            (&none, &pod, ConfirmationResult::No),
            (&none, &ending, ConfirmationResult::Yes),
        ] {
            assert_eq!(confirmed(cliques, pods, None).await, expected, "{cliques} {pods}");
        }
    }

    #[tokio::test]
    async fn a_needed_domain_is_retained_while_its_base_gang_has_references_to_pods() {
        let gang = |kind: &str, references: &Value, deletion: &Value| {
            let metadata = json!({ "name": "llm-1", "ownerReferences": owner(kind), "deletionTimestamp": deletion });
            let groups = [json!([]), references.clone()]
                .map(|references| json!({ "name": "c", "minReplicas": 1, "podReferences": references }));
            json!({ "metadata": metadata, "spec": { "podgroups": groups } })
        };
        let (pods, none) = (json!([{ "namespace": "prod", "name": "p" }]), json!(null));
        for (gang, expected) in [
            (gang("PodCliqueSet", &pods, &none), ConfirmationResult::CliquesExpected),
            (gang("PodCliqueSet", &json!([]), &none), ConfirmationResult::Yes),
            (gang("PodCliqueSet", &pods, &json!("2026-01-01T00:00:00Z")), ConfirmationResult::Yes),
            (gang("Other", &pods, &none), ConfirmationResult::Yes),
        ] {
            assert_eq!(confirmed(&none, &none, Some(&gang)).await, expected, "{gang}");
        }
    }
}
