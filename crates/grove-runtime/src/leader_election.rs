//! Leader election: of the replicas of a service, only the holder of its Lease writes. What the others do: see [`crate::leadership`].
//!
//! The algorithm is that of client-go's `leaderelection`, with two differences. A leader knows by its own monotonic clock
//! when its leadership expires ([`Leadership`]), so every write is gated without a request. The standbys watch the Lease
//! instead of polling it, and measure by their own clocks how long it has not changed: no replica compares its clock with
//! the clock of another machine. Each update carries the resourceVersion that the replica observed, so only one of several
//! concurrent updates succeeds.

mod record;
pub(crate) mod thread;

use std::{future::Future, time::Duration};

use futures::{StreamExt, TryStreamExt};
use grove_api_types::configuration::LeaderElection;
use grove_api_types::resource_version::is_older;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client, ResourceExt,
    api::{PostParams, WatchEvent, WatchParams},
};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use self::record::{LeaderElectionRecord, ObservedRecord};
use crate::{
    api_error::ApiError,
    client::with_timeout,
    failure_log::FailureLog,
    leadership::{Leadership, LeadershipEnd},
    metrics::Metrics,
};

/// Upper limit for one request about the Lease.
const LEASE_REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// The Lease that the replicas of a service compete for.
pub struct LeaseLock {
    /// A client that shares no connection and no rate limit with other requests.
    pub client: Client,
    /// The namespace of the Lease, unless the configuration names another.
    pub namespace: String,
    /// The service. Its name is the name of the Lease, unless the configuration sets a prefix.
    pub service: String,
}

/// Acquires and renews the Lease for one replica of a service.
pub struct LeaderElector {
    api: Api<Lease>,
    name: String,
    record: LeaderElectionRecord,
    election: LeaderElection,
    leadership: Leadership,
    metrics: Metrics,
    has_led: bool,
    failures: FailureLog,
}

/// Why a leader must end its process.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum LeadershipLost {
    /// Another replica holds the Lease.
    #[error("the lease {lease} was acquired by {holder}; this replica no longer leads")]
    TakenOver {
        /// The Lease.
        lease: String,
        /// The identity of the new leader.
        holder: String,
    },
    /// Another process uses the identity of this replica.
    #[error(
        "another process renews the lease {lease} with the same identity {identity}; set a different --identity for each replica"
    )]
    DuplicateIdentity {
        /// The Lease.
        lease: String,
        /// The identity that both processes use.
        identity: String,
    },
}

/// A service always needs access to its Lease, so a 403 names the missing permission.
fn api_error(error: &kube::Error) -> ApiError {
    ApiError::from(error).for_required_access()
}

impl LeaderElector {
    /// The elector of the replica `identity`. It extends and ends `leadership`.
    pub fn new(
        lock: LeaseLock,
        identity: &str,
        election: &LeaderElection,
        leadership: Leadership,
        metrics: Metrics,
    ) -> Self {
        let LeaseLock { client, namespace, service } = lock;
        let namespace = election.resource_namespace.as_ref().unwrap_or(&namespace);
        let name = election.resource_name.as_ref().map(|prefix| format!("{prefix}-{service}"));
        let name = name.unwrap_or(service);
        metrics.set_leader(&name, false);
        Self {
            api: Api::namespaced(client, namespace),
            name,
            record: LeaderElectionRecord::new(identity, election.lease_duration),
            election: election.clone(),
            leadership,
            metrics,
            has_led: false,
            failures: FailureLog::default(),
        }
    }

    /// Waits until the Lease is available, then leads until `released` completes. Before it completes `released`, the
    /// caller stops writing.
    ///
    /// # Errors
    /// Another process acquired the Lease although this replica did not release it.
    pub async fn run(mut self, released: impl Future<Output = ()>) -> Result<(), LeadershipLost> {
        let identity = self.record.identity().to_owned();
        let transitions = report_transitions(self.name.clone(), identity, &self.leadership, &self.metrics);
        let result = tokio::select! {
            lost = self.acquire_then_renew() => Err(lost),
            () = transitions => Ok(()),
            () = released => Ok(()),
        };
        self.leadership.release();
        self.metrics.set_leader(&self.name, false);
        if self.has_led && result.is_ok() {
            self.release().await;
        }
        result
    }

    async fn acquire_then_renew(&mut self) -> LeadershipLost {
        let mut observed = None;
        let lease = loop {
            match self.try_acquire(&mut observed).await {
                Ok(Some(lease)) => break lease,
                Ok(None) => {}
                Err(error) => self.wait_after(&error).await,
            }
        };
        self.renew_loop(lease).await
    }

    /// Acquires the Lease if it is available. Otherwise waits for the next change, and returns `None`.
    async fn try_acquire(&mut self, observed: &mut Option<ObservedRecord>) -> Result<Option<Lease>, ApiError> {
        let Some(lease) = self.get().await? else {
            // After a deletion the previous holder leads until its leadership expires or it notices the deletion.
            if let Some(observed) = observed.as_ref().filter(|observed| !observed.is_expired()) {
                sleep_until(observed.expiry().min(Instant::now() + self.election.retry_period)).await;
                return Ok(None);
            }
            return self.create_or_update(None).await;
        };
        let current = ObservedRecord::of(&lease, observed.take(), self.election.lease_duration);
        let is_available = record::is_released(&lease) || self.record.is_holder(&lease) || current.is_expired();
        *observed = Some(current);
        if is_available {
            return self.create_or_update(Some(lease)).await;
        }
        self.recovered();
        self.watch(&lease, observed).await?;
        Ok(None)
    }

    /// Returns when the Lease is released, deleted, or expired: it did not change for the lease duration of its holder.
    async fn watch(&self, lease: &Lease, observed: &mut Option<ObservedRecord>) -> Result<(), ApiError> {
        let params = WatchParams::default().fields(&format!("metadata.name={}", self.name));
        let version = lease.resource_version().unwrap_or_default();
        let mut events = self.with_timeout(self.api.watch(&params, &version)).await?.boxed();
        while let Some(expiry) = observed.as_ref().map(ObservedRecord::expiry) {
            let Ok(event) = timeout_at(expiry, events.try_next()).await else { return Ok(()) };
            match event.map_err(|error| api_error(&error))? {
                Some(WatchEvent::Added(lease) | WatchEvent::Modified(lease)) => {
                    *observed = Some(ObservedRecord::of(&lease, observed.take(), self.election.lease_duration));
                    if record::is_released(&lease) {
                        return Ok(());
                    }
                }
                Some(WatchEvent::Bookmark(_)) => {}
                Some(WatchEvent::Deleted(_)) => return Ok(()),
                Some(WatchEvent::Error(status)) => return Err(api_error(&kube::Error::Api(status))),
                // The server ends each watch after some minutes. The pause limits the rate if it ends one immediately.
                None => {
                    sleep(self.election.retry_period).await;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Renews the Lease until another process holds it. A failed request does not end the loop: the leadership expires
    /// by itself, and resumes with the next successful renewal if no other replica has taken over.
    async fn renew_loop(&mut self, mut lease: Lease) -> LeadershipLost {
        loop {
            let due = Instant::now() + self.election.retry_period;
            sleep_until(due).await;
            self.metrics.observe_renewal_delay(&self.name, due.elapsed());
            match self.renew(&lease).await {
                Ok(Ok(renewed)) => lease = renewed,
                Ok(Err(lost)) => return lost,
                Err(error) => self.wait_after(&error).await,
            }
        }
    }

    async fn renew(&mut self, lease: &Lease) -> Result<Result<Lease, LeadershipLost>, ApiError> {
        if let Some(renewed) = self.create_or_update(Some(lease.clone())).await? {
            return Ok(Ok(renewed));
        }
        // The Lease was deleted, edited, restored from a backup, acquired by another replica, or renewed by a request of
        // this replica with a lost response.
        let Some(live) = self.get().await? else {
            return Ok(Ok(self.create_or_update(None).await?.unwrap_or_default()));
        };
        let is_restored = self.record.is_holder(&live) && is_older(&live.metadata, &lease.metadata);
        let (lease, holder) = (self.name.clone(), record::holder(&live).to_owned());
        if record::is_released(&live) || self.record.is_own_write(&live) || is_restored {
            Ok(Ok(self.create_or_update(Some(live.clone())).await?.unwrap_or(live)))
        } else if self.record.is_holder(&live) {
            Ok(Err(LeadershipLost::DuplicateIdentity { lease, identity: holder }))
        } else {
            Ok(Err(LeadershipLost::TakenOver { lease, holder }))
        }
    }

    async fn get(&self) -> Result<Option<Lease>, ApiError> {
        self.with_timeout(self.api.get_opt(&self.name)).await
    }

    /// Writes this replica as the holder over the `observed` version of the Lease, and extends the leadership. `None` if
    /// another write came first.
    #[expect(clippy::disallowed_methods, reason = "the elector writes its Lease")]
    async fn create_or_update(&mut self, observed: Option<Lease>) -> Result<Option<Lease>, ApiError> {
        let (params, started) = (PostParams::default(), Instant::now());
        let observed = observed.filter(|lease| lease.resource_version().is_some());
        let is_new = observed.is_none();
        let lease = match observed {
            None => self.record.create(&self.name),
            Some(observed) => self.record.acquire_or_renew(observed),
        };
        let written = if is_new {
            self.with_timeout(self.api.create(&params, &lease)).await
        } else {
            self.with_timeout(self.api.replace(&self.name, &params, &lease)).await
        };
        match written {
            Ok(lease) => {
                self.record.acknowledged();
                self.has_led = true;
                self.recovered();
                self.leadership.extend(started, self.election.renew_deadline);
                Ok(Some(lease))
            }
            Err(error) if error.code == 409 || !is_new && error.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Clears the holder, so that a standby takes over without waiting for the expiry.
    async fn release(&self) {
        let timed_out = Err(ApiError::timeout(LEASE_REQUEST_TIMEOUT));
        let released = timeout(LEASE_REQUEST_TIMEOUT, self.release_lease()).await.unwrap_or(timed_out);
        let message = released.map_or_else(
            |error| format!("could not release the lease, it will expire: {error}"),
            |()| "released the lease".to_owned(),
        );
        tracing::info!(lease = self.name, "{message}");
    }

    #[expect(clippy::disallowed_methods, reason = "the elector writes its Lease")]
    async fn release_lease(&self) -> Result<(), ApiError> {
        while let Some(lease) = self.get().await?.filter(|lease| self.record.is_holder(lease)) {
            let released = record::released(lease);
            match self.with_timeout(self.api.replace(&self.name, &PostParams::default(), &released)).await {
                Err(error) if error.code == 409 => {}
                other => return other.map(drop),
            }
        }
        Ok(())
    }

    async fn with_timeout<T>(&self, call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, ApiError> {
        // A request that times out must leave time for a second attempt before the leadership expires.
        let limit = LEASE_REQUEST_TIMEOUT.min(self.election.renew_deadline / 2);
        with_timeout(limit, call).await.map_err(|error| api_error(&error))
    }

    async fn wait_after(&mut self, error: &ApiError) {
        let hint = if error.code == 404 { "; does the namespace exist?" } else { "" };
        let message = format!("{error}{hint}");
        if self.failures.should_log_failure(&message) {
            tracing::warn!(lease = self.name, "could not read or write the lease, will retry: {message}");
        }
        sleep(self.election.retry_period).await;
    }

    fn recovered(&mut self) {
        if self.failures.should_log_recovery() {
            tracing::info!(lease = self.name, "the requests for the lease succeed again");
        }
    }
}

/// Logs and counts each start and each end of the leadership.
fn report_transitions(
    lease: String,
    identity: String,
    leadership: &Leadership,
    metrics: &Metrics,
) -> impl Future<Output = ()> + use<> {
    let (leadership, metrics) = (leadership.clone(), metrics.clone());
    async move {
        tracing::info!(lease, identity, "attempting to acquire the lease");
        let mut started = Box::pin(leadership.started_leading());
        while started.next().await.is_some() {
            metrics.set_leader(&lease, true);
            tracing::info!(lease, identity, "acquired the lease, this replica leads");
            let end = leadership.stopped_leading().await;
            metrics.set_leader(&lease, false);
            if end == LeadershipEnd::Expired {
                tracing::error!(
                    lease,
                    identity,
                    "could not renew the lease before the renew deadline; this replica writes nothing until it can"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests;
