//! What only the API server knows about the identity of a set: whether another owner has one of its names, because the caches have only objects of
//! sets, and whether a pod still uses its token.

use std::fmt::Debug;

use grove_api_types::labels;
use grove_api_types::names::PodCliqueSetName;
use grove_api_types::ownership::is_controlled_by;
use grove_api_types::startup::TOKEN_VOLUME;
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_controller::name_conflict::NameConflict;
use grove_controller::plan::Target;
use grove_controller::reconcile_error::ReconcileError;
use grove_runtime::caches::Cache;
use grove_runtime::client::{REQUEST_TIMEOUT, with_timeout};
use grove_runtime::live_list;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::core::{ApiResource, NamespaceResourceScope};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::IdentityCaches;
use super::observed::{Identity, Undesired};

/// The status code of a request that the account of the service may not send.
const FORBIDDEN: u16 = 403;

/// The objects that have names of the identity of the set, and that the set does not control. There is one GET for each object that the caches
/// lack: usually, only before the first pods of the set are created. Without permission, there is no conflict: then the API server rejects the
/// creates, too.
///
/// # Errors
/// The error of a request.
pub(crate) async fn name_conflicts(
    client: &Client,
    caches: &IdentityCaches,
    set: &PodCliqueSet,
    identity: &Identity,
) -> Result<Vec<NameConflict>, ReconcileError> {
    let (account, role) = (identity.account(set).map(String::from), Identity::role(set).map(String::from));
    let secret = identity.secret(set).map(String::from);
    let (accounts, roles, bindings, secrets) = futures::join!(
        conflict(client, &caches.accounts, set, account),
        conflict(client, &caches.roles, set, role.clone()),
        conflict(client, &caches.bindings, set, role),
        conflict(client, &caches.secrets, set, secret),
    );
    Ok([accounts?, roles?, bindings?, secrets?].into_iter().flatten().collect())
}

/// The object of this name, if the set does not control it.
async fn conflict<K>(
    client: &Client,
    cache: &Cache<K>,
    set: &PodCliqueSet,
    name: Option<String>,
) -> Result<Option<NameConflict>, ReconcileError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let (namespace, Some(name)) = (set.namespace().unwrap_or_default(), name) else { return Ok(None) };
    if let Some(object) = cache.get(&namespace, &name) {
        return Ok((!is_controlled_by(&*object, set)).then(|| NameConflict::with(&*object)));
    }
    let api = Api::<K>::namespaced(client.clone(), &namespace);
    let found = match with_timeout(REQUEST_TIMEOUT, api.get_metadata_opt(&name)).await {
        Err(kube::Error::Api(status)) if status.code == FORBIDDEN => None,
        found => found.map_err(|error| ReconcileError::read(&name, &error))?,
    };
    Ok(found.filter(|object| !is_controlled_by(object, set)).map(|object| {
        let resource = ApiResource::erase::<K>(&());
        let target = Target { resource, namespace: Some(namespace), uid: object.metadata.uid.clone(), name };
        NameConflict { target, metadata: object.metadata, unreadable: None }
    }))
}

/// A pod, with only the fields that are read, because any client may write values into the others that cannot be decoded.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ListedPod {
    spec: ListedPodSpec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListedPodSpec {
    service_account_name: Option<String>,
    volumes: Option<Vec<ListedVolume>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ListedVolume {
    name: String,
    secret: Option<ListedSecret>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListedSecret {
    secret_name: Option<String>,
}

impl Undesired {
    /// Whether the pod may use one of the objects.
    fn is_used_by(&self, ListedPodSpec { service_account_name, volumes }: &ListedPodSpec) -> bool {
        let has_account = service_account_name.as_ref().is_some_and(|account| self.accounts.contains(account));
        let uses = |volume: &ListedVolume| {
            let secret = volume.secret.as_ref().and_then(|secret| secret.secret_name.as_ref());
            secret.is_some_and(|secret| self.secrets.contains(secret))
                || (volume.name == TOKEN_VOLUME && !self.roles.is_empty())
        };
        has_account || volumes.iter().flatten().any(uses)
    }
}

/// Whether a pod of the set that has not ended may use these objects. Without permission, a pod may.
///
/// # Errors
/// The error of a request.
pub(crate) async fn is_in_use(
    client: &Client,
    set: &PodCliqueSet,
    undesired: &Undesired,
) -> Result<bool, ReconcileError> {
    let selector = labels::selector(&labels::base(&PodCliqueSetName::new(set.name_any())));
    let params = ListParams::default().labels(&selector).fields("status.phase!=Succeeded,status.phase!=Failed");
    let find = |pod: ListedPod| undesired.is_used_by(&pod.spec).then_some(());
    match live_list::find::<Pod, _, _>(client, set.metadata.namespace.as_deref(), params, find).await {
        Err(kube::Error::Api(status)) if status.code == FORBIDDEN => Ok(true),
        found => found.map(|found| found.is_some()).map_err(|error| ReconcileError::read(set.name_any(), &error)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_pod_uses_the_objects_that_it_names() {
        let names = |name: &str| BTreeSet::from([name.to_owned()]);
        let account = Undesired { accounts: names("llm"), ..Undesired::default() };
        let secret = Undesired { secrets: names("llm-initc-sa-token-secret"), ..Undesired::default() };
        let role = Undesired { roles: names("grove.io:pcs:llm"), ..Undesired::default() };
        let mounts =
            |name: &str, secret: &str| json!({ "volumes": [{ "name": name, "secret": { "secretName": secret } }] });
        let projected = json!({ "volumes": [{ "name": TOKEN_VOLUME, "projected": { "sources": [] } }] });
        let own_account = json!({ "serviceAccountName": "llm", "volumes": null });
        for (undesired, spec, expected) in [
            (&account, own_account.clone(), true),
            (&account, json!({ "serviceAccountName": "default" }), false),
            (&secret, mounts("any", "llm-initc-sa-token-secret"), true),
            (&secret, mounts(TOKEN_VOLUME, "llm-ic-sat"), false),
            (&role, mounts(TOKEN_VOLUME, "llm-ic-sat"), true),
            (&role, projected.clone(), true),
            (&role, own_account, false),
            (&secret, Value::Null, false),
        ] {
            let spec: Option<ListedPodSpec> = serde_json::from_value(spec.clone()).unwrap();
            assert_eq!(undesired.is_used_by(&spec.unwrap_or_default()), expected, "{undesired:?}");
        }
    }
}
