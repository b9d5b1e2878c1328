//! `network` and `computeDomain`: MNNVL (`NVLink` between nodes).

use super::document::Section;
use crate::compute_domain::strategy::Strategy;

/// The image that `deploy/Containerfile` builds for this version.
const DAEMON_IMAGE: &str = concat!("localhost/grove/compute-domain-daemon:", env!("CARGO_PKG_VERSION"));

/// `network`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// Whether a set with GPUs gets compute domains without an annotation of the user. Default: false.
    pub auto_mnnvl_enabled: bool,
    /// Which of these sets get them. Default: `all`.
    pub auto_mnnvl_scope: AutoMnnvlScope,
}

/// The sets that get compute domains without an annotation of the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AutoMnnvlScope {
    /// All sets with GPUs.
    #[default]
    All,
    /// The sets with a clique whose pods need more GPUs than one node has.
    MultiNode,
}

impl AutoMnnvlScope {
    const ALL: [(&'static str, Self); 2] = [("all", Self::All), ("multiNode", Self::MultiNode)];
}

impl Network {
    pub(super) fn read(section: &Section<'_>) -> Self {
        Self {
            auto_mnnvl_enabled: section.bool("autoMNNVLEnabled").unwrap_or_default(),
            auto_mnnvl_scope: section.enum_value("autoMNNVLScope", &AutoMnnvlScope::ALL).unwrap_or_default(),
        }
    }
}

/// `computeDomain`: the synchronization of the state of NVIDIA's `ComputeDomain`s.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComputeDomains {
    /// The writer of the state. Default: `external`.
    pub state_sync: StateSync,
    /// The feature gate `ComputeDomainCliques`: one object per clique of nodes contains the state. Default: false.
    pub cliques: bool,
    /// The write strategy; overrides the feature gate.
    pub sync_strategy: Option<Strategy>,
    /// Whether the writer also updates `status.nodes` of a domain, for old readers. Default: false.
    pub mirror_nodes: bool,
    /// The image of compute-domain-daemon with the IMEX commands. Default: [`ComputeDomains::daemon_image`].
    pub daemon_image: Option<String>,
}

/// The writer of the state of `ComputeDomain`s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StateSync {
    /// NVIDIA's driver.
    #[default]
    External,
    /// Grove.
    Grove,
}

impl StateSync {
    const ALL: [(&'static str, Self); 2] = [("external", Self::External), ("grove", Self::Grove)];
}

impl ComputeDomains {
    /// Whether Grove synchronizes the state.
    pub fn is_synchronized(&self) -> bool {
        self.state_sync == StateSync::Grove
    }

    /// The strategy of new domains.
    pub fn strategy(&self) -> Strategy {
        Strategy::configured(self.cliques, self.sync_strategy)
    }

    /// The image of the daemons.
    pub fn daemon_image(&self) -> &str {
        self.daemon_image.as_deref().unwrap_or(DAEMON_IMAGE)
    }

    pub(super) fn read(section: &Section<'_>) -> Self {
        let read = Self {
            state_sync: section.enum_value("stateSync", &StateSync::ALL).unwrap_or_default(),
            cliques: section.section("featureGates").bool("ComputeDomainCliques").unwrap_or_default(),
            sync_strategy: section.enum_value("syncStrategy", &Strategy::ALL),
            mirror_nodes: section.bool("mirrorNodes").unwrap_or_default(),
            daemon_image: section.non_empty_string("daemonImage"),
        };
        let keys = [
            ("featureGates.ComputeDomainCliques", read.cliques),
            ("syncStrategy", read.sync_strategy.is_some()),
            ("mirrorNodes", read.mirror_nodes),
            ("daemonImage", read.daemon_image.is_some()),
        ];
        for (key, is_set) in keys {
            if is_set && !read.is_synchronized() {
                section.warn(key, "has no effect without stateSync grove");
            }
        }
        if read.is_synchronized() && read.mirror_nodes && !read.strategy().has_cliques() {
            section.warn("mirrorNodes", "has no effect: the strategy stores the state in status.nodes");
        }
        read
    }
}
