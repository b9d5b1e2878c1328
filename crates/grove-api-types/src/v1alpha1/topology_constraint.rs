//! Topology constraints of sets, scaling groups and cliques.

#![allow(unreachable_pub, reason = "the KubeSchema derive repeats a public type inside a function")]

use kube::KubeSchema;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Packs pods into one domain of a topology, for example into one rack.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.pack) || has(self.packDomain)")
    .message("topologyConstraint must specify pack or packDomain")
    .field_path(".pack")
    .reason(Reason::FieldValueRequired))]
#[x_kube(validation = Rule::new("!has(self.packDomain) || !has(self.pack) || !has(self.pack.required) || self.pack.required == self.packDomain")
    .message("packDomain and pack.required mean the same and must not differ; set one of them")
    .field_path(".pack.required"))]
pub struct TopologyConstraint {
    /// The name of the topology. A scaling group inherits it from the set, a clique from its scaling group or from the set. All
    /// names in a set must be equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_name: Option<String>,
    /// The required and the preferred domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pack: Option<TopologyPackConstraint>,
    /// The level of the topology by which each replica is packed independently. For example, `rack` means that the pods of a replica are
    /// in one rack, and different replicas may be in different racks. It does not pack all replicas into one rack together. A replica
    /// is one of the set, of the scaling group, or a `PodClique`, where the constraint is written. In a set, the replicas of a scaling group
    /// beyond its `minAvailable` are packed each on its own. Means the same as `pack.required`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "domain")]
    pub pack_domain: Option<String>,
}

/// The required and the preferred domain, by the names of the levels of the topology.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.required) || has(self.preferred)")
    .message("pack must specify at least one of required or preferred")
    .reason(Reason::FieldValueRequired))]
pub struct TopologyPackConstraint {
    /// All pods of a replica must be in one domain of this level; different replicas may be in different domains. In a set, the replicas of
    /// a scaling group beyond its `minAvailable` are packed each on its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "domain")]
    pub required: Option<String>,
    /// The scheduler places all pods of a replica in one domain of this level if it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "domain")]
    pub preferred: Option<String>,
}

impl TopologyConstraint {
    /// The required domain, from `pack.required` or from `packDomain`.
    pub fn required(&self) -> Option<&str> {
        let required = self.pack.as_ref().and_then(|pack| pack.required.as_deref());
        required.or(self.pack_domain.as_deref()).filter(|domain| !domain.is_empty())
    }

    /// The preferred domain.
    pub fn preferred(&self) -> Option<&str> {
        self.pack.as_ref().and_then(|pack| pack.preferred.as_deref()).filter(|domain| !domain.is_empty())
    }
}

/// The name of a level of a topology. The topology defines the names.
fn domain(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "minLength": 1, "maxLength": 63, "pattern": "^[a-z][a-z0-9-]*$" })
}
