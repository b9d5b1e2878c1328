//! When a status is written: the constants that delay a status write. Pure.
//!
//! The progress constants delay only a change that `status_change` in `<kind>/status.rs` classifies as
//! [`StatusChange::Progress`](crate::status_throttle::StatusChange): the first deployment of a gang, partial progress of a clique or a
//! group, and changes of a condition of mnnvl-controller that no controller waits for. Every other change of a set is significant, so
//! the progress constants do not delay its write. The debounce, the cooldown, a backlog of reconciles (`max_wait`) and pending watch
//! events delay it. But a set reads the statuses of its cliques and groups, so their progress also delays `updatedReplicas` and the end of
//! `PodsOutdated` of the set.
//! After a failed write, the backoff of failed reconciles applies (`grove-process/src/backoff.rs`).
//!
//! A status may also be late because the caches are stale. While watch events of creates or deletes are pending, a reconcile
//! writes no status ([`StatusWriter::write_after`](crate::status_writer::StatusWriter::write_after)). If the reconciled object
//! is stale, its status patch ends in a conflict ([`Executor::patch_status`](crate::executor::Executor::patch_status)). In both
//! cases the pending watch event triggers the next reconcile.

use std::time::Duration;

/// The delays of status writes. They reduce the number of writes in a busy cluster. Each timer has an upper bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusPolicy {
    /// A status-only trigger waits this long for further triggers of the same object.
    pub debounce: Duration,
    /// The debounce grows by this for each other object that waits.
    pub debounce_per_object: Duration,
    /// After a reconcile, the next status-only reconcile of the object waits this many times its duration.
    pub duration_factor: u32,
    /// After a reconcile, the next status-only reconcile of the object waits this many times its CPU time.
    pub cpu_factor: u32,
    /// Debounce and cooldown never exceed this.
    pub max_delay: Duration,
    /// Status-only reconciles of one controller that run at once.
    pub concurrency: usize,
    /// A status-only reconcile that is due and has waited this long for a worker runs before other reconciles.
    pub max_wait: Duration,
    /// Reconciles of one controller that run at once to write progress. At least two: while one waits for the response to a patch of a shared
    /// object, the patches of the others are queued and sent as one request. With one, a gang of 4000 cliques would have 4000 such patches.
    pub progress_concurrency: usize,
    /// While more objects than this have unwritten progress, the process writes no progress while many statuses change, and pauses
    /// between two writes of progress ([`ApiLatency`](crate::api_latency::ApiLatency)).
    pub progress_burst: usize,
    /// Progress that no user waits for is written this long after its first observation.
    pub progress_interval: Duration,
    /// The progress interval grows by this for each other object with unwritten progress.
    pub progress_interval_per_object: Duration,
    /// The progress interval never exceeds this.
    pub max_progress_interval: Duration,
    /// Progress is not written earlier than this after the last status write of the object. Zero: such a write delays nothing.
    pub min_write_interval: Duration,
    /// Progress is written this long after its first observation, even during a pause.
    pub progress_deadline: Duration,
    /// The progress deadline grows by this for each other object with unwritten progress, so that a loaded API server does not receive
    /// the progress of all objects at once.
    pub progress_deadline_per_object: Duration,
    /// The progress deadline never exceeds this.
    pub max_progress_deadline: Duration,
    /// A status is withheld this long while watch events of created or deleted children are pending. The next reconcile after
    /// this time writes it. A watch that fails delivers no events.
    pub max_stale_delay: Duration,
}

impl StatusPolicy {
    /// The policy of all controllers. ADR 13 explains it.
    pub const DEFAULT: Self = Self {
        debounce: Duration::from_millis(100),
        debounce_per_object: Duration::from_millis(1),
        duration_factor: 12,
        cpu_factor: 100,
        max_delay: Duration::from_secs(1),
        concurrency: 4,
        max_wait: Duration::from_secs(5),
        progress_concurrency: 2,
        progress_burst: 20,
        progress_interval: Duration::from_millis(500),
        progress_interval_per_object: Duration::from_millis(5),
        max_progress_interval: Duration::from_secs(5),
        min_write_interval: Duration::ZERO,
        progress_deadline: Duration::from_mins(1),
        progress_deadline_per_object: Duration::from_millis(100),
        max_progress_deadline: Duration::from_mins(2),
        max_stale_delay: Duration::from_secs(10),
    };

    /// The delay of a status-only trigger while `waiting` other objects wait.
    pub fn delay(&self, waiting: usize) -> Duration {
        (self.debounce + times(self.debounce_per_object, waiting)).min(self.max_delay)
    }

    /// The cooldown after a reconcile that took `duration` and used `cpu` of CPU time.
    pub fn cooldown(&self, duration: Duration, cpu: Duration) -> Duration {
        duration.saturating_mul(self.duration_factor).max(cpu.saturating_mul(self.cpu_factor)).min(self.max_delay)
    }

    /// The interval of progress writes while `waiting` other objects have unwritten progress.
    pub fn progress_interval(&self, waiting: usize) -> Duration {
        let interval = self.progress_interval.saturating_add(times(self.progress_interval_per_object, waiting));
        interval.min(self.max_progress_interval)
    }

    /// The longest delay of progress while `waiting` other objects have unwritten progress.
    pub fn progress_deadline(&self, waiting: usize) -> Duration {
        let deadline = self.progress_deadline.saturating_add(times(self.progress_deadline_per_object, waiting));
        deadline.min(self.max_progress_deadline)
    }
}

const _: () = assert!(StatusPolicy::DEFAULT.progress_concurrency > 1, "patches of shared objects are not combined");

fn times(duration: Duration, count: usize) -> Duration {
    duration.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX))
}
