//! The fields of a Lease that the election reads and writes (client-go's `LeaderElectionRecord`).

use std::time::Duration;

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::Timestamp,
};
use kube::ResourceExt;
use tokio::time::Instant;

use crate::clock::Clock;

/// Renders the spec that one replica writes, and recognizes its own writes.
pub(super) struct LeaderElectionRecord {
    identity: String,
    lease_duration: Duration,
    /// The `renewTime` of each write since the last acknowledged one. A Lease with one of them is a write of this process.
    renew_times: Vec<Timestamp>,
}

impl LeaderElectionRecord {
    pub(super) fn new(identity: &str, lease_duration: Duration) -> Self {
        Self { identity: identity.to_owned(), lease_duration, renew_times: vec![] }
    }

    pub(super) fn identity(&self) -> &str {
        &self.identity
    }

    /// A new Lease that this replica holds.
    pub(super) fn create(&mut self, name: &str) -> Lease {
        let mut lease = Lease::default();
        lease.metadata.name = Some(name.to_owned());
        self.acquire_or_renew(lease)
    }

    /// The Lease with this replica as its holder. A change of the holder counts as a transition.
    pub(super) fn acquire_or_renew(&mut self, mut lease: Lease) -> Lease {
        let now = self.now();
        let is_transition = !self.is_holder(&lease);
        let seconds = self.lease_duration.as_secs() + u64::from(self.lease_duration.subsec_nanos() > 0);
        let spec = lease.spec.get_or_insert_default();
        if is_transition {
            let is_first = spec.renew_time.is_none();
            spec.lease_transitions = Some(spec.lease_transitions.unwrap_or(0).saturating_add(i32::from(!is_first)));
            spec.acquire_time = Some(MicroTime(now));
        }
        spec.holder_identity = Some(self.identity.clone());
        spec.lease_duration_seconds = Some(i32::try_from(seconds).unwrap_or(i32::MAX));
        spec.renew_time = Some(MicroTime(now));
        lease
    }

    /// The API server answered the last write, so no earlier write can take effect any more.
    pub(super) fn acknowledged(&mut self) {
        let newest = self.renew_times.len().saturating_sub(1);
        self.renew_times.drain(..newest);
    }

    /// Whether the Lease names this replica.
    pub(super) fn is_holder(&self, lease: &Lease) -> bool {
        holder(lease) == self.identity
    }

    /// Whether this process wrote this version of the Lease.
    pub(super) fn is_own_write(&self, lease: &Lease) -> bool {
        let written = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref());
        self.is_holder(lease) && written.is_some_and(|MicroTime(time)| self.renew_times.contains(time))
    }

    // A Lease stores microseconds.
    fn now(&mut self) -> Timestamp {
        let now = Clock::system().now();
        let now = Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now);
        self.renew_times.push(now);
        now
    }
}

/// The identity of the holder; empty if the Lease is released.
pub(super) fn holder(lease: &Lease) -> &str {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

/// Whether the Lease has no holder.
pub(super) fn is_released(lease: &Lease) -> bool {
    holder(lease).is_empty()
}

/// The Lease without a holder. Like client-go, it sets a lease duration of one second.
pub(super) fn released(mut lease: Lease) -> Lease {
    let spec = lease.spec.take().unwrap_or_default();
    let renew_time = Some(MicroTime(Clock::system().now()));
    lease.spec = Some(LeaseSpec { holder_identity: None, lease_duration_seconds: Some(1), renew_time, ..spec });
    lease
}

/// A version of the Lease, and when this process first observed it by its own monotonic clock.
#[derive(Clone, Debug)]
pub(super) struct ObservedRecord {
    resource_version: Option<String>,
    observed_at: Instant,
    lease_duration: Duration,
}

impl ObservedRecord {
    /// The record of `lease`; `previous` itself if the Lease has not changed since. It expires after the lease duration
    /// that the holder wrote, or after `default_duration` if it wrote none.
    pub(super) fn of(lease: &Lease, previous: Option<Self>, default_duration: Duration) -> Self {
        let resource_version = lease.resource_version();
        if let Some(previous) = previous.filter(|previous| previous.resource_version == resource_version) {
            return previous;
        }
        let written = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
        let written = written.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs);
        Self { resource_version, observed_at: Instant::now(), lease_duration: written.unwrap_or(default_duration) }
    }

    pub(super) fn expiry(&self) -> Instant {
        self.observed_at + self.lease_duration
    }

    pub(super) fn is_expired(&self) -> bool {
        Instant::now() >= self.expiry()
    }
}
