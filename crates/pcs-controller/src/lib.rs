//! pcs-controller: `PodCliqueSet` → headless Services, `PodGang`s and `PodClique`s.
//!
//! The page to read first is [`set`]: one reconcile from observation to status.

use std::sync::Arc;

use grove_runtime::clock::Clock;
use grove_runtime::executor::Executor;
use grove_runtime::service::Service;

mod children;
pub mod rbac;
pub mod set;

/// Name of the service: of its `ServiceAccount`, its user agent and its events.
pub const NAME: &str = "pcs-controller";

/// What a reconcile works with. Only `observe`, `carry_out` and `publish` see it; the thinking gets values.
pub struct Ctx {
    caches: set::observe::Caches,
    executor: Executor,
    clock: Clock,
}

/// Runs the controller until the service is told to stop.
///
/// # Errors
/// When a watch cannot be set up or the controller ends before it was told to.
pub async fn run(service: &Service) -> anyhow::Result<()> {
    let (caches, changes) = set::observe::watch(service);
    let ctx = Arc::new(Ctx { caches, executor: service.executor().clone(), clock: service.clock() });
    set::run(service, ctx, changes).await
}
