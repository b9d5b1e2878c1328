//! The limits of the size of a set. A set above a limit was stored without validation or was scaled; it is not expanded.

use super::{CurrentScale, dependency_count, object_count};
use crate::v1alpha1::PodCliqueSet;

/// A limit of the size of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeLimit {
    /// The number of objects: [`object_count::MAX_OBJECTS`].
    Objects,
    /// The number of startup dependencies: [`dependency_count::MAX_DEPENDENCIES`] and
    /// [`dependency_count::MAX_DEPENDENCIES_OF_CLIQUE`].
    StartupDependencies,
}

impl SizeLimit {
    /// A cheap upper bound of [`SizeLimit::exceeded`]: whether the set would exceed a limit if all its cliques and groups were as large as
    /// the largest existing ones. For most sets this is false, and no exact count is needed.
    pub fn may_be_exceeded(set: &PodCliqueSet, largest_clique: i32, largest_group: i32) -> bool {
        object_count::may_be_too_large(set, largest_clique, largest_group)
            || dependency_count::may_be_too_large(set, largest_group)
    }

    /// The limit that the set exceeds with the current scale of its cliques and groups.
    pub fn exceeded(set: &PodCliqueSet, live: &CurrentScale) -> Option<Self> {
        if object_count::is_too_large(set, live) {
            return Some(Self::Objects);
        }
        dependency_count::is_too_large(set, live).then_some(Self::StartupDependencies)
    }

    /// The limit that one replica of the set exceeds.
    pub fn exceeded_by_replica(set: &PodCliqueSet, replica: i32, live: &CurrentScale) -> Option<Self> {
        if object_count::is_replica_too_large(set, replica, live) {
            return Some(Self::Objects);
        }
        let dependencies = dependency_count::of_current_replica(set, replica, live);
        dependencies.is_too_large().then_some(Self::StartupDependencies)
    }
}
