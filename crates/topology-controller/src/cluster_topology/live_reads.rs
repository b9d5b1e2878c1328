//! The live LIST of sets before the finalizer of a topology is removed: the cache may lack a set that was just created.

use grove_api_types::v1alpha1::PodCliqueSet;
use grove_runtime::live_list;
use kube::Client;
use kube::api::ListParams;
use serde_json::value::RawValue;

use super::observed::LiveReferences;
use crate::slim_set::SlimSet;

/// Whether a set in any namespace refers to the topology `name`. `default` is the name of the configured default.
pub(super) async fn live_references(client: &Client, name: &str, default: &str) -> LiveReferences {
    match first_referring_set(client, name, default).await {
        Ok(Some(set)) => LiveReferences::Some(set),
        Ok(None) => LiveReferences::None,
        Err(error) => {
            tracing::warn!(%error, name, "cannot list the sets that refer to the topology");
            LiveReferences::Failed
        }
    }
}

/// Each set is decoded on its own: a set that cannot be decoded has no gangs, so it refers to nothing.
async fn first_referring_set(client: &Client, name: &str, default: &str) -> Result<Option<String>, kube::Error> {
    let referring = |item: Box<RawValue>| {
        let set = serde_json::from_str::<SlimSet>(item.get()).ok()?;
        set.refers_to(name, default).then(|| set.key())
    };
    live_list::find::<PodCliqueSet, _, _>(client, None, ListParams::default(), referring).await
}

#[cfg(test)]
mod tests {
    use grove_test_support::mock_api_server::{self, MockResponse, RecordedRequest};
    use serde_json::{Value, json};

    use super::*;

    fn set(name: &str, constraint: &Value) -> Value {
        let template = json!({ "topologyConstraint": constraint, "cliques": [] });
        json!({ "metadata": { "namespace": "prod", "name": name }, "spec": { "template": template } })
    }

    async fn read(pages: [Value; 2], name: &str) -> LiveReferences {
        let (client, _) = mock_api_server::client(move |request: &RecordedRequest| {
            assert_eq!(request.path, "/apis/grove.io/v1alpha1/podcliquesets", "the sets of all namespaces");
            let is_second = request.query.contains("continue=more");
            let token = if is_second { "" } else { "more" };
            let items = pages[usize::from(is_second)].clone();
            MockResponse::ok(json!({ "metadata": { "continue": token }, "items": items }))
        });
        live_references(&client, name, "default").await
    }

    #[tokio::test]
    async fn every_page_counts_and_a_set_that_cannot_be_decoded_does_not() {
        let racks = set("a", &json!({ "topologyName": "racks", "packDomain": "rack" }));
        let default = set("b", &json!({ "packDomain": "rack" }));
        let pages = || [json!([{ "metadata": 1 }, set("c", &Value::Null)]), json!([racks, default])];
        assert_eq!(read(pages(), "racks").await, LiveReferences::Some("prod/a".to_owned()));
        assert_eq!(read(pages(), "default").await, LiveReferences::Some("prod/b".to_owned()));
        assert_eq!(read(pages(), "other").await, LiveReferences::None);
        assert_eq!(read([Value::Null, json!(1)], "other").await, LiveReferences::Failed);
    }
}
