//! The cliques that a change of a parent triggers.

use std::borrow::Cow;
use std::sync::Arc;

use grove_api_types::v1alpha1::PodClique;
use grove_controller::triggers::Trigger;
use grove_runtime::caches::{Cache, Delta, Index, IndexScope};
use kube::ResourceExt;
use kube::runtime::reflector::ObjectRef;

/// Cliques by the namespace and the name of each parent.
pub(crate) const BY_PARENT: Index<PodClique> =
    Index { name: "parent", values: index_values, scope: IndexScope::Namespaced };

fn index_values(clique: &PodClique) -> Vec<Cow<'_, str>> {
    let namespace = clique.metadata.namespace.as_deref().unwrap_or_default();
    clique.spec.starts_after.iter().map(|parent| Cow::Owned(key(namespace, parent))).collect()
}

/// Neither a namespace nor a name contains a slash.
fn key(namespace: &str, name: &str) -> String {
    [namespace, name].join("/")
}

/// The cliques with pods that start after the changed clique. They need a reconcile if it was created or deleted, or if it needs another number of
/// ready pods; another number of ready pods only changes their status.
pub(crate) fn cliques_of_parent(cliques: &Cache<PodClique>, delta: &Delta<PodClique>) -> Vec<Trigger<PodClique>> {
    let Some(parent) = delta.object() else { return vec![] };
    let required = |clique: &Option<Arc<PodClique>>| clique.as_ref().map(|clique| clique.spec.required_replicas());
    let ready = |clique: &Option<Arc<PodClique>>| Some(clique.as_ref()?.status.as_ref()?.ready_replicas);
    let has_other_arguments = required(&delta.old) != required(&delta.new);
    if !has_other_arguments && ready(&delta.old) == ready(&delta.new) {
        return vec![];
    }
    let key = key(parent.metadata.namespace.as_deref().unwrap_or_default(), &parent.name_any());
    let waiting = cliques.by_index(&BY_PARENT, &key).into_iter();
    waiting.map(|clique| Trigger::new(has_other_arguments, ObjectRef::from_obj(&*clique))).collect()
}

#[cfg(test)]
mod tests {
    use grove_runtime::caches::InformerOptions;
    use serde_json::{Value, json};

    use super::*;

    fn clique(name: &str, spec: &Value, status: &Value) -> PodClique {
        let metadata = json!({ "name": name, "namespace": "prod" });
        let mut object = json!({ "metadata": metadata, "spec": { "replicas": 2, "podSpec": {} }, "status": status });
        json_patch::merge(&mut object["spec"], spec);
        serde_json::from_value(object).expect("a clique")
    }

    #[test]
    fn a_clique_is_reconciled_when_what_its_pods_wait_for_changes() {
        let child = clique("child", &json!({ "startsAfter": ["other", "parent"] }), &Value::Null);
        let (cliques, writer) = Cache::with_writer(InformerOptions::default().with_index(BY_PARENT));
        writer.replace(vec![child, clique("parent", &json!({}), &Value::Null)]);
        let parent = |spec: Value, status: Value| Some(Arc::new(clique("parent", &spec, &status)));
        let ready = |count: i32| json!({ "readyReplicas": count });
        for (old, new, expected) in [
            (None, parent(json!({}), Value::Null), Some(true)),
            (parent(json!({}), ready(1)), None, Some(true)),
            (parent(json!({}), Value::Null), parent(json!({ "replicas": 1 }), Value::Null), Some(true)),
            (parent(json!({}), ready(1)), parent(json!({}), ready(2)), Some(false)),
            (parent(json!({}), ready(1)), parent(json!({}), json!({ "readyReplicas": 1, "replicas": 2 })), None),
            (Some(Arc::new(clique("x", &json!({}), &ready(1)))), None, None),
        ] {
            let delta = Delta { old, new };
            let triggers = cliques_of_parent(&cliques, &delta).into_iter().map(|trigger| match trigger {
                Trigger::Reconcile(clique) | Trigger::Retry(clique) => (clique.name, true),
                Trigger::LowPriority(clique) => (clique.name, false),
            });
            let expected: Vec<_> = expected.map(|needs| ("child".to_owned(), needs)).into_iter().collect();
            assert_eq!(triggers.collect::<Vec<_>>(), expected, "{delta:?}");
        }
    }
}
