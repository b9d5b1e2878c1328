//! List, then watch, then watch on from where the last one ended; list again when the server has forgotten that place.
//!
//! Written out instead of taken from kube's `watcher`, because that one starts again at once when the server closes a
//! watch, and never lists again when the server answers a watch request itself with 410.

use std::{fmt::Debug, future::Future, time::Duration};

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
use crate::{backoff::Backoff, metrics::Metrics, telemetry::error_chain};

/// A list page or the start of a watch takes no longer.
const ANSWER: Duration = Duration::from_mins(1);
/// The server ends a watch after this many seconds if the configuration does not say otherwise.
const WATCH_SECONDS: u32 = 290;
/// A watch that ends sooner counts as a failure, so that a server that closes every watch is not asked in a loop.
const SOON: Duration = Duration::from_secs(5);

/// What the cache has to take in.
pub(super) enum Event<K> {
    /// Everything there is.
    Listed(Vec<K>),
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
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the API server refused")]
    Refused(#[source] kube::Error),
    #[error("the API server ended the watch: {0}")]
    Ended(Box<Status>),
    #[error("the API server did not answer within {ANSWER:?}")]
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

    fn retry_after(&self) -> Duration {
        let seconds = self.status().and_then(|status| status.details.as_ref()).map_or(0, |d| d.retry_after_seconds);
        Duration::from_secs(seconds.into())
    }
}

impl<K> Follower<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    pub(super) fn new(api: Api<K>, config: watcher::Config, keep: Option<Keep<K>>, metrics: Metrics) -> Self {
        Self { api, config, keep, metrics, backoff: Backoff::for_watches(), version: None }
    }

    /// Never returns; the task that runs it ends with the process.
    pub(super) async fn run(mut self, mut sink: impl FnMut(Event<K>) + Send) {
        loop {
            let started = Instant::now();
            match self.round(&mut sink).await {
                Ok(()) if started.elapsed() >= SOON => {}
                Ok(()) => self.pause("the API server closed the watch at once", Duration::ZERO).await,
                Err(error) => {
                    if error.is_gone() {
                        self.version = None;
                    }
                    self.pause(&error_chain(&error), error.retry_after()).await;
                }
            }
        }
    }

    async fn pause(&mut self, trouble: &str, at_least: Duration) {
        let kind = K::kind(&());
        self.metrics.watch_failed(&kind);
        let delay = self.backoff.failed().max(at_least);
        tracing::warn!(%kind, ?delay, "watch: {trouble}");
        tokio::time::sleep(delay).await;
    }

    async fn round(&mut self, sink: &mut impl FnMut(Event<K>)) -> Result<(), Error> {
        let version = match self.version.take() {
            Some(version) => version,
            None => self.list(sink).await?,
        };
        self.version = Some(version.clone());
        self.watch(version, sink).await
    }

    async fn list(&self, sink: &mut impl FnMut(Event<K>)) -> Result<String, Error> {
        let mut params = ListParams {
            label_selector: self.config.label_selector.clone(),
            field_selector: self.config.field_selector.clone(),
            limit: self.config.page_size,
            ..ListParams::default()
        };
        let mut objects = vec![];
        loop {
            let page = answer(self.api.list(&params)).await?;
            // What is not kept is dropped page by page, so that a list of much for little costs little.
            let kept = page.items.into_iter().filter(|object| self.keep.is_none_or(|keep| keep(object)));
            objects.extend(kept.map(slimmed));
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                self.metrics.listed(&K::kind(&()));
                sink(Event::Listed(objects));
                return Ok(page.metadata.resource_version.unwrap_or_default());
            }
        }
    }

    async fn watch(&mut self, version: String, sink: &mut impl FnMut(Event<K>)) -> Result<(), Error> {
        let seconds = self.config.timeout.unwrap_or(WATCH_SECONDS);
        let params = WatchParams {
            label_selector: self.config.label_selector.clone(),
            field_selector: self.config.field_selector.clone(),
            timeout: Some(seconds),
            ..WatchParams::default()
        };
        // A connection that died unnoticed would stay silent for ever.
        let silence = Duration::from_secs(u64::from(seconds) + 10);
        let mut events = answer(self.api.watch(&params, &version)).await?.boxed();
        while let Ok(event) = timeout(silence, events.try_next()).await {
            match event.map_err(Error::Refused)? {
                None => return Ok(()),
                Some(event) => self.take(event, sink)?,
            }
        }
        Ok(())
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
