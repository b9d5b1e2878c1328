//! The labels of the pods that autoscalers count: one for each replica of the set or of a scaling group. pcs-controller writes the
//! annotations of the clique.

use grove_api_types::labels;
use grove_api_types::v1alpha1::PodClique;
use kube::ResourceExt;

/// Which pods of a clique represent a replica.
#[derive(Debug)]
pub(crate) struct FirstPods {
    /// Whether the pod 0 represents the replica of the set.
    of_set: bool,
    /// The index of the pod 0 within the replica of the scaling group; `None` outside of groups.
    in_group: Option<i32>,
}

impl FirstPods {
    pub(crate) fn of(clique: &PodClique) -> Self {
        let annotation = |key: &str| clique.annotations().get(key);
        Self {
            of_set: annotation(labels::FIRST_SET_POD).is_some_and(|value| value == labels::IS_FIRST_SET_POD),
            in_group: annotation(labels::FIRST_GROUP_POD_INDEX).and_then(|index| index.parse().ok()),
        }
    }

    /// The labels of the pod with this index.
    pub(crate) fn labels(&self, index: i32) -> Vec<(String, String)> {
        let of_set = (self.of_set && index == 0).then(|| (labels::FIRST_SET_POD, labels::IS_FIRST_SET_POD.to_owned()));
        let in_group = self.in_group.and_then(|first| first.checked_add(index));
        let in_group = in_group.map(|index| (labels::GROUP_POD_INDEX, index.to_string()));
        of_set.into_iter().chain(in_group).map(|(key, value)| (key.to_owned(), value)).collect()
    }
}
