//! What is known about a gang and its cliques: plain data, and questions about it.

use grove_api_types::deletion::is_terminating;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::PodClique;

use crate::children::ByName;

/// A gang and the cliques whose pods it is made of, as the caches have them.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The gang.
    pub(crate) gang: PodGang,
    /// The cliques that its groups name.
    pub(crate) cliques: ByName<PodClique>,
    /// Whether the set that it was made for is there, and stays.
    pub(crate) has_set: bool,
}

impl Observed {
    /// Whether the gang is being deleted, or will be: what it then loses is not worth a word.
    pub(crate) fn is_leaving(&self) -> bool {
        is_terminating(&self.gang) || !self.has_set
    }
}
