//! Claims of removed pod indices: a scale-in ends their use. If the clique is scaled out before such a claim is deleted, the pod of the
//! index waits for a new claim. Without this memory, a claim that its terminating pod still uses could not be distinguished from the
//! claim of a pod that is replaced. If the memory is lost by a restart, at most the pods of a scale-out within the same moment use
//! an earlier claim.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;

/// The names of the retired claims of each clique, by the UID of the clique.
///
/// An entry ends when the cache shows that the claim is terminating or deleted, at the latest with the clique.
#[derive(Debug, Default)]
pub(crate) struct RetiredClaims(Mutex<BTreeMap<String, BTreeSet<String>>>);

impl RetiredClaims {
    /// Adds the claims of removed indices, and returns all retired claims. `active` are the names of the claims of the clique that exist,
    /// or that were created, and are not terminating, each with whether its index is removed.
    pub(crate) fn observe<'a>(
        &self,
        clique_uid: &str,
        active: impl Iterator<Item = (&'a str, bool)>,
    ) -> BTreeSet<String> {
        let mut by_clique = self.0.lock();
        let earlier = by_clique.get(clique_uid);
        let is_retired =
            |name: &str, is_removed: bool| is_removed || earlier.is_some_and(|claims| claims.contains(name));
        let retired: BTreeSet<String> = active
            .filter(|(name, is_removed)| is_retired(name, *is_removed))
            .map(|(name, _)| name.to_owned())
            .collect();
        if retired.is_empty() {
            by_clique.remove(clique_uid);
        } else {
            by_clique.insert(clique_uid.to_owned(), retired.clone());
        }
        retired
    }

    /// The number of retired claims.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().values().map(BTreeSet::len).sum()
    }

    /// Drops the claims of a deleted clique.
    pub(crate) fn forget(&self, clique_uid: &str) {
        self.0.lock().remove(clique_uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retired(claims: &RetiredClaims, active: &[(&str, bool)]) -> Vec<String> {
        claims.observe("clique", active.iter().copied()).into_iter().collect()
    }

    #[test]
    fn a_claim_stays_retired_until_it_is_terminating_or_deleted() {
        let claims = RetiredClaims::default();
        assert_eq!(retired(&claims, &[("a", false), ("b", true)]), ["b"]);
        assert_eq!(retired(&claims, &[("a", false), ("b", false)]), ["b"], "the clique was scaled out");
        assert_eq!(claims.len(), 1);
        assert!(retired(&claims, &[("a", false)]).is_empty());
        assert_eq!(claims.len(), 0);
        assert!(retired(&claims, &[("a", false), ("b", false)]).is_empty());
    }

    #[test]
    fn the_claims_of_a_deleted_clique_are_dropped() {
        let claims = RetiredClaims::default();
        retired(&claims, &[("a", true)]);
        claims.forget("other");
        assert_eq!(claims.len(), 1);
        claims.forget("clique");
        assert_eq!(claims.len(), 0);
    }
}
