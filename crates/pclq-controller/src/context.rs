//! The dependencies of the reconciler.

use std::sync::Arc;
use std::time::Duration;

use grove_api_types::scheduler::Scheduler;
use grove_controller::controllers::Controllers;
use grove_controller::executor::Executor;
use grove_controller::status_policy::StatusPolicy;
use grove_controller::status_throttle::{StatusChange, StatusThrottle};
use grove_runtime::clock::Clock;
use kube::Resource;
use serde::Serialize;

use crate::dependents::DependentsIndex;
use crate::error::Error;
use crate::expectations::Expectations;
use crate::informers::Caches;
use crate::rejected_creates::RejectedCreates;

/// The dependencies of the reconciler. Only `reconcile`, `triggers` and `observe` see it; `plan` and `status` get values.
pub(crate) struct Context {
    pub(crate) caches: Caches,
    pub(crate) dependents: DependentsIndex,
    pub(crate) expectations: Expectations,
    pub(crate) rejected_creates: RejectedCreates,
    pub(crate) executor: Executor,
    pub(crate) status_throttle: StatusThrottle,
    pub(crate) clock: Clock,
    /// The scheduler of pods whose template names none.
    pub(crate) default_scheduler: Scheduler,
}

impl Context {
    /// The context of the reconciler `controller`, which publishes its events under that name.
    pub(crate) fn new(service: &Controllers, caches: Caches, controller: &'static str) -> Arc<Self> {
        Arc::new(Self {
            caches,
            dependents: DependentsIndex::default(),
            expectations: Expectations::default(),
            rejected_creates: RejectedCreates::default(),
            executor: service.executor().with_reporting_controller(controller),
            status_throttle: StatusThrottle::new(StatusPolicy::DEFAULT),
            clock: service.clock(),
            default_scheduler: service.config().schedulers.default_profile,
        })
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
