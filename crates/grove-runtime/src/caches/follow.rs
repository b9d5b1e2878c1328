//! List, then watch, then watch on from where the last one ended; list again when the server has forgotten that place.
//!
//! Written out instead of taken from kube's `watcher`, because that one starts again at once when the server closes a
//! watch, and never lists again when the server answers a watch request itself with 410.

use std::{
    fmt::{self, Debug, Display, Formatter},
    future::Future,
    time::Duration,
};

use futures::{StreamExt, TryStreamExt};
use kube::{
    Api, Resource, ResourceExt,
    api::{ListParams, WatchEvent, WatchParams},
    core::Status,
    runtime::watcher,
};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout};

use super::Keep;
use crate::{api_error::ApiError, api_error::error_chain, backoff::Backoff, metrics::Metrics};

/// A list page or the start of a watch takes no longer.
const ANSWER: Duration = Duration::from_mins(1);
/// The server ends a watch after this many seconds if the configuration does not say otherwise.
const WATCH_SECONDS: u32 = 290;
/// A watch that ends sooner and brought nothing counts as a failure, so that a server that closes every watch is not asked
/// in a loop.
const SOON: Duration = Duration::from_secs(5);
/// One that brought something goes on after this pause: a busy server closes watches that it has too much to send to.
const BREATH: Duration = Duration::from_millis(50);

/// What the cache has to take in.
pub(super) enum Event<K> {
    /// Everything there is.
    Listed(Vec<K>),
    /// Everything there is, on a server that was set back: equal versions do not mean equal objects.
    Relisted(Vec<K>),
    /// The API server does not know the kind.
    NotServed,
    /// Nothing new, and why.
    Trouble(String),
    /// One object that came or changed.
    Applied(K),
    /// The final state of one object.
    Deleted(K),
}

pub(super) struct Follower<K> {
    api: Api<K>,
    config: watcher::Config,
    keep: Option<Keep<K>>,
    metrics: Metrics,
    backoff: Backoff,
    /// Up to where the changes are known; absent means that a list is due.
    version: Option<String>,
    /// Whether the last watch ended otherwise than it was asked to, so that the server may be another one by now.
    is_broken: bool,
    /// Whether the server was out of reach, so that it may have been restored from a backup meanwhile.
    was_away: bool,
    /// What was told last, so that it is told once.
    trouble: Option<String>,
}

#[derive(Debug)]
enum Error {
    Refused(kube::Error),
    Ended(Box<Status>),
    Silent,
}

impl Error {
    fn status(&self) -> Option<&Status> {
        match self {
            Self::Refused(kube::Error::Api(status)) | Self::Ended(status) => Some(status),
            Self::Refused(_) | Self::Silent => None,
        }
    }

    fn is_gone(&self) -> bool {
        self.status().is_some_and(|status| status.code == 410 || matches!(&*status.reason, "Expired" | "Gone"))
    }

    /// Whether the kind itself is unknown; of a list, that is the only thing which can be.
    fn is_not_served(&self) -> bool {
        self.status().is_some_and(|status| status.code == 404)
    }

    /// Whether there was no answer at all.
    fn is_of_the_way(&self) -> bool {
        self.status().is_none()
    }

    fn retry_after(&self) -> Duration {
        let seconds = self.status().and_then(|status| status.details.as_ref()).map_or(0, |d| d.retry_after_seconds);
        Duration::from_secs(seconds.into())
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent => write!(f, "the API server did not answer within {ANSWER:?}"),
            _ if self.is_not_served() => {
                write!(f, "the API server does not serve this kind; its definition has to be installed")
            }
            Self::Refused(kube::Error::Api(status)) | Self::Ended(status) => {
                write!(f, "the API server says {}", ApiError::for_required_access(status))
            }
            Self::Refused(error) => write!(f, "the API server cannot be reached: {}", error_chain(error)),
        }
    }
}

impl<K> Follower<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    pub(super) fn new(api: Api<K>, config: watcher::Config, keep: Option<Keep<K>>, metrics: Metrics) -> Self {
        let backoff = Backoff::for_watches();
        Self { api, config, keep, metrics, backoff, version: None, is_broken: false, was_away: false, trouble: None }
    }

    /// Never returns; the task that runs it ends with the process.
    pub(super) async fn run(mut self, mut sink: impl FnMut(Event<K>) + Send) {
        loop {
            let started = Instant::now();
            let (trouble, at_least) = match self.round(&mut sink).await {
                Ok(_) if started.elapsed() >= SOON => continue,
                Ok(brought) if brought > 0 => {
                    tokio::time::sleep(BREATH).await;
                    continue;
                }
                Ok(_) => ("the API server closed the watch at once".to_owned(), Duration::ZERO),
                Err(error) => {
                    self.is_broken = true;
                    self.was_away |= error.is_of_the_way();
                    if error.is_gone() || error.is_not_served() {
                        self.version = None;
                    }
                    (error.to_string(), error.retry_after())
                }
            };
            sink(Event::Trouble(trouble.clone()));
            self.pause(trouble, at_least).await;
        }
    }

    async fn pause(&mut self, trouble: String, at_least: Duration) {
        let kind = K::kind(&());
        self.metrics.record_watch_failure(&kind);
        let delay = self.backoff.failed().max(at_least);
        if self.trouble.as_ref() != Some(&trouble) {
            tracing::warn!(%kind, ?delay, "cannot follow the changes, trying again: {trouble}");
            self.trouble = Some(trouble);
        }
        tokio::time::sleep(delay).await;
    }

    fn well(&mut self) {
        if self.trouble.take().is_some() {
            tracing::info!(kind = %K::kind(&()), "the changes can be followed again");
        }
    }

    /// Returns how many events the watch brought before it ended.
    async fn round(&mut self, sink: &mut impl FnMut(Event<K>)) -> Result<usize, Error> {
        let known = self.version.clone();
        let is_set_back = match &known {
            Some(known) => !self.stands(known).await?,
            None => false,
        };
        let version = match known {
            Some(known) if !is_set_back && !self.was_away => known,
            _ => self.list_into(sink, is_set_back).await?,
        };
        (self.version, self.is_broken) = (Some(version.clone()), false);
        self.watch(version, sink).await
    }

    async fn list_into(&mut self, sink: &mut impl FnMut(Event<K>), is_set_back: bool) -> Result<String, Error> {
        let listed = self.list().await;
        if listed.as_ref().is_err_and(Error::is_not_served) {
            sink(Event::NotServed);
        }
        let (version, objects) = listed?;
        self.was_away = false;
        sink(if is_set_back { Event::Relisted(objects) } else { Event::Listed(objects) });
        Ok(version)
    }

    /// Whether what follows `version` can be watched. A server that was set back to an earlier state would say nothing
    /// until it has come as far again; so after a watch that broke it is asked how far it is. That proves nothing of one
    /// that was away for a while: it may have come as far again, by other changes.
    async fn stands(&self, version: &str) -> Result<bool, Error> {
        if !self.is_broken {
            return Ok(true);
        }
        let params = ListParams { limit: Some(1), ..self.selection() };
        let newest = answer(self.api.list_metadata(&params)).await?.metadata.resource_version.unwrap_or_default();
        let (Ok(known), Ok(is)) = (version.parse::<u64>(), newest.parse::<u64>()) else { return Ok(true) };
        if is < known {
            tracing::warn!(kind = %K::kind(&()), known, is, "the API server was set back; reading everything anew");
        }
        Ok(is >= known)
    }

    fn selection(&self) -> ListParams {
        ListParams {
            label_selector: self.config.label_selector.clone(),
            field_selector: self.config.field_selector.clone(),
            ..ListParams::default()
        }
    }

    async fn list(&self) -> Result<(String, Vec<K>), Error> {
        let mut params = ListParams { limit: self.config.page_size, ..self.selection() };
        let mut objects = vec![];
        loop {
            let page = answer(self.api.list(&params)).await?;
            // What is not kept is dropped page by page, so that a list of much for little costs little.
            let kept = page.items.into_iter().filter(|object| self.keep.is_none_or(|keep| keep(object)));
            objects.extend(kept.map(slimmed));
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                self.metrics.record_list(&K::kind(&()));
                return Ok((page.metadata.resource_version.unwrap_or_default(), objects));
            }
        }
    }

    async fn watch(&mut self, version: String, sink: &mut impl FnMut(Event<K>)) -> Result<usize, Error> {
        let seconds = self.config.timeout.unwrap_or(WATCH_SECONDS);
        let params = WatchParams {
            label_selector: self.config.label_selector.clone(),
            field_selector: self.config.field_selector.clone(),
            timeout: Some(seconds),
            ..WatchParams::default()
        };
        let asked = Duration::from_secs(seconds.into());
        let began = Instant::now();
        let mut events = answer(self.api.watch(&params, &version)).await?.boxed();
        let mut brought = 0;
        // A connection that died unnoticed would stay silent for ever.
        while let Ok(event) = timeout(asked + Duration::from_secs(10), events.try_next()).await {
            match event.map_err(Error::Refused)? {
                None => {
                    self.is_broken = began.elapsed() + Duration::from_secs(1) < asked;
                    return Ok(brought);
                }
                Some(event) => self.take(event, sink)?,
            }
            brought += 1;
        }
        self.is_broken = true;
        Ok(brought)
    }

    fn take(&mut self, event: WatchEvent<K>, sink: &mut impl FnMut(Event<K>)) -> Result<(), Error> {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                self.version = object.resource_version();
                sink(Event::Applied(slimmed(object)));
            }
            WatchEvent::Deleted(object) => {
                self.version = object.resource_version();
                sink(Event::Deleted(slimmed(object)));
            }
            WatchEvent::Bookmark(bookmark) => self.version = Some(bookmark.metadata.resource_version),
            WatchEvent::Error(status) => return Err(Error::Ended(status)),
        }
        self.well();
        Ok(())
    }
}

async fn answer<T>(call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Error> {
    timeout(ANSWER, call).await.map_err(|_| Error::Silent)?.map_err(Error::Refused)
}

// Managed fields are half of an object, and no rule reads them.
fn slimmed<K: Resource>(mut object: K) -> K {
    object.meta_mut().managed_fields = None;
    object
}
