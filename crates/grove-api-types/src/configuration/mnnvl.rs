//! `network` and `computeDomain`: `NVLink` between nodes.

use super::document::Section;

/// `network`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// Whether sets with GPUs get `NVLink` domains by themselves.
    pub auto_mnnvl_enabled: bool,
}

impl Network {
    pub(super) fn read(section: &Section<'_>) -> Self {
        let read = Self { auto_mnnvl_enabled: section.flag("autoMNNVLEnabled").unwrap_or_default() };
        if read.auto_mnnvl_enabled {
            section.warn(
                "autoMNNVLEnabled",
                "sets are annotated, but no service of this version makes ComputeDomains yet",
            );
        }
        read
    }
}

/// `computeDomain`: the state of NVIDIA's `ComputeDomain`s.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComputeDomains {
    /// Who keeps the state.
    pub state_sync: StateSync,
    /// The gate `ComputeDomainCliques`: state lies in one object per clique of nodes.
    pub cliques: bool,
    /// How the state is written, whatever the gate says.
    pub sync_strategy: Option<SyncStrategy>,
    /// Whether `status.nodes` of a domain is kept for old readers, too.
    pub mirror_nodes: bool,
}

/// Who keeps the state of `ComputeDomain`s.
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

/// Where the state of a domain lies, and how it is written there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncStrategy {
    /// In the domain's status, read, changed and written back.
    RmwStatus,
    /// In the domain's status, by server-side apply.
    SsaStatus,
    /// In one object per clique, read, changed and written back.
    RmwClique,
    /// In one object per clique, by server-side apply.
    SsaClique,
}

impl SyncStrategy {
    const ALL: [(&'static str, Self); 4] = [
        ("rmw-status", Self::RmwStatus),
        ("ssa-status", Self::SsaStatus),
        ("rmw-clique", Self::RmwClique),
        ("ssa-clique", Self::SsaClique),
    ];
}

impl ComputeDomains {
    pub(super) fn read(section: &Section<'_>) -> Self {
        let read = Self {
            state_sync: section.one_of("stateSync", &StateSync::ALL).unwrap_or_default(),
            cliques: section.section("featureGates").flag("ComputeDomainCliques").unwrap_or_default(),
            sync_strategy: section.one_of("syncStrategy", &SyncStrategy::ALL),
            mirror_nodes: section.flag("mirrorNodes").unwrap_or_default(),
        };
        let asked = [
            ("stateSync", read.state_sync != StateSync::default()),
            ("featureGates.ComputeDomainCliques", read.cliques),
            ("syncStrategy", read.sync_strategy.is_some()),
            ("mirrorNodes", read.mirror_nodes),
        ];
        for (key, _) in asked.into_iter().filter(|(_, asked)| *asked) {
            section.warn(key, "has no effect yet, no service of this version keeps the state of ComputeDomains");
        }
        read
    }
}
