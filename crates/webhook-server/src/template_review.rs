//! Asks the API server whether a user may read the `ResourceClaimTemplate`s of other namespaces that an object of the user refers to. The
//! controllers read templates with their own accounts, so without this check a user could read all templates of the cluster.

use std::fmt::Write;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use grove_api_types::field_error::{ErrorType, FieldError};
use grove_api_types::resource_claim::ResourceClaimTemplate;
use grove_api_types::resource_sharing::template_access::{CrossNamespaceTemplates, Template};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use kube::api::PostParams;
use kube::core::response::StatusCause;
use kube::{Api, Client, Resource};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::review::{AdmissionResponse, UserInfo};

/// The timeout of all reviews of one admission request. The API server waits ten seconds for the response.
const TIMEOUT: Duration = Duration::from_secs(8);
/// Reviews in flight per admission request.
const CONCURRENCY: usize = 8;
/// Reviews in flight of this process. Any pod can send admission requests, so they must not flood the API server.
const MAX_IN_FLIGHT: usize = 16;
/// A denial names at most this many templates.
const MAX_NAMED: usize = 5;

/// Why the access to a template is unknown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReviewError {
    /// The API server does not review it.
    #[error(transparent)]
    Request(#[from] kube::Error),
    /// The reviews took too long, maybe because of other ones.
    #[error("the reviews took longer than {TIMEOUT:?}")]
    Timeout,
}

/// Sends the reviews.
pub(crate) struct TemplateReviewer {
    client: Client,
    permits: Semaphore,
}

impl TemplateReviewer {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, permits: Semaphore::new(MAX_IN_FLIGHT) }
    }

    /// The denial, if the user may not read one of the templates.
    ///
    /// # Errors
    /// If the API server does not review the access in time.
    pub(crate) async fn denial(
        &self,
        user: &UserInfo,
        templates: CrossNamespaceTemplates,
    ) -> Result<Option<AdmissionResponse>, ReviewError> {
        let reviews = templates.into_iter().map(|(template, field)| async move {
            let is_allowed = self.is_allowed(user, &template).await?;
            Ok::<_, ReviewError>((!is_allowed).then(|| error(user, &template, field)))
        });
        let reviews = stream::iter(reviews).buffered(CONCURRENCY).try_collect::<Vec<_>>();
        let errors: Vec<FieldError> =
            timeout(TIMEOUT, reviews).await.map_err(|_| ReviewError::Timeout)??.into_iter().flatten().collect();
        Ok((!errors.is_empty()).then(|| deny(&errors)))
    }

    #[expect(clippy::disallowed_methods, reason = "a review is a question, which the API server does not store")]
    async fn is_allowed(&self, user: &UserInfo, (namespace, name): &Template) -> Result<bool, ReviewError> {
        let attributes = ResourceAttributes {
            group: Some(ResourceClaimTemplate::group(&()).into_owned()),
            version: Some(ResourceClaimTemplate::version(&()).into_owned()),
            resource: Some(ResourceClaimTemplate::plural(&()).into_owned()),
            verb: Some("get".to_owned()),
            namespace: Some(namespace.clone()),
            name: Some(name.clone()),
            ..ResourceAttributes::default()
        };
        let spec = SubjectAccessReviewSpec {
            user: Some(user.username.clone()),
            uid: Some(user.uid.clone()).filter(|uid| !uid.is_empty()),
            groups: Some(user.groups.clone()),
            extra: Some(user.extra.clone()),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let _permit = self.permits.acquire().await.map_err(|_| ReviewError::Timeout)?;
        let reviewed = Api::all(self.client.clone()).create(&PostParams::default(), &review).await?;
        Ok(reviewed.status.is_some_and(|status: SubjectAccessReviewStatus| status.allowed))
    }
}

fn error(user: &UserInfo, (namespace, name): &Template, field: String) -> FieldError {
    let detail = format!(
        "user {:?} may not get ResourceClaimTemplate {name} in namespace {namespace}; an administrator of that namespace can permit it, or \
         copy the template into your namespace",
        user.username
    );
    FieldError { error_type: ErrorType::Forbidden, field, value: String::new(), detail }
}

fn deny(errors: &[FieldError]) -> AdmissionResponse {
    let cause = |error: &FieldError| StatusCause {
        reason: "FieldValueForbidden".to_owned(),
        message: error.to_string(),
        field: error.field.clone(),
    };
    let named = &errors[..errors.len().min(MAX_NAMED)];
    let mut message = named.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    if errors.len() > named.len() {
        _ = write!(message, "; and {} more", errors.len() - named.len());
    }
    AdmissionResponse::deny(message, named.iter().map(cause).collect(), vec![])
}

#[cfg(test)]
mod tests {
    use grove_test_support::mock_api_server::{self, MockResponse, RecordedRequest};
    use serde_json::{Value, json};

    use super::*;

    fn user() -> UserInfo {
        let user = json!({ "username": "ann", "uid": "7", "groups": ["dev"], "extra": { "scopes": ["a", "b"] } });
        serde_json::from_value(user).unwrap()
    }

    fn templates(names: &[&str]) -> CrossNamespaceTemplates {
        names.iter().map(|name| (("team-b".to_owned(), (*name).to_owned()), format!("field-of-{name}"))).collect()
    }

    /// An API server that allows only the template `mine`.
    fn client() -> (Client, mock_api_server::RequestLog) {
        mock_api_server::client(|request: &RecordedRequest| {
            let mut review = request.body.clone();
            let allowed = review["spec"]["resourceAttributes"]["name"] == "mine";
            review["status"] = json!({ "allowed": allowed });
            MockResponse::ok(review)
        })
    }

    #[tokio::test]
    async fn the_api_server_reviews_the_user_of_the_request() {
        let (client, log) = client();
        assert_eq!(TemplateReviewer::new(client).denial(&user(), templates(&["mine"])).await.unwrap(), None);
        let request = &log.requests()[0];
        assert_eq!(request.path, "/apis/authorization.k8s.io/v1/subjectaccessreviews");
        let expected = json!({
            "user": "ann", "uid": "7", "groups": ["dev"], "extra": { "scopes": ["a", "b"] },
            "resourceAttributes": { "group": "resource.k8s.io", "version": "v1", "resource": "resourceclaimtemplates", "verb": "get",
                "namespace": "team-b", "name": "mine" },
        });
        assert_eq!(request.body["spec"], expected);
    }

    #[tokio::test]
    async fn each_template_that_the_user_may_not_read_is_one_error() {
        let (client, _) = client();
        let denied = TemplateReviewer::new(client)
            .denial(&user(), templates(&["a", "mine", "z"]))
            .await
            .unwrap()
            .expect("a denial");
        let response: Value = serde_json::from_slice(&denied.to_json("1").unwrap()).unwrap();
        let causes = &response["response"]["status"]["details"]["causes"];
        assert_eq!(
            (&causes[0]["field"], &causes[1]["field"], &causes[2]),
            (&json!("field-of-a"), &json!("field-of-z"), &Value::Null)
        );
        let message = response["response"]["status"]["message"].as_str().unwrap();
        assert!(message.contains("user \"ann\" may not get ResourceClaimTemplate a in namespace team-b"), "{message}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_requests_of_all_reviews_are_limited() {
        let (client, log) = mock_api_server::client(|_: &RecordedRequest| MockResponse::NoResponse);
        let reviewer = TemplateReviewer::new(client);
        let names: Vec<String> = (0..CONCURRENCY).map(|at| format!("t-{at}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let user = user();
        let reviews = (0..5).map(|_| reviewer.denial(&user, templates(&names)));
        for result in futures::future::join_all(reviews).await {
            assert!(matches!(result, Err(ReviewError::Timeout)), "{result:?}");
        }
        assert_eq!(log.requests().len(), MAX_IN_FLIGHT);
    }

    #[tokio::test]
    async fn without_a_review_the_request_fails() {
        let (client, _) = mock_api_server::client(|_: &RecordedRequest| MockResponse::error(403, "Forbidden"));
        let reviewer = TemplateReviewer::new(client);
        reviewer.denial(&user(), templates(&["mine"])).await.unwrap_err();
        reviewer.denial(&user(), CrossNamespaceTemplates::new()).await.unwrap();
    }
}
