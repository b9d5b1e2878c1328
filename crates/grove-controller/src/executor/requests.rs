//! The writes as HTTP requests. A response contains only metadata, and only its UID is read: the watch delivers the object.

use axum::http::{HeaderValue, Request, header::ACCEPT};
use grove_runtime::object_decoding::{ObjectMetadata, decode};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Client, Resource,
    api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions},
    core::{DynamicObject, Request as Requests, request},
};
use serde::Deserialize;

use crate::plan::{Delete, Manifest, MergePatch, PatchBody, Target};

const METADATA: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json");

/// The part of a response that is read, be it an object or a Status.
#[derive(Deserialize)]
struct Response {
    #[serde(default)]
    metadata: ResponseMeta,
}

#[derive(Default, Deserialize)]
struct ResponseMeta {
    uid: Option<String>,
}

/// Creates the object; returns its uid. The manifest is rendered here, so that a plan does not contain its text.
pub(super) async fn create(client: &Client, target: &Target, object: &Manifest) -> Result<Option<String>, kube::Error> {
    let body = object.text().into_owned().into_bytes();
    send(client, requests(target).create(&PostParams::default(), body)).await
}

pub(super) async fn patch(client: &Client, target: &Target, change: &PatchBody) -> Result<(), kube::Error> {
    let request = requests(target).patch(&target.name, &PatchParams::default(), &body(change));
    send(client, request).await.map(drop)
}

pub(super) async fn patch_status(client: &Client, target: &Target, change: &PatchBody) -> Result<(), kube::Error> {
    let request = requests(target).patch_subresource("status", &target.name, &PatchParams::default(), &body(change));
    send(client, request).await.map(drop)
}

fn body(change: &PatchBody) -> Patch<&MergePatch> {
    match change {
        PatchBody::Merge(change) => Patch::Merge(change),
        PatchBody::Json(operations) => Patch::Json(operations.clone()),
    }
}

/// Deletes the object with the UID of the target, and with the resource version if the step has one.
pub(super) async fn delete(client: &Client, delete: &Delete) -> Result<(), kube::Error> {
    let Delete { target, resource_version, is_foreground } = delete;
    let preconditions = Preconditions { uid: target.uid.clone(), resource_version: resource_version.clone() };
    let params = if *is_foreground { DeleteParams::foreground() } else { DeleteParams::background() };
    let params = params.preconditions(preconditions);
    send(client, requests(target).delete(&target.name, &params)).await.map(drop)
}

/// Reads the metadata of the object, without its managed fields: any client may write a time into them that cannot be decoded.
#[expect(clippy::disallowed_methods, reason = "`Api::get_metadata` decodes the managed fields")]
pub(super) async fn get_metadata(client: &Client, target: &Target) -> Result<ObjectMeta, kube::Error> {
    let request = requests(target).get_metadata(&target.name, &GetParams::default());
    let mut request = request.map_err(kube::Error::BuildRequest)?;
    request.extensions_mut().insert("get_metadata");
    let text = client.request_text(request).await?;
    let ObjectMetadata { metadata } = decode(&text).map_err(kube::Error::SerdeError)?;
    Ok(metadata)
}

fn requests(target: &Target) -> Requests {
    Requests::new(DynamicObject::url_path(&target.resource, target.namespace.as_deref()))
}

#[expect(clippy::disallowed_methods, reason = "the executor sends all its writes here")]
async fn send(
    client: &Client,
    request: Result<Request<Vec<u8>>, request::Error>,
) -> Result<Option<String>, kube::Error> {
    let mut request = request.map_err(kube::Error::BuildRequest)?;
    request.headers_mut().insert(ACCEPT, METADATA);
    let Response { metadata: ResponseMeta { uid } } = client.request(request).await?;
    Ok(uid)
}
