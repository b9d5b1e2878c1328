//! Sends the requests of a daemon. No other file of the daemon writes to the API server.

use std::time::Duration;

use grove_api_types::compute_domain::ComputeDomainState;
use grove_api_types::compute_domain::clique::ComputeDomainClique;
use grove_api_types::compute_domain::daemon::Response;
use grove_api_types::compute_domain::request::{Request, Target, Verb};
use grove_api_types::compute_domain::state_object::StateObject;
use grove_process::api_error::ApiError;
use grove_process::client::{REQUEST_TIMEOUT, with_timeout};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{GetParams, Patch, PatchParams, PostParams};
use kube::core::{Request as Requests, request};
use kube::{Client, Resource};
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::metrics::DaemonMetrics;

/// How the API server answered a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// What the state machine learns.
    pub response: Response,
    /// The time before which the API server accepts no other request.
    pub retry_after: Option<Duration>,
}

/// Sends requests.
#[derive(Clone)]
pub struct Api {
    client: Client,
    metrics: DaemonMetrics,
}

impl Api {
    /// Sends requests through `client`.
    pub fn new(client: Client, metrics: DaemonMetrics) -> Self {
        Self { client, metrics }
    }

    /// Sends the request.
    pub async fn send(&self, request: Request) -> Answer {
        let (verb, kind) = (verb(&request.verb), kind(request.target));
        let result = with_timeout(REQUEST_TIMEOUT, self.object(&request)).await;
        let error = match result {
            Ok(object) => {
                self.metrics.record_request(verb, kind, "success");
                return Answer { response: Response::Success(object), retry_after: None };
            }
            Err(error) => ApiError::from(&error),
        };
        self.metrics.record_request(verb, kind, &error.code.to_string());
        log_failure(verb, kind, &request.name, &error);
        let response = match error.code {
            404 if error.reason != ApiError::NOT_SERVED => Response::NotFound,
            409 => Response::Conflict,
            _ => Response::Failure,
        };
        Answer { response, retry_after: error.retry_after }
    }

    /// The object that the API server returns, unless it is a pod.
    async fn object(&self, request: &Request) -> Result<Option<StateObject>, kube::Error> {
        match request.target {
            Target::DomainStatus => self.decoded::<ComputeDomainState>(request).await.map(|it| Some(it.into())),
            Target::Clique => self.decoded::<ComputeDomainClique>(request).await.map(|it| Some(it.into())),
            Target::Pod => self.request::<IgnoredAny>(request, http::<Pod>(request)).await.map(|_| None),
        }
    }

    async fn decoded<K>(&self, request: &Request) -> Result<K, kube::Error>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        self.request(request, http::<K>(request)).await
    }

    #[expect(clippy::disallowed_methods, reason = "the daemon sends all its requests here")]
    async fn request<T: DeserializeOwned>(
        &self,
        request: &Request,
        http: Result<http::Request<Vec<u8>>, request::Error>,
    ) -> Result<T, kube::Error> {
        let http = http.map_err(kube::Error::BuildRequest)?;
        tracing::debug!(verb = verb(&request.verb), name = request.name, "request");
        self.client.request(http).await
    }
}

/// Conflicts are usual, and the daemon resolves them. The metrics count them.
fn log_failure(verb: &str, kind: &str, name: &str, error: &ApiError) {
    if error.code != 409 {
        tracing::warn!(verb, kind, name, "request failed: {error}");
    }
}

/// The request in HTTP.
fn http<K: Resource<DynamicType = ()>>(request: &Request) -> Result<http::Request<Vec<u8>>, request::Error> {
    let Request { verb, target, namespace, name, body } = request;
    let requests = Requests::new(K::url_path(&(), Some(namespace)));
    let text = || body.to_string().into_bytes();
    match verb {
        Verb::Get => requests.get(name, &GetParams::default()),
        Verb::Create => requests.create(&PostParams::default(), text()),
        Verb::Replace if *target == Target::DomainStatus => {
            requests.replace_subresource("status", name, &PostParams::default(), text())
        }
        Verb::Replace => requests.replace(name, &PostParams::default(), text()),
        Verb::Apply { field_manager, force } => {
            let params = PatchParams { force: *force, ..PatchParams::apply(field_manager) };
            patch(&requests, request, &params, &Patch::Apply(body))
        }
        Verb::MergePatch => patch(&requests, request, &PatchParams::default(), &Patch::Merge(body)),
    }
}

fn patch(
    requests: &Requests,
    request: &Request,
    params: &PatchParams,
    patch: &Patch<&serde_json::Value>,
) -> Result<http::Request<Vec<u8>>, request::Error> {
    match request.target {
        Target::DomainStatus => requests.patch_subresource("status", &request.name, params, patch),
        Target::Clique => requests.patch(&request.name, params, patch),
        // The response contains only the metadata.
        Target::Pod => requests.patch_metadata(&request.name, params, patch),
    }
}

/// The name of the verb in metrics and logs.
fn verb(verb: &Verb) -> &'static str {
    match verb {
        Verb::Get => "get",
        Verb::Create => "create",
        Verb::Replace => "update",
        Verb::Apply { .. } => "apply",
        Verb::MergePatch => "patch",
    }
}

fn kind(target: Target) -> &'static str {
    match target {
        Target::DomainStatus => "ComputeDomain",
        Target::Clique => "ComputeDomainClique",
        Target::Pod => "Pod",
    }
}

#[cfg(test)]
mod tests;
