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

    /// The scheduler of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, scheduler)| scheduler)
    }

    /// Whether it learns what a gang is from `PodGroup`s of an API of its own.
    pub const fn has_own_pod_groups(self) -> bool {
        match self {
            Self::Kai | Self::Volcano => true,
            Self::Kube | Self::Lpx => false,
        }
    }

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
