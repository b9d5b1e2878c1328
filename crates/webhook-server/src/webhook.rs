//! The seven admission webhooks of this service, each with its path.

/// One admission webhook. Where the Go operator has the same webhook, path and name are those of the Go operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Webhook {
    /// Sets the defaults of a `PodCliqueSet`.
    DefaultSet,
    /// Validates a `PodCliqueSet`.
    ValidateSet,
    /// Orders the levels of a `ClusterTopology`.
    DefaultTopology,
    /// Validates a `ClusterTopology` or `ClusterTopologyBinding`.
    ValidateTopology,
    /// Validates the references of sets and of `PodClique`s to claim templates of other namespaces.
    ValidateTemplates,
    /// Validates the new size of a set, scaling group or clique.
    ValidateScale,
    /// Protects the objects that Grove manages from other users.
    Authorize,
}

impl Webhook {
    /// All webhooks.
    pub const ALL: [Self; 7] = [
        Self::DefaultSet,
        Self::ValidateSet,
        Self::DefaultTopology,
        Self::ValidateTopology,
        Self::ValidateTemplates,
        Self::ValidateScale,
        Self::Authorize,
    ];

    /// The path of its endpoint, and the value of the metric label `webhook`, as in controller-runtime.
    pub const fn path(self) -> &'static str {
        match self {
            Self::DefaultSet => "/webhooks/default-podcliqueset",
            Self::ValidateSet => "/webhooks/validate-podcliqueset",
            Self::DefaultTopology => "/webhooks/default-clustertopology",
            Self::ValidateTopology => "/webhooks/validate-clustertopology",
            Self::ValidateTemplates => "/webhooks/validate-claim-templates",
            Self::ValidateScale => "/webhooks/validate-scale",
            Self::Authorize => "/webhooks/authorizer-webhook",
        }
    }

    /// The name in log messages: the last segment of the path.
    pub fn name(self) -> &'static str {
        self.path().trim_start_matches("/webhooks/")
    }
}
