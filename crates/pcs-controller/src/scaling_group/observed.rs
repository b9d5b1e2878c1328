//! What is known about a scaling group, its set and its cliques: plain data, and questions about it.

use std::collections::{BTreeMap, BTreeSet};

use grove_api_types::deletion::is_terminating;
use grove_api_types::expansion::{self, CurrentScale, ScalingGroup, SetReplica, object_count};
use grove_api_types::labels;
use grove_api_types::names::{PodCliqueScalingGroupName, PodCliqueSetName};
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_runtime::namesake::{Claims, Namesake};
use grove_runtime::refusals::Standing;
use kube::ResourceExt;

use crate::children::ByName;

/// A group, the set it was made for, and the cliques it controls, as the caches have them.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The group.
    pub(crate) group: PodCliqueScalingGroup,
    /// The set that controls it, with our defaults applied; absent when it is gone.
    pub(crate) set: Option<PodCliqueSet>,
    /// How large the group is, and the other groups of the same replica of the set.
    pub(crate) live: CurrentScale,
    /// The cliques of all its replicas.
    pub(crate) cliques: ByName<PodClique>,
    /// The names of the gangs of the set that stand.
    pub(crate) gangs: BTreeSet<String>,
    /// Objects that have the name of a clique and that it does not control.
    pub(crate) taken: Vec<Namesake>,
    /// Cliques that were refused and are not asked for now.
    pub(crate) refused: Standing,
}

impl Observed {
    /// Whether the group is being deleted.
    pub(crate) fn is_leaving(&self) -> bool {
        is_terminating(&self.group)
    }

    /// The name of the group.
    pub(crate) fn name(&self) -> PodCliqueScalingGroupName {
        PodCliqueScalingGroupName::new(self.group.name_any())
    }

    /// What it makes of the names that others have. `ours` are the labels that every clique has.
    pub(crate) fn claims<'a>(&'a self, ours: &'a BTreeMap<String, String>) -> Claims<'a, PodCliqueScalingGroup> {
        Claims { owner: &self.group, taken: &self.taken, labels: ours }
    }

    /// The labels that every clique has.
    pub(crate) fn base_labels(&self) -> BTreeMap<String, String> {
        let set = self.group.labels().get(labels::PART_OF).cloned().unwrap_or_default();
        labels::base(&PodCliqueSetName::new(set))
    }

    /// Whether its replica of the set is not expanded, because no memory would hold what that implies.
    pub(crate) fn is_too_large(&self) -> bool {
        let place = self.set.as_ref().zip(set_replica(&self.group));
        place.is_some_and(|(set, index)| object_count::is_replica_too_large(set, index, &self.live))
    }

    /// What `set` wants of the replica that the group belongs to; absent when that replica or the group is not wanted.
    pub(crate) fn wanted<'a>(&self, set: &'a PodCliqueSet) -> Option<SetReplica<'a>> {
        let index = set_replica(&self.group).filter(|index| (0..set.spec.replicas).contains(index))?;
        if self.is_too_large() {
            return None;
        }
        let replica = expansion::replica(set, index, &self.live);
        self.of_group(&replica).is_some().then_some(replica)
    }

    /// The group as `replica` has it.
    pub(crate) fn of_group<'r, 'a>(&self, replica: &'r SetReplica<'a>) -> Option<&'r ScalingGroup<'a>> {
        let name = self.name();
        replica.groups.iter().find(|group| group.name == name)
    }
}

/// The replica of the set that `group` belongs to, if its label says so.
pub(crate) fn set_replica(group: &PodCliqueScalingGroup) -> Option<i32> {
    group.labels().get(labels::SET_REPLICA)?.parse().ok()
}
