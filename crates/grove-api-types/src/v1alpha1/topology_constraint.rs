//! How close together in the cluster's topology the pods of a set, a scaling group or a clique are to be.

#![allow(unreachable_pub, reason = "the KubeSchema derive repeats a public type inside a function")]

use kube::KubeSchema;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Packs pods into one domain of a topology: one rack, one block.
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
    /// The topology. A scaling group takes it from the set, a clique from its scaling group or the set; all names within
    /// a set must agree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_name: Option<String>,
    /// The domains to pack into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pack: Option<TopologyPackConstraint>,
    /// The same as `pack.required`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "domain")]
    pub pack_domain: Option<String>,
}

/// The domains to pack into, by the names that the topology gives its levels.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.required) || has(self.preferred)")
    .message("pack must specify at least one of required or preferred")
    .reason(Reason::FieldValueRequired))]
pub struct TopologyPackConstraint {
    /// The domain that all pods must share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "domain")]
    pub required: Option<String>,
    /// The domain that the pods share if there is room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "domain")]
    pub preferred: Option<String>,
}

impl TopologyConstraint {
    /// The domain that must be shared, whichever way it is written.
    pub fn required(&self) -> Option<&str> {
        let written = self.pack.as_ref().and_then(|pack| pack.required.as_deref());
        written.or(self.pack_domain.as_deref()).filter(|domain| !domain.is_empty())
    }

    /// The domain that is shared if there is room.
    pub fn preferred(&self) -> Option<&str> {
        self.pack.as_ref().and_then(|pack| pack.preferred.as_deref()).filter(|domain| !domain.is_empty())
    }
}

/// The name of a level of a topology. Which names exist, the topology says.
fn domain(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "minLength": 1, "maxLength": 63, "pattern": "^[a-z][a-z0-9-]*$" })
}
