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
use serde::de::{DeserializeOwned, IgnoredAny};

use super::IdentityCaches;
use super::observed::Identity;

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
    identity: Identity,
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
    volumes: Option<Vec<ListedVolume>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ListedVolume {
    name: String,
    secret: Option<IgnoredAny>,
}

/// Whether a pod of the set that has not ended may use objects that the set does not need any more: the Secret, or any token. Without
/// permission, a pod may.
///
/// # Errors
/// The error of a request.
pub(crate) async fn uses_token(client: &Client, set: &PodCliqueSet) -> Result<bool, ReconcileError> {
    let is_token_unneeded = Identity::role(set).is_none();
    let selector = labels::selector(&labels::base(&PodCliqueSetName::new(set.name_any())));
    let params = ListParams::default().labels(&selector).fields("status.phase!=Succeeded,status.phase!=Failed");
    let uses = |volume: &ListedVolume| volume.name == TOKEN_VOLUME && (is_token_unneeded || volume.secret.is_some());
    let find = |pod: ListedPod| pod.spec.volumes.iter().flatten().any(uses).then_some(());
    match live_list::find::<Pod, _, _>(client, set.metadata.namespace.as_deref(), params, find).await {
        Err(kube::Error::Api(status)) if status.code == FORBIDDEN => Ok(true),
        found => found.map(|found| found.is_some()).map_err(|error| ReconcileError::read(set.name_any(), &error)),
    }
}
