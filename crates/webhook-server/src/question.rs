//! What the API server asks: the closed set of questions, each with the path that it is asked at.

/// One question. Paths and names of those that the Go operator answers, too, are its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Question {
    /// What is filled in of a `PodCliqueSet`.
    DefaultSet,
    /// Whether a `PodCliqueSet` may be stored.
    ValidateSet,
    /// How the levels of a `ClusterTopology` are ordered.
    DefaultTopology,
    /// Whether a `ClusterTopology` or `ClusterTopologyBinding` may be stored.
    ValidateTopology,
    /// Whether a set, scaling group or clique may be scaled so.
    ValidateScale,
    /// Whether somebody may change what Grove manages.
    Authorize,
}

impl Question {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::DefaultSet,
        Self::ValidateSet,
        Self::DefaultTopology,
        Self::ValidateTopology,
        Self::ValidateScale,
        Self::Authorize,
    ];

    /// Where it is asked.
    pub const fn path(self) -> &'static str {
        match self {
            Self::DefaultSet => "/webhooks/default-podcliqueset",
            Self::ValidateSet => "/webhooks/validate-podcliqueset",
            Self::DefaultTopology => "/webhooks/default-clustertopology",
            Self::ValidateTopology => "/webhooks/validate-clustertopology",
            Self::ValidateScale => "/webhooks/validate-scale",
            Self::Authorize => "/webhooks/authorizer-webhook",
        }
    }

    /// What metrics and logs call it: the last part of the path.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DefaultSet => "default-podcliqueset",
            Self::ValidateSet => "validate-podcliqueset",
            Self::DefaultTopology => "default-clustertopology",
            Self::ValidateTopology => "validate-clustertopology",
            Self::ValidateScale => "validate-scale",
            Self::Authorize => "authorizer-webhook",
        }
    }
}
