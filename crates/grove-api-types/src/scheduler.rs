//! The scheduling backends: a closed set.

/// A scheduler that pods can be given to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheduler {
    /// Kubernetes' own.
    #[default]
    Kube,
    /// KAI.
    Kai,
    /// Volcano.
    Volcano,
    /// LPX.
    Lpx,
}

impl Scheduler {
    /// All of them, by name.
    pub const ALL: [(&str, Self); 4] = [
        (Self::Kube.name(), Self::Kube),
        (Self::Kai.name(), Self::Kai),
        (Self::Volcano.name(), Self::Volcano),
        (Self::Lpx.name(), Self::Lpx),
    ];

    /// The name as pods carry it in `schedulerName`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kube => "default-scheduler",
            Self::Kai => "kai-scheduler",
            Self::Volcano => "volcano",
            Self::Lpx => "lpx-scheduler",
        }
    }
}
