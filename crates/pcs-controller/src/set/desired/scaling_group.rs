//! The `PodCliqueScalingGroup` of one group in one replica.

use grove_api_types::expansion::ScalingGroup;
use grove_api_types::labels::{self, Component};
use grove_api_types::names::PodCliqueSetName;
use grove_api_types::v1alpha1::{PodCliqueScalingGroup, PodCliqueScalingGroupSpec, PodCliqueSet};
use kube::ResourceExt;

use crate::children::desired;

/// The desired group. `spec.replicas` applies only to its creation.
pub(crate) fn scaling_group(set: &PodCliqueSet, set_replica: i32, group: &ScalingGroup<'_>) -> PodCliqueScalingGroup {
    let (name, index) = (group.name.as_str(), set_replica.to_string());
    let own = [(labels::NAME, name), (labels::SET_REPLICA, index.as_str())];
    let labels = desired::labels(&PodCliqueSetName::new(set.name_any()), Component::ScalingGroup, own);
    let mut annotations = group.config.annotations.clone();
    if let Some(mnnvl) = set.annotations().get(labels::MNNVL_GROUP) {
        annotations.entry(labels::MNNVL_GROUP.to_owned()).or_insert_with(|| mnnvl.clone());
    }
    let mut metadata = desired::metadata(set, name, labels);
    metadata.annotations = (!annotations.is_empty()).then_some(annotations);
    let spec = PodCliqueScalingGroupSpec {
        replicas: group.config.replicas(),
        min_available: Some(group.config.min_available()),
        clique_names: group.config.clique_names.clone(),
    };
    PodCliqueScalingGroup { metadata, spec, status: None }
}
