//! Applies the manifests of a dev cluster, and waits for states of the objects. kubectl would send the requests one after another, and
//! each of its processes reads the schemas of the API server again.

use crate::workspace;
use anyhow::{Context, Result};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Discovery, Scope};
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::await_condition;
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

/// The field manager of the manifests.
const MANAGER: &str = "grove-xtask";

/// Applies manifests with server-side apply and forced ownership: one request per object, whether the object exists or not, and fields
/// that another manager changed are overwritten. The requests run at the same time, after those of the namespaces. Returns the names of the
/// objects.
pub(crate) async fn apply(client: &Client, manifests: &str) -> Result<Vec<String>> {
    let objects = documents(manifests).map(parse).collect::<Result<Vec<_>>>()?;
    let discovery =
        Discovery::new(client.clone()).run_aggregated().await.context("cannot read the kinds of the API server")?;
    let (namespaces, others): (Vec<_>, Vec<_>) =
        objects.iter().partition(|object| object.types.as_ref().is_some_and(|types| types.kind == "Namespace"));
    for objects in [namespaces, others] {
        try_join_all(objects.into_iter().map(|object| apply_one(client, &discovery, object))).await?;
    }
    Ok(objects.iter().map(ResourceExt::name_any).collect())
}

fn is_content(line: &str) -> bool {
    !matches!(line.trim(), "" | "---") && !line.trim_start().starts_with('#')
}

/// The manifests in a text, without empty ones.
pub(crate) fn documents(manifests: &str) -> impl Iterator<Item = &str> {
    manifests.split(workspace::NEXT_MANIFEST).filter(|document| document.lines().any(is_content))
}

fn parse(document: &str) -> Result<DynamicObject> {
    let value: Value = serde_saphyr::from_str(document).context("a manifest is not valid YAML")?;
    serde_json::from_value(value).with_context(|| format!("a manifest is no object:\n{document}"))
}

async fn apply_one(client: &Client, discovery: &Discovery, object: &DynamicObject) -> Result<()> {
    let types = object.types.as_ref().context("a manifest has no kind")?;
    let kind = GroupVersionKind::try_from(types)?;
    let (resource, capabilities) =
        discovery.resolve_gvk(&kind).with_context(|| format!("the API server does not serve {kind:?}"))?;
    let api: Api<DynamicObject> = match (capabilities.scope, object.namespace()) {
        (Scope::Namespaced, Some(namespace)) => Api::namespaced_with(client.clone(), &namespace, &resource),
        (Scope::Namespaced, None) => Api::default_namespaced_with(client.clone(), &resource),
        (Scope::Cluster, _) => Api::all_with(client.clone(), &resource),
    };
    let (name, params) = (object.name_any(), PatchParams::apply(MANAGER).force().validation_strict());
    api.patch(&name, &params, &Patch::Apply(object))
        .await
        .with_context(|| format!("cannot apply {} {name}", types.kind))?;
    Ok(())
}

/// Waits until the API server serves the kinds of these CRDs.
pub(crate) async fn wait_until_established(client: &Client, names: &[String]) -> Result<()> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    try_join_all(names.iter().map(|name| await_condition(api.clone(), name, is_crd_established()))).await?;
    Ok(())
}

/// Waits until all nodes are Ready.
pub(crate) async fn wait_for_nodes(client: &Client) -> Result<()> {
    let api = Api::<Node>::all(client.clone());
    let is_ready = |node: Option<&Node>| {
        let conditions = node.and_then(|node| node.status.as_ref()?.conditions.as_ref());
        conditions
            .is_some_and(|all| all.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True"))
    };
    let nodes = api.list(&kube::api::ListParams::default()).await?.items;
    let waiting = nodes.iter().filter(|node| !is_ready(Some(node))).map(ResourceExt::name_any);
    try_join_all(waiting.collect::<Vec<_>>().iter().map(|name| await_condition(api.clone(), name, is_ready))).await?;
    Ok(())
}

/// Waits for the ServiceAccount of the namespace `default`: the API server rejects every pod in a namespace that has none yet.
pub(crate) async fn wait_for_default_account(client: &Client) -> Result<()> {
    let api = Api::<ServiceAccount>::namespaced(client.clone(), "default");
    await_condition(api, "default", |account: Option<&ServiceAccount>| account.is_some()).await?;
    Ok(())
}
