//! Keeps the certificate that is made here: all replicas serve what the Secret holds; the one that leads renews it.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use grove_runtime::clock::Clock;
use grove_runtime::leadership::Leadership;
use grove_runtime::ready::{Ready, ReadyHandle};
use grove_runtime::runtime::Runtime;
use k8s_openapi::ByteString;
use k8s_openapi::jiff::Timestamp;
use tokio::time::sleep;

use super::authority::{self, Pair};
use super::observe::{self, Seen};
use super::observed::{AUTHORITIES, AUTHORITY_KEY, CERTIFICATE, CERTIFICATE_KEY, Configuration, Kept, Observed};
use super::plan::{Plan, Terms, plan};
use super::publish::{self, Publisher};
use super::{Identity, identity};
use crate::metrics::Counters;

/// After a failure it is tried again.
const AGAIN: Duration = Duration::from_secs(1);
/// No timer is set for longer: nobody tells when a clock is set right, and looking costs nothing.
const LONGEST: Duration = Duration::from_mins(1);
/// As many authorities are trusted: the newest, the one that vouches for what is served, and one more, should a replica be
/// slow.
const TRUSTED: usize = 3;

pub(crate) struct Keeper {
    seen: Seen,
    changes: BoxStream<'static, ()>,
    terms: Terms,
    identity: Identity,
    /// Until the certificate is served and trusted.
    ready: Option<ReadyHandle>,
    publisher: Publisher,
    leadership: Leadership,
    clock: Clock,
    counters: Counters,
    /// The newest authority, and since when it has been seen to be trusted.
    trusted: Option<(String, Timestamp)>,
    /// Whether cert-manager was seen to look after the Secret.
    leaves_alone: bool,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
    #[error("cannot write the certificate or who vouches for it: {0}")]
    Write(#[from] publish::Error),
}

impl Keeper {
    pub(crate) fn new(
        service: &Runtime,
        terms: Terms,
        (identity, ready): (Identity, ReadyHandle),
        counters: &Counters,
    ) -> Self {
        let (seen, changes) = observe::follow(service);
        let publisher = Publisher {
            client: service.client(),
            metrics: service.metrics().clone(),
            namespace: service.namespace().to_owned(),
            secret: service.config().server.webhooks.secret_name.clone(),
        };
        Self {
            seen,
            changes,
            terms,
            identity,
            ready: Some(ready),
            publisher,
            leadership: service.leadership().clone(),
            clock: service.clock(),
            counters: counters.clone(),
            trusted: None,
            leaves_alone: false,
        }
    }

    /// Keeps it, from when the caches are filled.
    pub(crate) async fn run(mut self, caches: Ready) {
        caches.wait().await;
        let mut begun = Box::pin(self.leadership.started_leading());
        loop {
            let seen = self.look();
            let plan = plan(&seen, &self.terms, self.clock.now());
            self.tell(&seen, &plan);
            let pause = match plan {
                Plan::Rest(until) => self.time_until(until),
                step @ (Plan::Begin | Plan::Authority | Plan::Certificate | Plan::Inject(_)) => {
                    if self.leadership.is_held() { self.take(&seen, &step).await } else { LONGEST }
                }
            };
            tokio::select! {
                Some(()) = self.changes.next() => {}
                Some(()) = begun.next() => {}
                () = sleep(pause) => {}
            }
        }
    }

    /// Serves what the Secret holds, and says what is seen.
    fn look(&mut self) -> Observed {
        let mut seen = self.seen.observed();
        // What cert-manager has made nobody trusts before it says so a moment later; what is served is trusted until then.
        let must_wait = seen.theirs.is_some() && self.identity.is_there() && seen.lacking().next().is_some();
        if let Some((certificate, key)) = self.seen.pair().filter(|_| !must_wait) {
            self.assume(&certificate, &key);
        }
        self.tell_whose(&seen);
        let newest = seen.kept.as_ref().map(|kept| (kept.authority.pem.clone(), kept.bundle.clone()));
        self.trusted =
            newest.filter(|(_, bundle)| seen.configurations.iter().all(|one| one.has(bundle))).map(|(authority, _)| {
                let now = self.clock.now();
                match self.trusted.take() {
                    // A clock that was ahead must not be waited for.
                    Some((known, since)) if known == authority => (known, since.min(now)),
                    Some(_) | None => (authority, now),
                }
            });
        seen.trusted_since = self.trusted.as_ref().map(|(_, since)| *since);
        seen
    }

    fn assume(&self, certificate: &ByteString, key: &ByteString) {
        match self.identity.assume(&certificate.0, &key.0) {
            Ok(true) => {
                let served = String::from_utf8_lossy(&certificate.0);
                identity::tell(&served, &self.counters);
            }
            Ok(false) => {}
            Err(error) => tracing::warn!("the Secret holds no certificate that can be served: {error}"),
        }
    }

    fn tell_whose(&mut self, seen: &Observed) {
        let is_theirs = seen.theirs.is_some();
        if is_theirs && !self.leaves_alone {
            tracing::warn!(
                secret = self.publisher.secret,
                "cert-manager looks after the Secret, so nothing is renewed here: start with --cert-provision-mode=manual, or \
                 delete the Certificate and then the Secret"
            );
        }
        self.leaves_alone = is_theirs;
    }

    /// Ready means: whoever is told to trust anybody by our configurations trusts what is served here.
    fn tell(&mut self, seen: &Observed, plan: &Plan) {
        let lacking: Vec<_> = seen.lacking().map(|one| one.name.as_str()).collect();
        let why = if *plan == Plan::Begin || !self.identity.is_there() {
            Some("the Secret does not hold one yet".to_owned())
        } else if lacking.is_empty() {
            None
        } else {
            Some(["the API server is not told to trust it yet by ", &lacking.join(", ")].concat())
        };
        match (why, self.ready.take()) {
            (Some(why), Some(ready)) => {
                ready.waits_because(&why);
                self.ready = Some(ready);
            }
            (None, Some(ready)) => ready.ready(),
            (_, None) => {}
        }
    }

    /// Does it, unless the lead ends meanwhile. Returns how long to wait if nothing changes by it.
    async fn take(&self, seen: &Observed, step: &Plan) -> Duration {
        let taken = tokio::select! {
            taken = self.carry_out(seen, step) => taken,
            _ = self.leadership.stopped_leading() => return AGAIN,
        };
        match taken {
            Ok(()) => {}
            Err(Error::Write(error)) if error.is_conflict() => {}
            Err(error) => tracing::warn!("{error}"),
        }
        AGAIN
    }

    async fn carry_out(&self, seen: &Observed, step: &Plan) -> Result<(), Error> {
        let version = seen.secret.as_deref();
        match (step, &seen.kept) {
            (Plan::Authority, Some(kept)) => self.add_authority(version, kept).await,
            (Plan::Certificate, Some(kept)) => self.renew(version, kept).await,
            (Plan::Inject(lacking), _) => self.inject(lacking, seen.bundle().unwrap_or_default()).await,
            (Plan::Begin | Plan::Authority | Plan::Certificate, _) => self.begin(version).await,
            (Plan::Rest(_), _) => Ok(()),
        }
    }

    async fn begin(&self, version: Option<&str>) -> Result<(), Error> {
        let (now, terms) = (self.clock.now(), &self.terms);
        let ca = authority::authority(now, terms.authority_period)?;
        let issuer = (ca.certificate.as_str(), ca.key.as_str());
        let Pair { certificate, key } = authority::certificate(issuer, &terms.names, now, terms.certificate_period)?;
        let all = [
            (AUTHORITIES, ca.certificate.clone()),
            (AUTHORITY_KEY, ca.key.clone()),
            (CERTIFICATE, certificate),
            (CERTIFICATE_KEY, key),
        ];
        self.write(version, all).await?;
        tracing::info!("the first authority and certificate");
        Ok(())
    }

    async fn add_authority(&self, version: Option<&str>, kept: &Kept) -> Result<(), Error> {
        let now = self.clock.now();
        let Pair { certificate, key } = authority::authority(now, self.terms.authority_period)?;
        let bundle = kept.bundle_with(&certificate, now, TRUSTED);
        self.write(version, [(AUTHORITIES, bundle), (AUTHORITY_KEY, key)]).await?;
        tracing::info!("a new authority; it vouches once the API server trusts it");
        Ok(())
    }

    async fn renew(&self, version: Option<&str>, kept: &Kept) -> Result<(), Error> {
        let (now, terms) = (self.clock.now(), &self.terms);
        let issuer = (kept.authority.pem.as_str(), kept.authority_key.as_str());
        let Pair { certificate, key } = authority::certificate(issuer, &terms.names, now, terms.certificate_period)?;
        Ok(self.write(version, [(CERTIFICATE, certificate), (CERTIFICATE_KEY, key)]).await?)
    }

    async fn inject(&self, lacking: &[Configuration], bundle: &str) -> Result<(), Error> {
        for configuration in lacking {
            self.publisher.inject(configuration, bundle).await?;
            tracing::info!(configuration = configuration.name, "the API server is told whom to trust");
        }
        Ok(())
    }

    async fn write<const N: usize>(
        &self,
        version: Option<&str>,
        data: [(&str, String); N],
    ) -> Result<(), publish::Error> {
        let data: BTreeMap<_, _> =
            data.into_iter().map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes()))).collect();
        self.publisher.secret(version, data).await
    }

    fn time_until(&self, then: Timestamp) -> Duration {
        let left = then.duration_since(self.clock.now());
        Duration::try_from(left).unwrap_or_default().min(LONGEST)
    }
}
