//! The metric `grove_foreign_owner_references`: the objects with a controller reference to an object of another namespace. Kubernetes does not
//! allow such owners, but any user can write such a reference, and the API server stores it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Debug, Formatter},
    sync::Arc,
};

use parking_lot::Mutex;
use prometheus::{
    IntGaugeVec, Opts, Registry,
    core::{Collector, Desc},
    proto::MetricFamily,
};

/// The objects of one kind as far as the metric needs them.
pub(crate) trait OwnedObjects: Send + Sync {
    /// Calls `visit` with a namespace, the uid of a controller in the metadata of objects there, and the number of these objects.
    fn visit_controllers(&self, visit: &mut dyn FnMut(&str, &str, usize));
    /// Calls `visit` with the namespace and the uid of each object.
    fn visit_objects(&self, visit: &mut dyn FnMut(&str, &str));
}

/// The name of a kind, and its objects.
type WatchedKind = (String, Box<dyn OwnedObjects>);

/// The kinds that a process watches. A clone shares them.
#[derive(Clone, Default)]
pub(crate) struct ForeignOwners {
    kinds: Arc<Mutex<Vec<WatchedKind>>>,
}

impl Debug for ForeignOwners {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignOwners").field("kinds", &self.kinds.lock().len()).finish_non_exhaustive()
    }
}

impl ForeignOwners {
    /// Registers the metric.
    pub(crate) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let options = Opts::new(
            "grove_foreign_owner_references",
            "Number of objects of a kind with a controller reference to an object of another namespace, which is ignored.",
        );
        let references = IntGaugeVec::new(options, &["kind"])?;
        let kinds = Self::default();
        registry.register(Box::new(ForeignOwnersCollector { kinds: kinds.clone(), references }))?;
        Ok(kinds)
    }

    /// Adds a kind.
    pub(crate) fn add(&self, kind: &str, objects: impl OwnedObjects + 'static) {
        self.kinds.lock().push((kind.to_owned(), Box::new(objects)));
    }

    /// The number of references for each kind.
    fn count(&self) -> Vec<(String, usize)> {
        let kinds = self.kinds.lock();
        let mut owners = BTreeSet::new();
        for (_, objects) in kinds.iter() {
            objects.visit_controllers(&mut |_, uid, _| {
                owners.insert(uid.to_owned());
            });
        }
        let mut namespaces = BTreeMap::new();
        for (_, objects) in kinds.iter() {
            objects.visit_objects(&mut |namespace, uid| {
                if owners.contains(uid) {
                    namespaces.insert(uid.to_owned(), namespace.to_owned());
                }
            });
        }
        let count = |objects: &dyn OwnedObjects| {
            let mut references = 0;
            objects.visit_controllers(&mut |namespace, uid, count| {
                // An object with a namespace may have a cluster-scoped owner.
                let is_foreign = |owner: &&String| !owner.is_empty() && *owner != namespace;
                references += namespaces.get(uid).filter(is_foreign).map_or(0, |_| count);
            });
            references
        };
        kinds.iter().map(|(kind, objects)| (kind.clone(), count(&**objects))).collect()
    }
}

/// Counts the references when the metrics are scraped.
struct ForeignOwnersCollector {
    kinds: ForeignOwners,
    references: IntGaugeVec,
}

impl Collector for ForeignOwnersCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.references.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        for (kind, references) in self.kinds.count() {
            self.references.with_label_values(&[&kind]).set(i64::try_from(references).unwrap_or(i64::MAX));
        }
        self.references.collect()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{
        apps::v1::ReplicaSet,
        core::v1::{Node, Pod},
    };
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

    use super::*;
    use crate::caches::Cache;

    fn metadata(namespace: Option<&str>, name: &str, owner_uid: Option<&str>) -> ObjectMeta {
        let owner = |uid: &str| OwnerReference { uid: uid.into(), controller: Some(true), ..OwnerReference::default() };
        ObjectMeta {
            namespace: namespace.map(Into::into),
            name: Some(name.into()),
            uid: Some(format!("uid-of-{name}")),
            owner_references: owner_uid.map(|uid| vec![owner(uid)]),
            ..ObjectMeta::default()
        }
    }

    fn pod(namespace: &str, name: &str, owner_uid: Option<&str>) -> Pod {
        Pod { metadata: metadata(Some(namespace), name, owner_uid), ..Pod::default() }
    }

    #[test]
    fn only_owners_in_other_namespaces_are_foreign() {
        let owners = Cache::from_objects([ReplicaSet {
            metadata: metadata(Some("victim"), "owner", None),
            ..ReplicaSet::default()
        }]);
        let nodes = Cache::from_objects([Node { metadata: metadata(None, "node", None), ..Node::default() }]);
        let pods = Cache::from_objects(vec![
            pod("victim", "child", Some("uid-of-owner")),
            pod("attacker", "a", Some("uid-of-owner")),
            pod("attacker", "b", Some("uid-of-owner")),
            pod("another", "c", Some("uid-of-owner")),
            pod("attacker", "of-node", Some("uid-of-node")),
            pod("attacker", "of-unknown", Some("uid-of-unknown")),
            pod("attacker", "orphan", None),
        ]);
        let registry = Registry::new();
        let foreign = ForeignOwners::register(&registry).unwrap();
        foreign.add("ReplicaSet", owners);
        foreign.add("Node", nodes);
        foreign.add("Pod", pods);
        let mut text = String::new();
        prometheus::TextEncoder::new().encode_utf8(&registry.gather(), &mut text).unwrap();
        for (kind, count) in [("ReplicaSet", 0), ("Node", 0), ("Pod", 3)] {
            let line = format!(r#"grove_foreign_owner_references{{kind="{kind}"}} {count}"#);
            assert!(text.contains(&line), "{text}");
        }
    }
}
