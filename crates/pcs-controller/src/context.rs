//! The dependencies of a reconciler.

use std::sync::Arc;
use std::time::Duration;

use grove_api_types::scheduler::Scheduler;
use grove_api_types::v1alpha1::{PodCliqueScalingGroup, PodCliqueSet};
use grove_controller::controllers::Controllers;
use grove_controller::create_backoff::CreateBackoff;
use grove_controller::executor::{ExecutionResult, Executor};
use grove_controller::expectations::{ChildKey, Expectations, PendingCreates};
use grove_controller::name_waiters::NameWaiters;
use grove_controller::plan::Plan;
use grove_controller::status_policy::StatusPolicy;
use grove_controller::status_throttle::{StatusChange, StatusThrottle};
use grove_runtime::clock::Clock;
use kube::Resource;
use serde::Serialize;

use crate::error::Error;
use crate::informers::Caches;
use crate::triggers::CreateState;

/// The dependencies of one reconciler. Only `reconcile`, `triggers` and `observe` see it; `plan` and `status` get values.
pub(crate) struct Context {
    pub(crate) caches: Caches,
    pub(crate) name_waiters: AllNameWaiters,
    pub(crate) create_backoffs: CreateBackoffs,
    pub(crate) expectations: Arc<Expectations>,
    pub(crate) executor: Executor,
    pub(crate) status_throttle: StatusThrottle,
    pub(crate) clock: Clock,
    /// The scheduler of pods whose template names none.
    pub(crate) default_scheduler: Scheduler,
}

/// The creates that the API server rejected, by the kind of the owner.
#[derive(Clone, Default)]
pub(crate) struct CreateBackoffs {
    pub(crate) sets: CreateBackoff<PodCliqueSet>,
    pub(crate) groups: CreateBackoff<PodCliqueScalingGroup>,
}

/// The owners that wait for the names of their children, by the kind of the owner.
pub(crate) struct AllNameWaiters {
    pub(crate) sets: NameWaiters<PodCliqueSet>,
    pub(crate) groups: NameWaiters<PodCliqueScalingGroup>,
}

impl Context {
    /// The context of the reconciler `controller`, which publishes its events under that name.
    pub(crate) fn new(service: &Controllers, caches: &Caches, controller: &'static str) -> Arc<Self> {
        Arc::new(Self {
            caches: caches.clone(),
            name_waiters: AllNameWaiters {
                sets: NameWaiters::new(&caches.sets),
                groups: NameWaiters::new(&caches.groups),
            },
            create_backoffs: CreateBackoffs::default(),
            expectations: Arc::default(),
            executor: service.executor().with_reporting_controller(controller),
            status_throttle: StatusThrottle::new(StatusPolicy::DEFAULT),
            clock: service.clock(),
            default_scheduler: service.config().schedulers.default_profile,
        })
    }

    /// The state about creates that deltas of children change.
    pub(crate) fn create_state<K>(&self, waiters: &NameWaiters<K>, backoff: &CreateBackoff<K>) -> CreateState<K> {
        let (waiters, backoff) = (waiters.clone(), backoff.clone());
        CreateState { waiters, backoff, expectations: Arc::clone(&self.expectations) }
    }

    /// The children of `owner` that were created and that the caches do not have yet.
    pub(crate) fn pending_creates<K: Resource>(&self, owner: &K) -> PendingCreates {
        let namespace = owner.meta().namespace.as_deref().unwrap_or_default();
        let is_cached = |child: &ChildKey, uid: &str| self.caches.has_child(namespace, child, uid);
        self.expectations.pending(owner, is_cached, |kind| self.caches.relists(kind))
    }

    /// Executes the plan, and expects the watch events of its creates.
    pub(crate) async fn execute<K: Resource<DynamicType = ()>>(&self, owner: &K, plan: &Plan) -> ExecutionResult {
        self.expectations.expect_creations(owner, plan, |kind| self.caches.relists(kind));
        let result = self.executor.execute(owner, plan).await;
        self.expectations.record_results(owner, &result);
        result
    }

    /// Writes the status if it differs from `old`. If the throttle delays the write, returns for how long.
    pub(crate) async fn write_status<K, S>(
        &self,
        object: &K,
        old: Option<&S>,
        new: &S,
        change: StatusChange,
    ) -> Result<Option<Duration>, Error>
    where
        K: Resource<DynamicType = ()>,
        S: Serialize,
    {
        if let Err(delay) = self.status_throttle.admit(object, change) {
            return Ok(Some(delay));
        }
        self.executor.patch_status(object, old, new).await.map_err(Error::WriteStatus)?;
        Ok(None)
    }
}
