//! The `PodClique` of one clique in one replica of a scaling group.

use grove_api_types::environment::{self, PCSG_INDEX, PCSG_NAME, PCSG_TEMPLATE_NUM_PODS};
use grove_api_types::expansion::{Clique, GroupReplica, ScalingGroup};
use grove_api_types::labels::{self, Component};
use grove_api_types::names::PodCliqueSetName;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::children::{Revision, desired};

/// The position of a clique in its set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CliqueContext<'r, 'a> {
    /// The set.
    pub(crate) set: &'r PodCliqueSet,
    /// The index of the set's replica.
    pub(crate) set_replica: i32,
    /// The group in that replica.
    pub(crate) group: &'r ScalingGroup<'a>,
    /// The replica of the group.
    pub(crate) member: &'r GroupReplica<'a>,
}

/// The desired clique, controlled by `owner`.
pub(crate) fn pod_clique(
    owner: &PodCliqueScalingGroup,
    revision: &Revision,
    context: CliqueContext<'_, '_>,
    clique: &Clique<'_>,
) -> PodClique {
    let CliqueContext { set, set_replica, group, member } = context;
    let (set_replica, index) = (set_replica.to_string(), member.index.to_string());
    let own = [
        (labels::SET_REPLICA, set_replica.as_str()),
        (labels::SCALING_GROUP, group.name.as_str()),
        (labels::SCALING_GROUP_REPLICA, index.as_str()),
        (labels::POD_GANG, member.gang.as_str()),
    ];
    let own = own.into_iter().chain(member.base_gang.iter().map(|base| (labels::BASE_POD_GANG, base.as_str())));
    let own = desired::labels(&PodCliqueSetName::new(set.name_any()), Component::GroupPodClique, own);
    let mut pod_clique = desired::pod_clique(owner, clique, revision, own);
    environment::prepend(pod_clique.spec.pod_spec.fields_mut(), &variables(group));
    pod_clique
}

/// The environment variables of every container of the group. Two of them read the labels of the pod.
fn variables(group: &ScalingGroup<'_>) -> [Value; 3] {
    let label = |name: &str, key: &str| {
        let path = format!("metadata.labels['{key}']");
        json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } })
    };
    [
        label(PCSG_NAME, labels::SCALING_GROUP),
        json!({ "name": PCSG_TEMPLATE_NUM_PODS, "value": group.template_pods.to_string() }),
        label(PCSG_INDEX, labels::SCALING_GROUP_REPLICA),
    ]
}
