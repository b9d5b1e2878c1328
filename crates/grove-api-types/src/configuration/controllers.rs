//! `controllers`: the number of concurrent reconciles of each kind.

use super::document::Section;

/// The number of concurrent reconciles of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControllersConfiguration {
    /// `podCliqueSet`. The default equals the limit of concurrent writes of a service.
    pub pod_clique_set: ControllerConfiguration<32>,
    /// `podClique`, with the same default.
    pub pod_clique: ControllerConfiguration<32>,
    /// `podCliqueScalingGroup`
    pub pod_clique_scaling_group: ControllerConfiguration<5>,
    /// `podGang`
    pub pod_gang: ControllerConfiguration<5>,
}

/// One controller. `SYNCS` is the default number of concurrent reconciles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerConfiguration<const SYNCS: u16> {
    /// `concurrentSyncs`
    pub concurrent_syncs: u16,
}

impl<const SYNCS: u16> Default for ControllerConfiguration<SYNCS> {
    fn default() -> Self {
        Self { concurrent_syncs: SYNCS }
    }
}

impl ControllersConfiguration {
    pub(super) fn read(section: &Section<'_>) -> Self {
        Self {
            pod_clique_set: ControllerConfiguration::read(&section.section("podCliqueSet")),
            pod_clique: ControllerConfiguration::read(&section.section("podClique")),
            pod_clique_scaling_group: ControllerConfiguration::read(&section.section("podCliqueScalingGroup")),
            pod_gang: ControllerConfiguration::read(&section.section("podGang")),
        }
    }
}

impl<const SYNCS: u16> ControllerConfiguration<SYNCS> {
    fn read(section: &Section<'_>) -> Self {
        let Some(syncs) = section.integer("concurrentSyncs") else { return Self::default() };
        let concurrent_syncs = u16::try_from(syncs).unwrap_or_default();
        if concurrent_syncs == 0 {
            section.invalid("concurrentSyncs", "must be greater than 0 and at most 65535");
        }
        Self { concurrent_syncs }
    }
}
