//! The dependencies of the reconciler.

use std::sync::Arc;

use grove_api_types::scheduler::Scheduler;
use grove_api_types::v1alpha1::PodClique;
use grove_controller::children::{ChildKinds, ChildTracker};
use grove_controller::create_backoff::CreateBackoff;
use grove_controller::create_state::CreateState;
use grove_controller::executor::Executor;
use grove_controller::manager::Manager;
use grove_controller::status_writer::StatusWriter;
use grove_runtime::clock::Clock;
use kube::Client;

use crate::clique_owner::CliqueOwner;
use crate::gating_gangs::GatingGangs;
use crate::informers::PclqCaches;
use crate::replacement_backoff::ReplacementBackoff;
use crate::retired_claims::RetiredClaims;
use crate::write_history::WriteHistory;

/// The dependencies of the reconciler. Only `reconcile`, `triggers` and `observe` see it; `plan` and `status` get values.
pub(crate) struct Context {
    pub(crate) caches: PclqCaches,
    /// The claims of the cliques.
    pub(crate) claims: ChildTracker<CliqueOwner>,
    pub(crate) retired_claims: RetiredClaims,
    /// The creates of pods.
    pub(crate) creates: CreateState<PodClique>,
    pub(crate) write_history: WriteHistory,
    pub(crate) replacements: ReplacementBackoff,
    pub(crate) gating_gangs: GatingGangs,
    pub(crate) executor: Executor,
    pub(crate) status_writer: StatusWriter,
    pub(crate) clock: Clock,
    /// For live reads.
    pub(crate) client: Client,
    /// The scheduler of pods whose template names none.
    pub(crate) default_scheduler: Scheduler,
}

impl Context {
    /// The context of the reconciler `controller`, which publishes its events under that name. Claims are children of these `kinds`.
    pub(crate) fn new(
        manager: &Manager,
        caches: PclqCaches,
        kinds: ChildKinds<CliqueOwner>,
        controller: &'static str,
    ) -> Arc<Self> {
        let executor = manager.executor().with_reporting_controller(controller);
        Arc::new(Self {
            claims: ChildTracker::new(kinds, &caches.informers, &caches.cliques),
            retired_claims: RetiredClaims::default(),
            caches,
            creates: CreateState::new(CreateBackoff::of_alike_children()),
            write_history: WriteHistory::default(),
            replacements: ReplacementBackoff::default(),
            gating_gangs: GatingGangs::default(),
            status_writer: StatusWriter::new(executor.clone()),
            executor,
            clock: manager.clock(),
            client: manager.client(),
            default_scheduler: manager.config().schedulers.default_profile,
        })
    }
}
