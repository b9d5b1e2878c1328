//! Lists at the API server, for decisions that a stale cache must not make. A list is decoded into types with only the fields that the decision
//! needs, because any client may write values into the others that cannot be decoded.

use axum::http;
use kube::api::ListParams;
use kube::core::Request as Requests;
use kube::{Client, Resource};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::caches::OBJECTS_PER_PAGE;
use crate::client::{REQUEST_TIMEOUT, with_timeout};

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

/// The first value that `find` returns for one of the objects that the parameters select; `namespace` is `None` for those of all namespaces.
/// Lists pages until then.
///
/// # Errors
/// The error of a request, or of an object that cannot be decoded as `T`.
pub async fn find<K, T, R>(
    client: &Client,
    namespace: Option<&str>,
    params: ListParams,
    find: impl FnMut(T) -> Option<R>,
) -> Result<Option<R>, kube::Error>
where
    K: Resource<DynamicType = ()>,
    T: DeserializeOwned,
{
    let requests = Requests::new(K::url_path(&(), namespace));
    find_in_pages(client, "list", params, |params| requests.list(params), find).await
}

/// For [`find`] and [`find_metadata`]: calls `visit` with each object, and finds nothing.
pub fn visit_all<T>(mut visit: impl FnMut(T)) -> impl FnMut(T) -> Option<()> {
    move |object| {
        visit(object);
        None
    }
}

/// Like [`find`], with only the metadata of the objects.
///
/// # Errors
/// The error of a request, or of metadata that cannot be decoded as `M`.
pub async fn find_metadata<K, M, R>(
    client: &Client,
    namespace: Option<&str>,
    params: ListParams,
    mut find: impl FnMut(M) -> Option<R>,
) -> Result<Option<R>, kube::Error>
where
    K: Resource<DynamicType = ()>,
    M: DeserializeOwned + Default,
{
    let requests = Requests::new(K::url_path(&(), namespace));
    let find = |object: Object<M>| find(object.metadata);
    find_in_pages(client, "list_metadata", params, |params| requests.list_metadata(params), find).await
}

/// `verb` is the name of the requests in metrics and traces.
async fn find_in_pages<T: DeserializeOwned, R>(
    client: &Client,
    verb: &'static str,
    params: ListParams,
    request: impl Fn(&ListParams) -> Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    mut find: impl FnMut(T) -> Option<R>,
) -> Result<Option<R>, kube::Error> {
    let mut params = params.limit(OBJECTS_PER_PAGE);
    loop {
        let request = request(&params).map_err(kube::Error::BuildRequest)?;
        let ObjectList { metadata, items } = send(client, request, verb).await?;
        if let Some(found) = items.into_iter().flatten().find_map(&mut find) {
            return Ok(Some(found));
        }
        let Some(token) = metadata.token.filter(|token| !token.is_empty()) else { return Ok(None) };
        params = params.continue_token(&token);
    }
}

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

    /// A client of an API server with these pages.
    fn client(pages: Vec<Value>) -> Client {
        let (client, _) = mock_api_server::client(move |request: &RecordedRequest| {
            assert_eq!(request.path, "/api/v1/namespaces/prod/configmaps");
            assert!(request.query.contains("labelSelector=a%3Db"), "{}", request.query);
            assert!(request.query.contains("limit=50"), "{}", request.query);
            let at = request.query.split("continue=").nth(1).map_or(0, |token| token[..1].parse().expect("a token"));
            // The last page has no token, or an empty one.
            let next = if at + 1 < pages.len() {
                json!((at + 1).to_string())
            } else {
                [json!(""), Value::Null][at % 2].clone()
            };
            MockResponse::ok(json!({ "metadata": { "continue": next }, "items": pages[at] }))
        });
        client
    }

    fn params() -> ListParams {
        ListParams::default().labels("a=b")
    }

    #[tokio::test]
    async fn only_the_requested_fields_are_decoded() {
        let list = async |items: Value| {
            let mut found = Vec::new();
            let push = visit_all(|labels: Labels| found.push(labels));
            let listed = find_metadata::<ConfigMap, _, _>(&client(vec![items]), Some("prod"), params(), push).await;
            listed.ok().map(|_| found)
        };
        assert_eq!(list(Value::Null).await, Some(Vec::new()));
        let labels = json!({ "labels": { "a": "b" }, "creationTimestamp": "beyond the range" });
        let expected = Labels { labels: Some([("a".to_owned(), "b".to_owned())].into()) };
        let found = list(json!([{ "metadata": labels, "data": 1 }, {}])).await;
        assert_eq!(found, Some(vec![expected, Labels::default()]));
        assert_eq!(list(json!("invalid")).await, None);
    }

    #[tokio::test]
    async fn pages_are_listed_until_an_object_is_found() {
        let pages = || client(vec![json!([1, 2]), json!(null), json!([3, 4]), json!("never listed")]);
        let found =
            find::<ConfigMap, i32, _>(&pages(), Some("prod"), params(), |it| (it == 3).then_some("three")).await;
        assert_eq!(found.expect("the lists"), Some("three"));
        for count in [1, 2] {
            let mut visited = Vec::new();
            let client = client(vec![json!([1, 2]); count]);
            let visit = visit_all(|it: i32| visited.push(it));
            find::<ConfigMap, _, _>(&client, Some("prod"), params(), visit).await.expect("the lists");
            assert_eq!(visited, [1, 2].repeat(count));
        }
    }
}
