//! What this process remembers about cliques between two reconciles. If it is lost, for example by a restart, a reconcile repeats writes without
//! effect, and backoffs begin again.

use grove_api_types::v1alpha1::PodClique;
use grove_controller::create_backoff::CreateBackoff;
use grove_controller::create_state::CreateState;
use grove_controller::state_metrics::NamedCount;
use grove_runtime::caches::Cache;
use kube::ResourceExt;

use crate::claims::RetiredClaims;
use crate::gangs::GatingGangs;
use crate::replacement_backoff::ReplacementBackoff;
use crate::write_history::WriteHistory;

/// Each entry ends with its clique at the latest ([`CliqueMemory::forget`]).
#[derive(Debug)]
pub(crate) struct CliqueMemory {
    /// The creates of pods.
    pub(crate) creates: CreateState<PodClique>,
    /// The names of created pods.
    pub(crate) write_history: WriteHistory,
    /// When pods that ended soon are replaced.
    pub(crate) replacements: ReplacementBackoff,
    /// The gangs that gate pods of other cliques.
    pub(crate) gating_gangs: GatingGangs,
    /// The claims that no pod uses any more.
    pub(crate) retired_claims: RetiredClaims,
}

impl Default for CliqueMemory {
    fn default() -> Self {
        Self {
            creates: CreateState::new(CreateBackoff::of_alike_children()),
            write_history: WriteHistory::default(),
            replacements: ReplacementBackoff::default(),
            gating_gangs: GatingGangs::default(),
            retired_claims: RetiredClaims::default(),
        }
    }
}

impl CliqueMemory {
    /// The number of entries of each map, by its name in the metric.
    pub(crate) const MAPS: [NamedCount<Self>; 6] = [
        ("rejected_pods", |memory| memory.creates.backoff.len()),
        ("pod_expectations", |memory| memory.creates.expectations.len()),
        ("write_history", |memory| memory.write_history.len()),
        ("replacement_backoff", |memory| memory.replacements.len()),
        ("gating_gangs", |memory| memory.gating_gangs.len()),
        ("retired_claims", |memory| memory.retired_claims.len()),
    ];

    /// Drops everything about a deleted clique.
    pub(crate) fn forget(&self, cliques: &Cache<PodClique>, deleted: &PodClique) {
        let uid = deleted.uid().unwrap_or_default();
        self.creates.forget(deleted);
        self.write_history.forget(&uid);
        self.replacements.forget(&uid);
        self.gating_gangs.forget(cliques, deleted);
        self.retired_claims.forget(&uid);
    }
}
