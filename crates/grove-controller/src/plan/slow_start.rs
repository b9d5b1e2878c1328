//! Slow start (client-go's `slowStartBatch`): creates are sent in growing batches until the API server rejects one.

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
    /// For creates of alike objects of which the API server rejected none. Most cliques fit into the first batch, so their pods are created at
    /// once.
    pub const INITIAL: Self = Self { first_batch: 8, alternate: None, objects_are_alike: true };
    /// For the retry of creates of alike objects after a rejection.
    pub const RETRY: Self = Self { first_batch: 1, alternate: None, objects_are_alike: true };
    /// For the retry of creates of different objects after a quota rejected one.
    pub const RETRY_AFTER_QUOTA: Self = Self { first_batch: 1, alternate: None, objects_are_alike: false };
}
