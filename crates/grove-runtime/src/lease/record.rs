//! What stands in a Lease, and what follows from it.

use std::time::Duration;

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::Timestamp,
};
use kube::ResourceExt;
use tokio::time::Instant;

use crate::clock::Clock;

/// What one replica writes into the Lease.
pub(super) struct Record {
    identity: String,
    duration: Duration,
    /// The times that it wrote since a write was last answered: each of them tells a Lease that is ours.
    times: Vec<Timestamp>,
}

impl Record {
    pub(super) fn new(identity: &str, duration: Duration) -> Self {
        Self { identity: identity.to_owned(), duration, times: vec![] }
    }

    pub(super) fn identity(&self) -> &str {
        &self.identity
    }

    /// The Lease where there is none.
    pub(super) fn first(&mut self, name: &str) -> Lease {
        let mut lease = Lease::default();
        lease.metadata.name = Some(name.to_owned());
        self.over(lease)
    }

    /// The Lease, renewed if it is ours and else taken.
    pub(super) fn over(&mut self, mut lease: Lease) -> Lease {
        let now = self.now();
        let taken = !self.is_holder(&lease);
        let seconds = self.duration.as_secs() + u64::from(self.duration.subsec_nanos() > 0);
        let spec = lease.spec.get_or_insert_default();
        if taken {
            let first = spec.renew_time.is_none();
            spec.lease_transitions = Some(spec.lease_transitions.unwrap_or(0).saturating_add(i32::from(!first)));
            spec.acquire_time = Some(MicroTime(now));
        }
        spec.holder_identity = Some(self.identity.clone());
        spec.lease_duration_seconds = Some(i32::try_from(seconds).unwrap_or(i32::MAX));
        spec.renew_time = Some(MicroTime(now));
        lease
    }

    /// The last write was answered, so no earlier one can arrive any more.
    pub(super) fn arrived(&mut self) {
        let newest = self.times.len().saturating_sub(1);
        self.times.drain(..newest);
    }

    /// Whether the Lease names us.
    pub(super) fn is_holder(&self, lease: &Lease) -> bool {
        holder(lease) == self.identity
    }

    /// Whether it was this very process that wrote it.
    pub(super) fn is_ours(&self, lease: &Lease) -> bool {
        let written = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref());
        self.is_holder(lease) && written.is_some_and(|MicroTime(time)| self.times.contains(time))
    }

    // A Lease has microseconds.
    fn now(&mut self) -> Timestamp {
        let now = Clock::system().now();
        let now = Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now);
        self.times.push(now);
        now
    }
}

/// Who holds the Lease; empty if nobody does.
pub(super) fn holder(lease: &Lease) -> &str {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

/// Whether nobody holds it.
pub(super) fn is_free(lease: &Lease) -> bool {
    holder(lease).is_empty()
}

/// The Lease without a holder.
pub(super) fn freed(mut lease: Lease) -> Lease {
    let spec = lease.spec.take().unwrap_or_default();
    let renew_time = Some(MicroTime(Clock::system().now()));
    lease.spec = Some(LeaseSpec { holder_identity: None, lease_duration_seconds: Some(1), renew_time, ..spec });
    lease
}

/// When a Lease was last seen to change, by our own clock.
#[derive(Clone, Debug)]
pub(super) struct Sighting {
    version: Option<String>,
    since: Instant,
    patience: Duration,
}

impl Sighting {
    /// Of this Lease, given what was sighted `before`. It is waited for as long as its holder promised, or for our own
    /// `duration` where it says nothing.
    pub(super) fn of(lease: &Lease, before: Option<Self>, duration: Duration) -> Self {
        let version = lease.resource_version();
        if let Some(before) = before.filter(|before| before.version == version) {
            return before;
        }
        let promised = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
        let promised = promised.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs);
        Self { version, since: Instant::now(), patience: promised.unwrap_or(duration) }
    }

    pub(super) fn expiry(&self) -> Instant {
        self.since + self.patience
    }

    pub(super) fn is_expired(&self) -> bool {
        Instant::now() >= self.expiry()
    }
}
