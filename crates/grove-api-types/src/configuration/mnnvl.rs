//! `network` and `computeDomain`: MNNVL (`NVLink` between nodes).

use super::document::Section;
use crate::compute_domain::strategy::Strategy;

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
    /// Whether mnnvl-controller writes the state.
    pub fn is_written_by_controller(&self) -> bool {
        let strategy = Strategy::configured(self.cliques, self.sync_strategy);
        self.state_sync == StateSync::Grove && strategy == Strategy::ControllerClique
    }

    pub(super) fn read(section: &Section<'_>) -> Self {
        let read = Self {
            state_sync: section.enum_value("stateSync", &StateSync::ALL).unwrap_or_default(),
            cliques: section.section("featureGates").bool("ComputeDomainCliques").unwrap_or_default(),
            sync_strategy: section.enum_value("syncStrategy", &Strategy::ALL),
            mirror_nodes: section.bool("mirrorNodes").unwrap_or_default(),
        };
        if read.state_sync == StateSync::Grove && !read.is_written_by_controller() {
            let text =
                "has no effect on mnnvl-controller, which writes the state only with the strategy controller-clique";
            section.warn("stateSync", text);
        }
        let needed = "has no effect without stateSync grove";
        for (key, is_set) in
            [("featureGates.ComputeDomainCliques", read.cliques), ("syncStrategy", read.sync_strategy.is_some())]
        {
            if is_set && read.state_sync == StateSync::External {
                section.warn(key, needed);
            }
        }
        if read.mirror_nodes && !read.is_written_by_controller() {
            section.warn("mirrorNodes", "has no effect without stateSync grove and the strategy controller-clique");
        }
        read
    }
}
