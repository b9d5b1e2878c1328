//! Events about the reconciled object itself. The events about its children belong to the stages of the plan.

/// An event of type `Warning` about the reconciled object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarningEvent {
    /// The reason of the event.
    pub reason: &'static str,
    /// The note of the event.
    pub note: String,
}

/// An event of type `Normal` about the reconciled object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NormalEvent {
    /// The reason of the event.
    pub reason: &'static str,
    /// The note of the event.
    pub note: String,
}
