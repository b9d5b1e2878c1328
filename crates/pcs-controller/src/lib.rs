//! pcs-controller: `PodCliqueSet` → headless Services, `PodGang`s, `PodCliqueScalingGroup`s, `PodClique`s and
//! autoscalers; `PodCliqueScalingGroup` → `PodClique`s.
//!
//! The pages to read first are [`set`] and [`scaling_group`]: one reconcile each, from observation to status; and [`gang`],
//! which only tells.

use std::sync::Arc;

use futures::future::join3;
use grove_api_types::scheduler::Scheduler;
use grove_runtime::clock::Clock;
use grove_runtime::executor::Executor;
use grove_runtime::pace::Pace;
use grove_runtime::service::Service;

mod children;
pub mod gang;
pub mod rbac;
pub mod scaling_group;
pub mod set;
mod watch;

/// Name of the service: of its `ServiceAccount` and of its user agent.
pub const NAME: &str = "pcs-controller";

/// What a reconcile works with. Only `observe`, `carry_out` and `publish` see it; the thinking gets values.
pub struct Ctx {
    caches: watch::Caches,
    refused: watch::Refused,
    executor: Executor,
    pace: Pace,
    clock: Clock,
    /// Who schedules pods that do not say.
    default_scheduler: Scheduler,
}

/// Runs the controller until the service is told to stop.
///
/// # Errors
/// When a watch cannot be set up or the controller ends before it was told to.
pub async fn run(service: &Service) -> anyhow::Result<()> {
    let refused = watch::Refused::default();
    let (caches, changes) = watch::watch(service, &refused);
    let ctx = |controller| {
        let executor = service.executor().reporting_as(controller);
        let default_scheduler = service.config().schedulers.default_profile;
        let (caches, refused, clock) = (caches.clone(), refused.clone(), service.clock());
        Arc::new(Ctx { caches, refused, executor, pace: Pace::default(), clock, default_scheduler })
    };
    // On the heap: together they would make a large future.
    let sets = Box::pin(set::run(service, ctx(set::CONTROLLER), changes.sets));
    let groups = Box::pin(scaling_group::run(service, ctx(scaling_group::CONTROLLER), changes.groups));
    let gangs = Box::pin(gang::run(service, ctx(gang::CONTROLLER), changes.gangs));
    service
        .run(async {
            join3(sets, groups, gangs).await;
            Ok(())
        })
        .await
}
