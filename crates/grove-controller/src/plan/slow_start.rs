//! Slow start (client-go's `slowStartBatch`): creates are sent in growing batches until the API server rejects one.

/// The first batch of an owner without rejected creates. Most cliques fit into it, so their pods are created in one batch.
const FIRST_BATCH: usize = 8;

/// The size of the first batch of creates. Each further batch is twice as large, until a batch reaches the limit of writes in
/// flight. The executor sends no further create of the stage after a rejection that concerns the others, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowStart {
    /// The number of creates in the first batch.
    pub first_batch: usize,
    /// The position of the create that is sent if the API server rejects the first create. If the API server rejects this one, too,
    /// it most likely rejects all of them. Otherwise its reason concerned only the first object.
    pub alternate: Option<usize>,
    /// Whether a rejection for any reason concerns all creates. Otherwise only that of a quota does. A name conflict never does.
    pub objects_are_alike: bool,
}

impl SlowStart {
    /// For creates of alike objects of which the API server rejected none.
    pub const INITIAL: Self = Self { first_batch: FIRST_BATCH, alternate: None, objects_are_alike: true };

    /// For the retry of `creates` creates of alike objects after a rejection: it starts with one create. `retries` is the number of
    /// earlier retries; each retry has another alternate.
    pub fn for_retry(retries: usize, creates: usize) -> Self {
        let others = creates.saturating_sub(1);
        let alternate = retries.checked_rem(others).map(|position| position + 1);
        Self { first_batch: 1, alternate, objects_are_alike: true }
    }

    /// For the retry of creates of different objects after a quota rejected one.
    pub fn for_retry_after_quota(retries: usize, creates: usize) -> Self {
        Self { objects_are_alike: false, ..Self::for_retry(retries, creates) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_retry_has_another_alternate() {
        let alternates = |creates: usize| [0, 1, 2, 3].map(|retries| SlowStart::for_retry(retries, creates).alternate);
        assert_eq!(alternates(4), [Some(1), Some(2), Some(3), Some(1)]);
        assert_eq!(alternates(2), [Some(1); 4]);
        assert_eq!([alternates(1), alternates(0)], [[None; 4]; 2]);
    }
}
