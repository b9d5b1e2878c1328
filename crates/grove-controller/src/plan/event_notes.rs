//! The form of the notes of an event about a stage.

/// How an event about a stage describes the steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventNotes {
    /// All steps: `<verb> <Kind>s: a, b`, and `create <Kind> a: <error>`.
    #[default]
    ByVerb,
    /// Only creates are a success: `<Kind>s a, b created`, and `Failed to create <Kind> for replica 2: <error>`.
    OfCreates {
        /// The label of a created object that has the index of its replica.
        replica_label: &'static str,
    },
}
