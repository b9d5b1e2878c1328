//! `PodCliqueSet`s with only the topology that they refer to: the templates of pods may be large.

use std::borrow::Cow;
use std::collections::BTreeSet;

use grove_api_types::topology::{resolve_topology_name, used_domains};
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_runtime::caches::{Index, IndexScope};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use serde::{Deserialize, Deserializer};

/// The sets that refer to a topology, by its name. Those that refer to the configured default have the empty name.
pub(crate) const SETS_BY_TOPOLOGY: Index<SlimSet> =
    Index { name: "topology", values: topology_of_set, scope: IndexScope::Cluster };

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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The topology that a set with this label, name and constraint of a clique refers to, if the default is `default`.
    fn topology(label: Option<&str>, name: Option<&str>, constraint: &Value) -> Option<String> {
        let labels = label.map(|label| json!({ "grove.io/topology-name": label }));
        let clique = json!({ "name": "a", "topologyConstraint": constraint,
            "spec": { "podSpec": { "containers": [{ "name": "c" }] } } });
        let template = json!({ "clusterTopologyName": name, "cliques": [clique] });
        let set = json!({ "metadata": { "name": "s", "namespace": "prod", "labels": labels },
            "spec": { "template": template } });
        let set: SlimSet = serde_json::from_value(set).expect("a set");
        let names = ["named", "labelled", "default"];
        let mut referred = names.into_iter().filter(|name| set.refers_to(name, "default"));
        let first = referred.next().map(str::to_owned);
        assert_eq!(referred.next(), None, "a set refers to one topology");
        first
    }

    #[test]
    fn a_set_refers_to_the_topology_of_its_spec_or_of_its_label_or_to_the_default() {
        let rack = json!({ "packDomain": "rack" });
        for (label, name, constraint, expected) in [
            (Some("labelled"), Some("named"), &rack, Some("named")),
            (Some("labelled"), None, &rack, Some("labelled")),
            (None, Some("named"), &rack, Some("named")),
            (None, None, &rack, Some("default")),
            (Some(""), None, &rack, Some("default")),
            (Some(""), Some("named"), &rack, Some("named")),
            (Some("labelled"), Some("named"), &Value::Null, None),
        ] {
            assert_eq!(topology(label, name, constraint).as_deref(), expected, "{label:?} {name:?} {constraint}");
        }
    }
}
