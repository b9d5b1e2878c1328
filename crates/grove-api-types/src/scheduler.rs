//! The scheduling backends: a closed set.

/// A scheduler that Grove prepares pods for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduler {
    /// Kubernetes' own.
    #[default]
    Kube,
}

impl Scheduler {
    /// The name as pods carry it in `schedulerName`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kube => "default-scheduler",
        }
    }
}
