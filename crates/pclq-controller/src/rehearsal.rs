//! The decisions of the reconciler of cliques as a function of objects, for rehearsals of whole updates without a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use grove_api_types::scheduler::Scheduler;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodClique, PodCliqueStatus};
use grove_controller::children::ObservedChildren;
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::executor::ExecutionResult;
use grove_controller::expectations::PendingCreates;
use grove_controller::plan::Plan;
use grove_controller::reconciler::Reconciler;
use grove_controller::resource_claims::TemplateReadErrors;
use grove_controller::slim_pod::SlimPod;
use grove_runtime::caches::Availability;
use k8s_openapi::jiff::Timestamp;

use crate::claims::ObservedClaims;
use crate::clique::{self, CliqueReconciler};
use crate::gangs::ObservedGang;
use crate::observed::ObservedClique;
use crate::startup::ObservedStartup;
use crate::write_history::CliqueWrites;

/// What a reconcile decides.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The writes.
    pub plan: Plan,
    /// The status after they have succeeded.
    pub status: PodCliqueStatus,
}

/// The decision about a clique with these pods, sorted by name, whose gang is scheduled.
pub fn reconcile_clique(
    clique: &PodClique,
    pods: Vec<Arc<SlimPod>>,
    gang: Option<Arc<PodGang>>,
    now: Timestamp,
) -> Decision {
    let state = ObservedClique {
        clique: clique.clone(),
        orphans_pods: false,
        pods,
        orphans: Vec::new(),
        unreadable_pods: Vec::new(),
        tombstones: Vec::new(),
        relists: 0,
        pending_creates: PendingCreates::default(),
        own_writes: CliqueWrites::default(),
        now,
        is_namespace_terminating: false,
    };
    let observed = clique::Observed {
        state,
        gang: ObservedGang { object: gang, max_references: None, gating: None, gates_cliques: false },
        backed_off: BackedOffCreates::default(),
        delayed_replacements: BTreeMap::new(),
        default_scheduler: Scheduler::default(),
        claims: no_claims(),
        missing_domain_template: None,
        startup: ObservedStartup::default(),
    };
    let plan = clique::plan_pods(&observed);
    let (status, _) = CliqueReconciler::status(&observed, &plan, &ExecutionResult::default(), now);
    Decision { plan, status }
}

fn no_claims() -> ObservedClaims {
    ObservedClaims {
        invalid: None,
        availability: Availability::Served,
        references: Vec::new(),
        own: Vec::new(),
        children: ObservedChildren::default(),
        name_conflicts: Vec::new(),
        backed_off: BackedOffCreates::default(),
        pending_creates: PendingCreates::default(),
        retired: BTreeSet::new(),
        created: BTreeSet::new(),
        read_errors: TemplateReadErrors::default(),
    }
}
