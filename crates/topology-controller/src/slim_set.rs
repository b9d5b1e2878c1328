//! `PodCliqueSet`s with only the topology that they refer to: the templates of pods may be large.

use std::borrow::Cow;
use std::collections::BTreeSet;

use grove_api_types::topology::{resolve_topology_name, used_domains};
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_runtime::caches::Index;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use serde::{Deserialize, Deserializer};

/// The sets that refer to a topology, by its name. Those that refer to the configured default have the empty name.
pub(crate) const SETS_BY_TOPOLOGY: Index<SlimSet> = Index { name: "topology", values: topology_of_set };

fn topology_of_set(set: &SlimSet) -> Vec<Cow<'_, str>> {
    set.topology.as_deref().map(Cow::Borrowed).into_iter().collect()
}

/// A set in a cache.
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(inherit = PodCliqueSet)]
pub(crate) struct SlimSet {
    /// The metadata without labels and annotations.
    pub(crate) metadata: ObjectMeta,
    /// The name of the topology that the set refers to; empty for the configured default, `None` without constraints.
    pub(crate) topology: Option<String>,
    /// The domains that its constraints name.
    pub(crate) domains: BTreeSet<String>,
}

impl SlimSet {
    /// Namespace and name.
    pub(crate) fn key(&self) -> String {
        set_key(&self.namespace().unwrap_or_default(), &self.name_any())
    }

    /// Whether the set refers to the topology `name`. `default` is the name of the configured default.
    pub(crate) fn refers_to(&self, name: &str, default: &str) -> bool {
        self.topology.as_deref().map(|topology| if topology.is_empty() { default } else { topology }) == Some(name)
    }
}

/// Namespace and name of a set; neither contains a slash.
pub(crate) fn set_key(namespace: &str, name: &str) -> String {
    [namespace, name].join("/")
}

impl<'de> Deserialize<'de> for SlimSet {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let set = PodCliqueSet::deserialize(from)?;
        let topology = resolve_topology_name(&set, "").map(str::to_owned);
        let domains = used_domains(&set.spec.template).into_iter().map(str::to_owned).collect();
        let metadata = ObjectMeta { labels: None, annotations: None, managed_fields: None, ..set.metadata };
        Ok(Self { metadata, topology, domains })
    }
}
