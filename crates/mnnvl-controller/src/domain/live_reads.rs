//! The live reads before a domain is released: the caches may be older than the objects that still need it.

use grove_api_types::compute_domain::ComputeDomain;
use grove_api_types::labels;
use grove_api_types::v1alpha1::PodClique;
use grove_controller::reconcile_error::ReconcileError;
use grove_controller::requeue::Requeue;
use grove_runtime::live_list;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::ListParams;
use kube::{Client, ResourceExt};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::DomainContext;
use super::observed::{DomainNeed, Observed, Retention};
use crate::replica_objects::{DomainUse, LivePod, may_be_of_set, selector};

/// The fields that select the pods that have not ended.
const NOT_ENDED: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// Only the fields that are read, because any client may write values into the others that cannot be decoded.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    owner_references: Option<Vec<OwnerReference>>,
    deletion_timestamp: Option<IgnoredAny>,
}

/// Asks the API server whether the set that the cache does not have is deleted, and whether nothing uses the domain.
pub(super) async fn confirm(ctx: &DomainContext, observed: &mut Observed) -> Result<(), ReconcileError> {
    if !observed.may_be_released() {
        return Ok(());
    }
    if let DomainNeed::Unknown(_, set) = &observed.need {
        let requeue = Requeue::AwaitChange;
        let deleted = ctx.executor.confirm_deleted(&**set).await;
        if !deleted.map_err(|source| ReconcileError::Execute { source, requeue })? {
            return Ok(());
        }
    }
    let unused = is_unused(&ctx.client, &observed.domain, observed.retention()).await;
    let unused = unused.map_err(|error| ReconcileError::read(observed.domain.name_any(), &error))?;
    observed.is_confirmed = unused;
    Ok(())
}

/// Whether nothing uses the domain. The pods are listed after the cliques: a clique creates no pods after its deletion.
async fn is_unused(client: &Client, domain: &ComputeDomain, retention: Retention<'_>) -> Result<bool, kube::Error> {
    let namespace = domain.namespace().unwrap_or_default();
    let (replica, retains): (_, fn(DomainUse) -> bool) = match retention {
        Retention::Set => return Ok(false),
        Retention::Nothing => return Ok(true),
        Retention::Claims(replica) => (replica, |kind| kind == DomainUse::Claimed),
        Retention::PodsAndCliques(replica) => {
            let params = ListParams::default().labels(&labels::selector(&selector(&replica.set, replica.index)));
            let active = |clique| is_active(clique).then_some(());
            if live_list::find_metadata::<PodClique, _, _>(client, Some(&namespace), params, active).await?.is_some() {
                return Ok(false);
            }
            (replica, |kind| kind != DomainUse::No)
        }
    };
    let selector = labels::selector(&selector(&replica.set, replica.index));
    let params = ListParams::default().labels(&selector).fields(NOT_ENDED);
    let user = |pod: LivePod| retains(pod.use_of(domain.claim_template())).then_some(());
    let has_user = live_list::find::<Pod, _, _>(client, Some(&namespace), params, user).await?.is_some();
    Ok(!has_user)
}

/// Whether the clique may create pods.
fn is_active(clique: Metadata) -> bool {
    let metadata = ObjectMeta { owner_references: clique.owner_references, ..ObjectMeta::default() };
    clique.deletion_timestamp.is_none() && may_be_of_set(&metadata)
}

#[cfg(test)]
mod tests {
    use grove_test_support::mock_api_server::{self, MockResponse, RecordedRequest};
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::observed::Replica;

    /// Whether nothing uses the domain `llm-1` in the lists of these cliques and pods.
    async fn unused(cliques: &Value, pods: &[Value], retention: fn(&Replica) -> Retention<'_>) -> bool {
        let (cliques, pods) = (json!({ "metadata": {}, "items": cliques }), pods.to_vec());
        let (client, _) = mock_api_server::client(move |request: &RecordedRequest| {
            let selector =
                "labelSelector=app.kubernetes.io%2Fpart-of%3Dllm%2Cgrove.io%2Fpodcliqueset-replica-index%3D1";
            assert!(request.query.contains(selector), "{}", request.query);
            if request.path.ends_with("/podcliques") {
                return MockResponse::ok(cliques.clone());
            }
            // One pod in each page.
            let token = request.query.split("continue=").nth(1).map_or(0, |at| at[..1].parse().expect("a token"));
            let next = if token + 1 < pods.len() { format!("{}", token + 1) } else { String::new() };
            MockResponse::ok(
                json!({ "metadata": { "continue": next }, "items": pods.get(token) .into_iter().collect::<Vec<_>>() }),
            )
        });
        let replica = Replica { set: "llm".to_owned(), index: Some(1) };
        let mut domain = ComputeDomain::default();
        domain.spec.channel.resource_claim_template.name = "llm-1".to_owned();
        is_unused(&client, &domain, retention(&replica)).await.expect("the lists")
    }

    fn owner(kind: &str) -> Value {
        json!([{ "apiVersion": "grove.io/v1alpha1", "kind": kind, "name": "o", "uid": "u", "controller": true }])
    }

    #[tokio::test]
    async fn a_domain_that_no_set_needs_is_used_while_its_replica_has_active_cliques() {
        let active = json!([{ "metadata": { "ownerReferences": owner("PodCliqueScalingGroup") } }]);
        let mut terminating = active.clone();
        terminating[0]["metadata"]["deletionTimestamp"] = json!("beyond the range");
        for (cliques, expected) in [
            (json!(null), true),
            (active, false),
            (json!([{ "metadata": {} }]), false),
            (json!([{ "metadata": { "ownerReferences": owner("Other") } }]), true),
            (terminating, true),
        ] {
            assert_eq!(
                unused(&cliques, &[], |replica| Retention::PodsAndCliques(replica)).await,
                expected,
                "{cliques}"
            );
            assert!(unused(&cliques, &[], |replica| Retention::Claims(replica)).await, "{cliques}");
        }
    }

    #[tokio::test]
    async fn pods_with_the_claim_of_a_domain_use_it_until_they_have_ended() {
        let claim = |template: &str| json!([{ "name": "mnnvl-claim", "resourceClaimTemplateName": template }]);
        let pod = |template: &str, node: Value, status: Value| {
            json!({ "metadata": { "deletionTimestamp": "beyond the range" },
                "spec": { "resourceClaims": claim(template), "nodeName": node }, "status": status })
        };
        let claimed = json!({ "resourceClaimStatuses": [{ "name": "mnnvl-claim", "resourceClaimName": "c" }] });
        let awaited = json!({ "resourceClaimStatuses": [{ "name": "other", "resourceClaimName": "c" }] });
        let none = Value::Null;
        for (case, pod, is_unclaimed, is_unused) in [
            ("bound", pod("llm-1", json!("node"), json!({})), false, false),
            ("with its claim", pod("llm-1", none.clone(), claimed), false, false),
            ("without its claim", pod("llm-1", none.clone(), awaited), true, false),
            ("ended", pod("llm-1", json!("node"), json!({ "phase": "Succeeded" })), true, true),
            ("of another domain", pod("llm-1-a", json!("node"), json!({})), true, true),
            ("without claims", json!({ "spec": { "nodeName": "node" } }), true, true),
        ] {
            let other = json!({ "spec": {}, "status": {} });
            let pods = [other, pod];
            assert_eq!(unused(&none, &pods, |replica| Retention::Claims(replica)).await, is_unclaimed, "{case}");
            assert_eq!(unused(&none, &pods, |replica| Retention::PodsAndCliques(replica)).await, is_unused, "{case}");
        }
    }
}
