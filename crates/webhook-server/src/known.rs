//! Objects as the caches hold them here: reduced to what the rules ask about the cluster.

use std::borrow::Cow;
use std::collections::BTreeMap;

use grove_api_types::labels::{MNNVL_GROUP, PART_OF, PROTECTION_DISABLED, TOPOLOGY_NAME};
use grove_api_types::pod_spec::RawPodSpec;
use grove_api_types::v1alpha1::{
    ClusterTopology, ClusterTopologyBinding, PodClique, PodCliqueScalingGroup, PodCliqueSet, PodCliqueStatus,
};
use kube::Resource;
use kube::core::ObjectMeta;
use serde::{Deserialize, Deserializer};
use serde_json::Map;

/// An object of which only what matters here was kept. Never send it back.
#[derive(Clone, Debug)]
pub(crate) struct Known<K>(pub(crate) K);

/// Drops what does not matter here.
pub(crate) trait Reduce {
    fn reduce(&mut self);
}

impl<'de, K: Deserialize<'de> + Reduce> Deserialize<'de> for Known<K> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut object = K::deserialize(from)?;
        object.reduce();
        Ok(Self(object))
    }
}

impl<K: Resource> Resource for Known<K> {
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

/// Of labels and annotations, only these.
fn keep_only(metadata: &mut ObjectMeta, keys: &[&str]) {
    let keep = |map: &mut Option<BTreeMap<String, String>>| {
        if let Some(map) = map {
            map.retain(|key, _| keys.contains(&key.as_str()));
        }
    };
    keep(&mut metadata.labels);
    keep(&mut metadata.annotations);
    metadata.managed_fields = None;
}

impl Reduce for PodCliqueSet {
    // What a scale is judged by stays; mistakes in pod specs are no concern of a scale, and count the same before and after.
    fn reduce(&mut self) {
        keep_only(&mut self.metadata, &[PROTECTION_DISABLED, TOPOLOGY_NAME, MNNVL_GROUP]);
        self.status = None;
        for clique in &mut self.spec.template.cliques {
            clique.spec.pod_spec = RawPodSpec::from(Map::new());
        }
    }
}

impl Reduce for PodClique {
    fn reduce(&mut self) {
        keep_only(&mut self.metadata, &[PART_OF]);
        self.spec.pod_spec = RawPodSpec::from(Map::new());
        let scheduled = self.status.take().map(|status| status.scheduled_replicas);
        self.status =
            scheduled.map(|scheduled| PodCliqueStatus { scheduled_replicas: scheduled, ..PodCliqueStatus::default() });
    }
}

impl Reduce for PodCliqueScalingGroup {
    fn reduce(&mut self) {
        keep_only(&mut self.metadata, &[PART_OF]);
        self.status = None;
    }
}

impl Reduce for ClusterTopology {
    fn reduce(&mut self) {
        keep_only(&mut self.metadata, &[]);
        self.status = None;
    }
}

impl Reduce for ClusterTopologyBinding {
    fn reduce(&mut self) {
        keep_only(&mut self.metadata, &[]);
        self.status = None;
    }
}

/// A queue of Volcano: the part of `scheduling.volcano.sh/v1beta1` that is read.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Queue {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    status: QueueStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct QueueStatus {
    #[serde(default)]
    state: String,
}

impl Queue {
    /// Whether it takes work. One of which Volcano has said nothing yet does.
    pub(crate) fn is_open(&self) -> bool {
        ["", "Open"].contains(&self.status.state.as_str())
    }
}

impl Resource for Queue {
    type DynamicType = ();
    type Scope = kube::core::ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Queue".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "scheduling.volcano.sh".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1beta1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "queues".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
