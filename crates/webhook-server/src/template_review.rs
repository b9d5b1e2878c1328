//! Asks the API server whether a user may read the `ResourceClaimTemplate`s of other namespaces that an object of the user refers to. The
//! controllers read templates with their own accounts, so without this check a user could read all templates of the cluster.

use std::fmt::Write;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use grove_api_types::field_error::{ErrorType, FieldError};
use grove_api_types::resource_claim::ResourceClaimTemplate;
use grove_api_types::resource_sharing::template_access::{CrossNamespaceTemplates, Template};
use grove_runtime::client::with_timeout;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::core::response::StatusCause;
use kube::{Api, Client, Resource};

use crate::review::{AdmissionResponse, UserInfo};

/// The timeout of one review. The API server waits ten seconds for the whole response.
const TIMEOUT: Duration = Duration::from_secs(4);
/// Reviews in flight per admission request.
const CONCURRENCY: usize = 8;
/// A denial names at most this many templates.
const MAX_NAMED: usize = 5;

/// The denial, if the user may not read one of the templates.
///
/// # Errors
/// If the API server does not review the access.
pub(crate) async fn denial(
    client: &Client,
    user: &UserInfo,
    templates: CrossNamespaceTemplates,
) -> Result<Option<AdmissionResponse>, kube::Error> {
    let reviews = templates.into_iter().map(|(template, field)| async move {
        let is_allowed = is_allowed(client, user, &template).await?;
        Ok::<_, kube::Error>((!is_allowed).then(|| error(user, &template, field)))
    });
    let errors: Vec<Option<FieldError>> = stream::iter(reviews).buffered(CONCURRENCY).try_collect().await?;
    let errors: Vec<FieldError> = errors.into_iter().flatten().collect();
    Ok((!errors.is_empty()).then(|| deny(&errors)))
}

#[expect(clippy::disallowed_methods, reason = "a review is a question, which the API server does not store")]
async fn is_allowed(client: &Client, user: &UserInfo, (namespace, name): &Template) -> Result<bool, kube::Error> {
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
    let api = Api::<SubjectAccessReview>::all(client.clone());
    let reviewed = with_timeout(TIMEOUT, api.create(&PostParams::default(), &review)).await?;
    Ok(reviewed.status.is_some_and(|status| status.allowed))
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
        assert_eq!(denial(&client, &user(), templates(&["mine"])).await.unwrap(), None);
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
        let denied = denial(&client, &user(), templates(&["a", "mine", "z"])).await.unwrap().expect("a denial");
        let response: Value = serde_json::from_slice(&denied.to_json("1").unwrap()).unwrap();
        let causes = &response["response"]["status"]["details"]["causes"];
        assert_eq!(
            (&causes[0]["field"], &causes[1]["field"], &causes[2]),
            (&json!("field-of-a"), &json!("field-of-z"), &Value::Null)
        );
        let message = response["response"]["status"]["message"].as_str().unwrap();
        assert!(message.contains("user \"ann\" may not get ResourceClaimTemplate a in namespace team-b"), "{message}");
    }

    #[tokio::test]
    async fn without_a_review_the_request_fails() {
        let (client, _) = mock_api_server::client(|_: &RecordedRequest| MockResponse::error(403, "Forbidden"));
        denial(&client, &user(), templates(&["mine"])).await.unwrap_err();
        denial(&client, &user(), CrossNamespaceTemplates::new()).await.unwrap();
    }
}
