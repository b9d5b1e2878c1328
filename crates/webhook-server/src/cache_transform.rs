//! Cache transforms: the caches keep only the fields that the rules read.

use std::borrow::Cow;
use std::collections::BTreeMap;

use grove_api_types::labels::{MNNVL_GROUP, PART_OF, POD_GANG, PROTECTION_DISABLED, TOPOLOGY_NAME};
use grove_api_types::pod_spec::RawPodSpec;
use grove_api_types::v1alpha1::{
    ClusterTopology, ClusterTopologyBinding, PodClique, PodCliqueScalingGroup, PodCliqueSet, PodCliqueStatus,
};
use kube::Resource;
use kube::core::ObjectMeta;
use serde::{Deserialize, Deserializer};
use serde_json::Map;

/// An object after its [`Transform`]. It is incomplete, so it must not be written to the API server.
#[derive(Clone, Debug)]
pub(crate) struct TransformedObject<K>(pub(crate) K);

/// Drops the fields that no rule reads before an object enters the cache (controller-runtime: cache option
/// `Transform`).
pub(crate) trait Transform {
    fn transform(&mut self);
}

impl<'de, K: Deserialize<'de> + Transform> Deserialize<'de> for TransformedObject<K> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut object = K::deserialize(from)?;
        object.transform();
        Ok(Self(object))
    }
}

impl<K: Resource> Resource for TransformedObject<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(dt)
    }

    fn group(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::group(dt)
    }

    fn version(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::version(dt)
    }

    fn plural(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(dt)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}

/// Drops all labels and annotations except `keys`, and the managed fields.
fn retain_keys(metadata: &mut ObjectMeta, keys: &[&str]) {
    let retain = |map: &mut Option<BTreeMap<String, String>>| {
        if let Some(map) = map {
            map.retain(|key, _| keys.contains(&key.as_str()));
        }
    };
    retain(&mut metadata.labels);
    retain(&mut metadata.annotations);
    metadata.managed_fields = None;
}

impl Transform for PodCliqueSet {
    // The validation of a scale needs no pod specs: their errors are the same before and after the change.
    fn transform(&mut self) {
        retain_keys(&mut self.metadata, &[PROTECTION_DISABLED, TOPOLOGY_NAME, MNNVL_GROUP]);
        self.status = None;
        for clique in &mut self.spec.template.cliques {
            clique.spec.pod_spec = RawPodSpec::from(Map::new());
        }
    }
}

impl Transform for PodClique {
    fn transform(&mut self) {
        retain_keys(&mut self.metadata, &[PART_OF, POD_GANG]);
        self.spec.pod_spec = RawPodSpec::from(Map::new());
        let scheduled = self.status.take().map(|status| status.scheduled_replicas);
        self.status =
            scheduled.map(|scheduled| PodCliqueStatus { scheduled_replicas: scheduled, ..PodCliqueStatus::default() });
    }
}

impl Transform for PodCliqueScalingGroup {
    fn transform(&mut self) {
        retain_keys(&mut self.metadata, &[PART_OF]);
        self.status = None;
    }
}

impl Transform for ClusterTopology {
    fn transform(&mut self) {
        retain_keys(&mut self.metadata, &[]);
        self.status = None;
    }
}

impl Transform for ClusterTopologyBinding {
    fn transform(&mut self) {
        retain_keys(&mut self.metadata, &[]);
        self.status = None;
    }
}

#[cfg(test)]
mod tests;
