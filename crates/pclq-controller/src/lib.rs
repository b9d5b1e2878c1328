//! pclq-controller: `PodClique` → its pods, and its entry in the `podReferences` of its `PodGang`.
//!
//! The page to read first is [`clique`]: one reconcile from observation to status.

use std::sync::Arc;

use grove_api_types::scheduler::Scheduler;
use grove_controller::controllers::Controllers;
use grove_controller::executor::Executor;
use grove_controller::status_policy::StatusPolicy;
use grove_controller::status_throttle::StatusThrottle;
use grove_runtime::clock::Clock;
use grove_runtime::runtime::Runtime;

pub mod clique;
pub mod memory;
pub mod rbac;
pub mod starved;

/// Name of the service: of its `ServiceAccount` and of its user agent.
pub const NAME: &str = "pclq-controller";

/// What a reconcile works with. Only `observe`, `carry_out` and `publish` see it; the thinking gets values.
pub struct Ctx {
    caches: clique::observe::Caches,
    memory: memory::Memory,
    starved: starved::Starved,
    executor: Executor,
    pace: StatusThrottle,
    clock: Clock,
    /// Who schedules pods that do not say.
    default_scheduler: Scheduler,
}

/// Runs the controller until the service is told to stop.
///
/// # Errors
/// When the service cannot listen for signals or is stopped by force.
pub async fn run(runtime: &Runtime) -> anyhow::Result<()> {
    let service = &Controllers::new(runtime)?;
    let (memory, starved) = (memory::Memory::default(), starved::Starved::default());
    let (caches, changes) = clique::observe::watch(service, starved.clone());
    let executor = service.executor().with_reporting_controller(clique::CONTROLLER);
    let (clock, default_scheduler) = (service.clock(), service.config().schedulers.default_profile);
    let pace = StatusThrottle::new(StatusPolicy::DEFAULT);
    let ctx = Arc::new(Ctx { caches, memory, starved, executor, pace, clock, default_scheduler });
    clique::run(service, ctx, changes).await
}
