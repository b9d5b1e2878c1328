//! The events about a stage: which steps they report, and the form of their notes.

use std::borrow::Cow;

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

/// The event about a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageEvent {
    /// The kind of the steps that the event is about; `None` for all kinds.
    pub kind: Option<Cow<'static, str>>,
    /// The reason of the event about success; `None` if success publishes no event.
    pub success: Option<&'static str>,
    /// The reason of the warning about a failed step.
    pub failure: &'static str,
    /// The first word of the note, in the past tense: `Created`.
    pub verb: &'static str,
    /// The form of the notes.
    pub notes: EventNotes,
}
