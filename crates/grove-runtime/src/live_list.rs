//! Lists at the API server, for decisions that a stale cache must not make. A list is decoded into types with only the fields that the decision
//! needs, because any client may write values into the others that cannot be decoded.

use axum::http;
use kube::api::ListParams;
use kube::core::Request as Requests;
use kube::{Client, Resource};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::client::{REQUEST_TIMEOUT, with_timeout};

/// One response to a list.
#[derive(Debug)]
pub struct Page<T> {
    /// The objects.
    pub items: Vec<T>,
    /// The token of the next page; `None` on the last one.
    pub continue_token: Option<String>,
}

/// The API server sends null in place of an empty list.
#[derive(Deserialize)]
struct ObjectList<T> {
    #[serde(default)]
    metadata: ListMetadata,
    items: Option<Vec<T>>,
}

#[derive(Default, Deserialize)]
struct ListMetadata {
    #[serde(rename = "continue")]
    token: Option<String>,
}

#[derive(Deserialize)]
struct Object<M> {
    #[serde(default)]
    metadata: M,
}

/// One page of the objects that the parameters select; `namespace` is `None` for those of all namespaces.
///
/// # Errors
/// The error of the request, or of an object that cannot be decoded as `T`.
pub async fn page<K, T>(client: &Client, namespace: Option<&str>, params: &ListParams) -> Result<Page<T>, kube::Error>
where
    K: Resource<DynamicType = ()>,
    T: DeserializeOwned,
{
    let request = Requests::new(K::url_path(&(), namespace)).list(params).map_err(kube::Error::BuildRequest)?;
    let ObjectList { metadata, items } = send(client, request, "list").await?;
    let continue_token = metadata.token.filter(|token| !token.is_empty());
    Ok(Page { items: items.unwrap_or_default(), continue_token })
}

/// The first value that `find` returns for one of the objects that the parameters select. Lists pages until then.
///
/// # Errors
/// The error of a request, or of an object that cannot be decoded as `T`.
pub async fn find<K, T, R>(
    client: &Client,
    namespace: Option<&str>,
    mut params: ListParams,
    mut find: impl FnMut(T) -> Option<R>,
) -> Result<Option<R>, kube::Error>
where
    K: Resource<DynamicType = ()>,
    T: DeserializeOwned,
{
    loop {
        let Page { items, continue_token } = page::<K, T>(client, namespace, &params).await?;
        if let Some(found) = items.into_iter().find_map(&mut find) {
            return Ok(Some(found));
        }
        let Some(token) = continue_token else { return Ok(None) };
        params = params.continue_token(&token);
    }
}

/// The metadata of the objects that the parameters select.
///
/// # Errors
/// The error of the request, or of metadata that cannot be decoded as `M`.
pub async fn metadata<K, M>(
    client: &Client,
    namespace: Option<&str>,
    params: &ListParams,
) -> Result<Vec<M>, kube::Error>
where
    K: Resource<DynamicType = ()>,
    M: DeserializeOwned + Default,
{
    let request =
        Requests::new(K::url_path(&(), namespace)).list_metadata(params).map_err(kube::Error::BuildRequest)?;
    let ObjectList::<Object<M>> { items, .. } = send(client, request, "list_metadata").await?;
    Ok(items.into_iter().flatten().map(|object| object.metadata).collect())
}

/// The response to a request; `verb` is its name in metrics and traces.
#[expect(clippy::disallowed_methods, reason = "`Api` decodes all fields of the objects")]
async fn send<T: DeserializeOwned>(
    client: &Client,
    mut request: http::Request<Vec<u8>>,
    verb: &'static str,
) -> Result<ObjectList<T>, kube::Error> {
    request.extensions_mut().insert(verb);
    let text = with_timeout(REQUEST_TIMEOUT, client.request_text(request)).await?;
    serde_json::from_str(&text).map_err(kube::Error::SerdeError)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use grove_test_support::mock_api_server::{self, MockResponse, RecordedRequest};
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::{Value, json};

    use super::*;

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(default)]
    struct Labels {
        labels: Option<BTreeMap<String, String>>,
    }

    fn client(response: Value) -> Client {
        let (client, _) = mock_api_server::client(move |request: &RecordedRequest| {
            assert_eq!(request.path, "/api/v1/namespaces/prod/configmaps");
            assert!(request.query.contains("labelSelector=a%3Db"), "{}", request.query);
            MockResponse::ok(response.clone())
        });
        client
    }

    #[tokio::test]
    async fn only_the_requested_fields_are_decoded() {
        let params = ListParams::default().labels("a=b");
        let list = async |items: Value| {
            let client = client(json!({ "metadata": {}, "items": items }));
            metadata::<ConfigMap, Labels>(&client, Some("prod"), &params).await.ok()
        };
        assert_eq!(list(Value::Null).await, Some(Vec::new()));
        let labels = json!({ "labels": { "a": "b" }, "creationTimestamp": "beyond the range" });
        let expected = Labels { labels: Some([("a".to_owned(), "b".to_owned())].into()) };
        let found = list(json!([{ "metadata": labels, "data": 1 }, {}])).await;
        assert_eq!(found, Some(vec![expected, Labels::default()]));
        assert_eq!(list(json!("invalid")).await, None);
    }

    #[tokio::test]
    async fn a_page_has_the_token_of_the_next_one() {
        let params = ListParams::default().labels("a=b");
        for (token, expected) in [(json!("more"), Some("more")), (json!(""), None), (Value::Null, None)] {
            let client = client(json!({ "metadata": { "continue": token }, "items": [1, 2] }));
            let page = page::<ConfigMap, i32>(&client, Some("prod"), &params).await.expect("a page");
            assert_eq!((page.items, page.continue_token.as_deref()), (vec![1, 2], expected));
        }
    }
}
