//! The scheduling backends: a closed enum.

/// A scheduler that pods can use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheduler {
    /// The default scheduler of Kubernetes.
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
    /// All schedulers, by name.
    pub const ALL: [(&str, Self); 4] = [
        (Self::Kube.name(), Self::Kube),
        (Self::Kai.name(), Self::Kai),
        (Self::Volcano.name(), Self::Volcano),
        (Self::Lpx.name(), Self::Lpx),
    ];

    /// The scheduler with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, scheduler)| scheduler)
    }

    /// Whether the scheduler reads gangs from `PodGroup`s of its own API.
    pub const fn has_own_pod_groups(self) -> bool {
        match self {
            Self::Kai | Self::Volcano => true,
            Self::Kube | Self::Lpx => false,
        }
    }

    /// The name, as in `schedulerName` of pods.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kube => "default-scheduler",
            Self::Kai => "kai-scheduler",
            Self::Volcano => "volcano",
            Self::Lpx => "lpx-scheduler",
        }
    }
}
