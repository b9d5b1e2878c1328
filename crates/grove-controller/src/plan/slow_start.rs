//! Slow start (client-go's `slowStartBatch`): alike creates are sent in growing batches, and the first rejection ends the stage.

/// The first batch of an owner without rejected creates. Most cliques fit into it, so their pods are created in one batch.
const FIRST_BATCH: usize = 8;

/// The size of the first batch of creates. Each further batch is twice as large, until a batch reaches the limit of writes in
/// flight. The executor sends no further create of the stage after the API server rejected one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowStart {
    /// The number of creates in the first batch.
    pub first_batch: usize,
    /// The position of the create that is sent if the API server rejects the first create. If the API server rejects this one, too,
    /// it most likely rejects all of them. Otherwise its reason concerned only the first object.
    pub alternate: Option<usize>,
}

impl SlowStart {
    /// For creates of which the API server rejected none.
    pub const INITIAL: Self = Self { first_batch: FIRST_BATCH, alternate: None };

    /// For the retry of `creates` creates after a rejection: it starts with one create. `retries` is the number of earlier retries;
    /// each retry has another alternate.
    pub fn for_retry(retries: usize, creates: usize) -> Self {
        let others = creates.saturating_sub(1);
        Self { first_batch: 1, alternate: retries.checked_rem(others).map(|position| position + 1) }
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
