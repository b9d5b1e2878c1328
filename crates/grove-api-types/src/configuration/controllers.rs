//! `controllers`: the number of concurrent reconciles of each kind.

use super::document::Section;

/// The number of concurrent reconciles of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Controllers {
    /// `podCliqueSet`
    pub pod_clique_set: Controller<10>,
    /// `podClique`. The default equals the limit of concurrent writes of a service.
    pub pod_clique: Controller<32>,
    /// `podCliqueScalingGroup`
    pub pod_clique_scaling_group: Controller<5>,
    /// `podGang`
    pub pod_gang: Controller<5>,
}

/// One controller. `SYNCS` is the default number of concurrent reconciles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controller<const SYNCS: u16> {
    /// `concurrentSyncs`
    pub concurrent_syncs: u16,
}

impl<const SYNCS: u16> Default for Controller<SYNCS> {
    fn default() -> Self {
        Self { concurrent_syncs: SYNCS }
    }
}

impl Controllers {
    pub(super) fn read(section: &Section<'_>) -> Self {
        Self {
            pod_clique_set: Controller::read(&section.section("podCliqueSet")),
            pod_clique: Controller::read(&section.section("podClique")),
            pod_clique_scaling_group: Controller::read(&section.section("podCliqueScalingGroup")),
            pod_gang: Controller::read(&section.section("podGang")),
        }
    }
}

impl<const SYNCS: u16> Controller<SYNCS> {
    fn read(section: &Section<'_>) -> Self {
        let Some(syncs) = section.integer("concurrentSyncs") else { return Self::default() };
        let concurrent_syncs = u16::try_from(syncs).unwrap_or_default();
        if concurrent_syncs == 0 {
            section.invalid("concurrentSyncs", "must be greater than 0 and at most 65535");
        }
        Self { concurrent_syncs }
    }
}
