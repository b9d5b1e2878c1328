//! The terminating namespaces, from an informer. The API server rejects every create in such a namespace. It deletes the pods of the
//! namespace first, and their owners later, so an owner would try to replace each deleted pod.
//!
//! Plans in such a namespace have no creates (`children/step_filter.rs`; for pods `clique/plan/creates.rs`), and no event about its
//! objects is published (`events.rs`). The end of the termination triggers the owners (`triggers.rs`).
//!
//! The informer is optional: while RBAC forbids it, every namespace counts as active. Then the first rejected create ends a plan, and
//! rejected creates have a backoff. A service whose objects refer to their namespace as an owner stores the UIDs of all namespaces.

use grove_api_types::deletion::is_terminating;
use grove_runtime::{
    caches::{Cache, InformerOptions},
    rbac::{PolicyRule, Verb},
    runtime::Runtime,
};
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::{Deserialize, Deserializer};

/// A namespace in a cache: its identity, and whether it is terminating. Its labels and annotations are not stored.
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(inherit = Namespace)]
pub struct SlimNamespace {
    /// Name, UID, resource version and deletion timestamp.
    pub metadata: ObjectMeta,
    /// Whether the API server rejects creates in it.
    pub is_terminating: bool,
}

#[derive(Deserialize)]
struct RawNamespace {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    status: Option<RawStatus>,
}

#[derive(Deserialize)]
struct RawStatus {
    #[serde(default)]
    phase: Option<String>,
}

impl<'de> Deserialize<'de> for SlimNamespace {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let RawNamespace { metadata, status } = RawNamespace::deserialize(from)?;
        let metadata = ObjectMeta {
            name: metadata.name,
            uid: metadata.uid,
            resource_version: metadata.resource_version,
            deletion_timestamp: metadata.deletion_timestamp,
            ..ObjectMeta::default()
        };
        let phase = status.and_then(|status| status.phase);
        let mut namespace = Self { metadata, is_terminating: phase.as_deref() == Some("Terminating") };
        namespace.is_terminating |= is_terminating(&namespace);
        Ok(namespace)
    }
}

impl SlimNamespace {
    fn is_terminating(&self) -> bool {
        self.is_terminating
    }
}

/// The terminating namespaces. A clone is another handle of the same cache.
#[derive(Clone, Debug)]
pub struct TerminatingNamespaces {
    cache: Cache<SlimNamespace>,
}

impl TerminatingNamespaces {
    /// Starts the informer of namespaces. Its cache stores only the terminating ones.
    pub(crate) fn start(runtime: &Runtime) -> Self {
        Self::new(runtime.start_informer(Self::informer_options()))
    }

    /// Starts the informer of namespaces. Its cache stores the identity of all of them, for [`Self::uid`].
    pub(crate) fn start_with_uids(runtime: &Runtime) -> Self {
        Self::new(runtime.start_informer(InformerOptions::default().optional()))
    }

    /// The terminating namespaces in a cache.
    pub fn new(cache: Cache<SlimNamespace>) -> Self {
        Self { cache }
    }

    fn informer_options() -> InformerOptions<SlimNamespace> {
        InformerOptions::<SlimNamespace>::default().with_filter(SlimNamespace::is_terminating).optional()
    }

    /// The permission of the informer.
    pub fn rule() -> PolicyRule {
        PolicyRule::for_resource::<Namespace>(&[Verb::List, Verb::Watch], "create nothing in a terminating namespace")
    }

    /// Whether the namespace is terminating. A namespace without a watch event so far, such as one that was just created, is not.
    pub fn contains(&self, namespace: &str) -> bool {
        self.cache.get("", namespace).is_some_and(|namespace| namespace.is_terminating)
    }

    /// The UID of the namespace; `None` before its first watch event, and if the informer stores only terminating namespaces.
    pub fn uid(&self, namespace: &str) -> Option<String> {
        self.cache.get("", namespace)?.metadata.uid.clone()
    }

    pub(crate) fn cache(&self) -> &Cache<SlimNamespace> {
        &self.cache
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use grove_api_types::configuration::OperatorConfiguration;
    use grove_runtime::{caches::DecodedObject, client::Clients};
    use grove_test_support::{
        check_watched_kind,
        mock_api_server::{self, MockResponse},
    };
    use serde_json::{Value, json};

    use super::*;

    fn namespace(name: &str, status: &Value, deletion_timestamp: &Value) -> DecodedObject<SlimNamespace> {
        let metadata = json!({
            "name": name, "uid": format!("uid-{name}"), "resourceVersion": "7", "deletionTimestamp": deletion_timestamp,
            "annotations": { "a": "b" }, "labels": { "kubernetes.io/metadata.name": name },
        });
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata, "status": status,
            "spec": { "finalizers": ["kubernetes"] } });
        DecodedObject::from_json(&namespace.to_string())
    }

    #[test]
    fn a_namespace_is_terminating_by_its_phase_or_its_deletion_timestamp() {
        let (cache, writer) = Cache::with_writer(TerminatingNamespaces::informer_options());
        let namespaces = TerminatingNamespaces::new(cache.clone());
        let (never, deleted) = (Value::Null, json!("2026-01-01T00:00:00Z"));
        writer.replace_decoded(vec![
            namespace("active", &json!({ "phase": "Active" }), &never),
            namespace("without-status", &Value::Null, &never),
            namespace("by-phase", &json!({ "phase": "Terminating" }), &never),
            namespace("by-timestamp", &json!({}), &deleted),
            namespace("beyond-the-range", &json!({ "phase": "Terminating" }), &json!("9999-12-31T23:59:59Z")),
        ]);
        let is_terminating = |name: &str| namespaces.contains(name);
        assert!(!["active", "without-status", "not-created-yet"].into_iter().any(is_terminating));
        assert!(["by-phase", "by-timestamp", "beyond-the-range"].into_iter().all(is_terminating));
        assert_eq!(cache.len(), 3, "active namespaces use no memory");
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_without_the_permission_starts_and_every_namespace_counts_as_active() {
        let (client, log) = mock_api_server::client(|_| MockResponse::error(403, "Forbidden"));
        let clients = Clients { requests: client.clone(), watches: client };
        let runtime = Runtime::from_clients("test", clients, OperatorConfiguration::default()).unwrap();
        let namespaces = TerminatingNamespaces::start(&runtime);
        let ready = tokio::time::timeout(Duration::from_mins(1), runtime.readiness().wait()).await;
        assert!(ready.is_ok(), "{:?}", runtime.readiness().pending());
        assert!(!namespaces.contains("ns"));
        tokio::time::sleep(Duration::from_mins(10)).await;
        assert!(log.requests().len() <= 130, "{} requests in ten minutes", log.requests().len());
    }

    #[test]
    fn an_edited_namespace_affects_no_other() {
        let fields = json!({ "spec": { "finalizers": ["kubernetes"] }, "status": { "phase": "Terminating" } });
        check_watched_kind!(SlimNamespace, fields);
    }

    #[test]
    fn only_the_identity_and_the_deletion_of_a_namespace_are_stored() {
        let decoded = namespace("a", &json!({ "phase": "Terminating" }), &json!("2026-01-01T00:00:00Z"));
        let DecodedObject::Readable(SlimNamespace { metadata, is_terminating }) = decoded else { panic!("unreadable") };
        let stored = ObjectMeta {
            name: Some("a".into()),
            uid: Some("uid-a".into()),
            resource_version: Some("7".into()),
            deletion_timestamp: metadata.deletion_timestamp.clone(),
            ..ObjectMeta::default()
        };
        assert!(is_terminating && metadata.deletion_timestamp.is_some());
        assert_eq!(metadata, stored);
    }
}
