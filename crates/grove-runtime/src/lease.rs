//! Leader election: of the replicas of a service the one that holds its Lease acts.
//!
//! A leader renews and knows by its own clock until when it may act ([`Leadership`]). The others watch the Lease, and
//! measure by their own clocks for how long it has not changed; no time of another machine is ever compared with. A
//! Lease is replaced with the version that was seen, so of several who try one succeeds.

mod record;

use std::{future::Future, time::Duration};

use futures::{StreamExt, TryStreamExt};
use grove_api_types::configuration::LeaderElection;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client, ResourceExt,
    api::{PostParams, WatchEvent, WatchParams},
    core::Status,
};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use self::record::{Record, Sighting};
use crate::{
    executor::Failure,
    leadership::{Ended, Leadership},
    metrics::Metrics,
    versions::precedes,
};

/// One request about the Lease takes no longer.
const ANSWER: Duration = Duration::from_secs(5);

/// What a replica stands for election to.
pub struct Seat {
    /// How the API server is asked, on connections that nothing else holds up.
    pub client: Client,
    /// Where the Lease lies unless the configuration says otherwise.
    pub namespace: String,
    /// Whose Lease it is.
    pub service: String,
}

/// One replica of a service, standing for election.
pub struct Candidate {
    api: Api<Lease>,
    name: String,
    record: Record,
    election: LeaderElection,
    leadership: Leadership,
    metrics: Metrics,
    has_led: bool,
    /// What was told last of what goes wrong, so that it is told once.
    trouble: Option<String>,
}

/// Why a leader has to end.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Lost {
    /// Another replica leads.
    #[error("the lease {lease} was taken by {holder}, another replica acts now")]
    Taken {
        /// The Lease.
        lease: String,
        /// The other.
        holder: String,
    },
    /// Another replica takes itself for this one.
    #[error("another process renews the lease {lease} as {identity}; give each replica an --identity of its own")]
    Doubled {
        /// The Lease.
        lease: String,
        /// What both call themselves.
        identity: String,
    },
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the API server did not answer in time")]
    Silent,
    #[error("{}", failure(.0))]
    Refused(kube::Error),
}

impl Error {
    fn status(&self) -> Option<&Status> {
        match self {
            Self::Refused(kube::Error::Api(status)) => Some(status),
            Self::Refused(_) | Self::Silent => None,
        }
    }

    /// Whether somebody else was faster.
    fn is_conflict(&self) -> bool {
        self.status().is_some_and(|status| status.code == 409)
    }

    fn is_missing(&self) -> bool {
        self.status().is_some_and(|status| status.code == 404)
    }
}

/// A lease is something that a service always needs.
fn failure(error: &kube::Error) -> Failure {
    if let kube::Error::Api(status) = error { Failure::of_need(status) } else { Failure::from(error) }
}

impl Candidate {
    /// The replica `identity` of the service at `seat`. It tells `leadership` when it may act.
    pub fn new(
        seat: Seat,
        identity: &str,
        election: &LeaderElection,
        leadership: Leadership,
        metrics: Metrics,
    ) -> Self {
        let Seat { client, namespace, service } = seat;
        let namespace = election.resource_namespace.as_ref().unwrap_or(&namespace);
        let name = election.resource_name.as_ref().map(|prefix| format!("{prefix}-{service}"));
        let name = name.unwrap_or(service);
        metrics.leads(&name, false);
        Self {
            api: Api::namespaced(client, namespace),
            name,
            record: Record::new(identity, election.lease_duration),
            election: election.clone(),
            leadership,
            metrics,
            has_led: false,
            trouble: None,
        }
    }

    /// Stands by until the lease is free, then leads until `released`. Whoever asks for the release has stopped acting.
    ///
    /// # Errors
    /// When another process leads although this one was not released.
    pub async fn run(mut self, released: impl Future<Output = ()>) -> Result<(), Lost> {
        let told = told(self.name.clone(), self.record.identity().to_owned(), &self.leadership, &self.metrics);
        let result = tokio::select! {
            lost = self.campaign() => Err(lost),
            () = told => Ok(()),
            () = released => Ok(()),
        };
        self.leadership.give_up();
        self.metrics.leads(&self.name, false);
        if self.has_led && result.is_ok() {
            self.release().await;
        }
        result
    }

    async fn campaign(&mut self) -> Lost {
        let mut sighting = None;
        let lease = loop {
            match self.attempt(&mut sighting).await {
                Ok(Some(lease)) => break lease,
                Ok(None) => {}
                Err(error) => self.pause(&error).await,
            }
        };
        self.keep(lease).await
    }

    /// Takes the lease if it is free. Returns without it when it is time to look again.
    async fn attempt(&mut self, sighting: &mut Option<Sighting>) -> Result<Option<Lease>, Error> {
        let Some(lease) = self.look().await? else {
            // Who held what was deleted acts on until it notices.
            if let Some(sighting) = sighting.as_ref().filter(|sighting| !sighting.is_expired()) {
                sleep_until(sighting.expiry().min(Instant::now() + self.election.retry_period)).await;
                return Ok(None);
            }
            return self.write(None).await;
        };
        let sighted = Sighting::of(&lease, sighting.take(), self.election.lease_duration);
        let is_takeable = record::is_free(&lease) || self.record.is_holder(&lease) || sighted.is_expired();
        *sighting = Some(sighted);
        if is_takeable {
            return self.write(Some(lease)).await;
        }
        self.well();
        self.watch(&lease, sighting).await?;
        Ok(None)
    }

    /// Returns when the lease is free, or has not changed for as long as its holder promised to renew it.
    async fn watch(&self, lease: &Lease, sighting: &mut Option<Sighting>) -> Result<(), Error> {
        let params = WatchParams::default().fields(&format!("metadata.name={}", self.name));
        let version = lease.resource_version().unwrap_or_default();
        let mut events = self.in_time(self.api.watch(&params, &version)).await?.boxed();
        while let Some(expiry) = sighting.as_ref().map(Sighting::expiry) {
            let Ok(event) = timeout_at(expiry, events.try_next()).await else { return Ok(()) };
            match event.map_err(Error::Refused)? {
                Some(WatchEvent::Added(lease) | WatchEvent::Modified(lease)) => {
                    *sighting = Some(Sighting::of(&lease, sighting.take(), self.election.lease_duration));
                    if record::is_free(&lease) {
                        return Ok(());
                    }
                }
                Some(WatchEvent::Bookmark(_)) => {}
                Some(WatchEvent::Deleted(_)) => return Ok(()),
                Some(WatchEvent::Error(status)) => return Err(Error::Refused(kube::Error::Api(status))),
                // The server ends each watch after some minutes; one that it ends at once must not be a loop.
                None => {
                    sleep(self.election.retry_period).await;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Renews until another process has the lease. What the API server does not answer ends the leadership in time, and
    /// not the process: if nobody else took over meanwhile, it goes on.
    async fn keep(&mut self, mut lease: Lease) -> Lost {
        loop {
            sleep(self.election.retry_period).await;
            match self.renew(&lease).await {
                Ok(Ok(renewed)) => lease = renewed,
                Ok(Err(lost)) => return lost,
                Err(error) => self.pause(&error).await,
            }
        }
    }

    async fn renew(&mut self, lease: &Lease) -> Result<Result<Lease, Lost>, Error> {
        if let Some(renewed) = self.write(Some(lease.clone())).await? {
            return Ok(Ok(renewed));
        }
        // Deleted, edited by somebody, renewed by a request of ours whose answer was lost, set back, or taken.
        let Some(live) = self.look().await? else { return Ok(Ok(self.write(None).await?.unwrap_or_default())) };
        let is_earlier = self.record.is_holder(&live) && precedes(&live, lease);
        let (lease, holder) = (self.name.clone(), record::holder(&live).to_owned());
        if record::is_free(&live) || self.record.is_ours(&live) || is_earlier {
            Ok(Ok(self.write(Some(live.clone())).await?.unwrap_or(live)))
        } else if self.record.is_holder(&live) {
            Ok(Err(Lost::Doubled { lease, identity: holder }))
        } else {
            Ok(Err(Lost::Taken { lease, holder }))
        }
    }

    async fn look(&self) -> Result<Option<Lease>, Error> {
        self.in_time(self.api.get_opt(&self.name)).await
    }

    /// Writes that we hold the lease, over the version that was seen. None if somebody was faster.
    async fn write(&mut self, seen: Option<Lease>) -> Result<Option<Lease>, Error> {
        let (params, began) = (PostParams::default(), Instant::now());
        let seen = seen.filter(|lease| lease.resource_version().is_some());
        let is_new = seen.is_none();
        let lease = match seen {
            None => self.record.first(&self.name),
            Some(seen) => self.record.over(seen),
        };
        let written = if is_new {
            self.in_time(self.api.create(&params, &lease)).await
        } else {
            self.in_time(self.api.replace(&self.name, &params, &lease)).await
        };
        match written {
            Ok(lease) => {
                self.record.arrived();
                self.has_led = true;
                self.well();
                self.leadership.hold(began, self.election.renew_deadline);
                Ok(Some(lease))
            }
            Err(error) if error.is_conflict() || !is_new && error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Lets another replica take over at once.
    async fn release(&self) {
        let freed = timeout(ANSWER, self.free()).await.unwrap_or(Err(Error::Silent));
        let outcome = freed.map_or_else(
            |error| format!("could not be released and will expire: {error}"),
            |()| "was released".to_owned(),
        );
        tracing::info!(lease = self.name, "the lease {outcome}");
    }

    async fn free(&self) -> Result<(), Error> {
        while let Some(lease) = self.look().await?.filter(|lease| self.record.is_holder(lease)) {
            let freed = record::freed(lease);
            match self.in_time(self.api.replace(&self.name, &PostParams::default(), &freed)).await {
                Err(error) if error.is_conflict() => {}
                other => return other.map(drop),
            }
        }
        Ok(())
    }

    async fn in_time<T>(&self, call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Error> {
        // An answer that is waited for too long must leave time for another try.
        let patience = ANSWER.min(self.election.renew_deadline / 2);
        timeout(patience, call).await.map_err(|_| Error::Silent)?.map_err(Error::Refused)
    }

    async fn pause(&mut self, error: &Error) {
        let hint = if error.is_missing() { "; does the namespace exist?" } else { "" };
        let trouble = format!("{error}{hint}");
        if self.trouble.as_ref() != Some(&trouble) {
            tracing::warn!(lease = self.name, "cannot work with the lease, trying again: {trouble}");
            self.trouble = Some(trouble);
        }
        sleep(self.election.retry_period).await;
    }

    fn well(&mut self) {
        if self.trouble.take().is_some() {
            tracing::info!(lease = self.name, "the lease can be worked with again");
        }
    }
}

/// Tells, in the log and among the metrics, when the leadership begins and ends.
fn told(
    lease: String,
    identity: String,
    leadership: &Leadership,
    metrics: &Metrics,
) -> impl Future<Output = ()> + use<> {
    let (leadership, metrics) = (leadership.clone(), metrics.clone());
    async move {
        tracing::info!(lease, identity, "standing by");
        let mut begun = Box::pin(leadership.begun());
        while begun.next().await.is_some() {
            metrics.leads(&lease, true);
            tracing::info!(lease, identity, "leading");
            let ended = leadership.ended().await;
            metrics.leads(&lease, false);
            if ended == Ended::Lapsed {
                tracing::error!(lease, identity, "could not renew the lease in time; nothing is written until it can");
            }
        }
    }
}

#[cfg(test)]
mod tests;
