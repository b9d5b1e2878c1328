//! The snapshot of a gang and its cliques: plain data and pure queries.

use grove_api_types::deletion::is_terminating;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::PodClique;
use grove_controller::children::ByName;

/// A gang and the cliques whose pods belong to it, as in the caches.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    /// The gang.
    pub(crate) gang: PodGang,
    /// The cliques that its pod groups name.
    pub(crate) cliques: ByName<PodClique>,
    /// Whether its set exists and is not terminating.
    pub(crate) has_active_set: bool,
}

impl Observed {
    /// Whether an update replaces pods of the gang.
    pub(crate) fn is_updating(&self) -> bool {
        self.gang
            .spec
            .podgroups
            .iter()
            .filter_map(|group| self.cliques.get(&group.name))
            .any(|clique| clique.is_updating())
    }

    /// Whether the gang has a deletion timestamp, or its set will delete it. The status of such a gang is not written.
    pub(crate) fn is_terminating(&self) -> bool {
        is_terminating(&self.gang) || !self.has_active_set
    }
}
