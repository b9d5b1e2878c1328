//! `startup`: the start-up order of sets.

use super::document::Section;

/// `startup`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Startup {
    /// The token by which waiting pods read the pods of their gang. Default: `Secret`.
    pub token: StartupToken,
}

/// The token of the init container of a pod that waits for other cliques.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartupToken {
    /// A token of the `ServiceAccount` of the set, which does not expire, in a Secret. So does the Go operator.
    #[default]
    Secret,
    /// A token of the `ServiceAccount` of the pod, which the kubelet renews.
    Projected,
}

impl StartupToken {
    const ALL: [(&'static str, Self); 2] = [("Secret", Self::Secret), ("Projected", Self::Projected)];
}

impl Startup {
    pub(super) fn read(section: &Section<'_>) -> Self {
        Self { token: section.enum_value("token", &StartupToken::ALL).unwrap_or_default() }
    }
}
