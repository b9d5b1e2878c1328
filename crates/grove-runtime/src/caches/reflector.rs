//! The reflector (client-go's `ListAndWatch`): lists one kind, then watches it. It lists again when the server does not
//! know the resource version of the last event any more.
//!
//! kube's `watcher` cannot replace it. When the server closes a watch, the `watcher` starts the next one at once and returns
//! no event, so no backoff of its caller has an effect. When the server answers the watch request itself with 410, the
//! `watcher` repeats that request and never lists again.

use std::{
    fmt::{self, Debug, Display, Formatter},
    time::Duration,
};

use axum::http;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::{
    Api, Client, Resource,
    api::{ListParams, WatchEvent, WatchParams},
    core::{Request, Status, request},
    runtime::watcher,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout};

use super::{Filter, InformerOptions, Transform, unreadable_objects::DecodedObject};
use crate::{api_error::ApiError, backoff::Backoff, client::with_timeout, failure_log::FailureLog, metrics::Metrics};

/// The limit for one page of a list, and for the start of a watch.
const LIST_OR_WATCH_START_TIMEOUT: Duration = Duration::from_mins(1);
/// The server ends a watch after this many seconds if the configuration does not set another timeout.
const WATCH_SECONDS: u32 = 290;
/// A watch that ends earlier and without an event counts as a failure. So a server that closes every watch gets requests
/// with growing delays, not in a loop.
const MIN_WATCH_DURATION: Duration = Duration::from_secs(5);
/// The pause after a watch that ended early and brought events. A busy server closes the watches of slow clients.
const REWATCH_DELAY: Duration = Duration::from_millis(50);

/// A request as kube builds it.
type BuiltRequest = Result<http::Request<Vec<u8>>, request::Error>;

/// What the reflector reports to the cache.
pub(super) enum Event<K> {
    /// The informer waits for another kind, which is not available.
    NotStarted,
    /// The complete list.
    Replace(Vec<DecodedObject<K>>),
    /// The complete list of a server that was restored from a backup. Objects with known versions may have changed.
    ReplaceAfterRestore(Vec<DecodedObject<K>>),
    /// The API server does not serve the kind.
    NotServed,
    /// The account of the service may not list the kind, and the informer is optional.
    Forbidden,
    /// A list or a watch failed for this reason.
    Error(String),
    /// One object was created or changed.
    Apply(DecodedObject<K>),
    /// One object was deleted; this is its final state.
    Delete(DecodedObject<K>),
}

/// Lists and watches one kind.
pub(super) struct Reflector<K> {
    client: Client,
    /// Builds the requests for the kind.
    requests: Request,
    /// The name of the kind in logs and metrics.
    kind: String,
    config: watcher::Config,
    filter: Option<Filter<K>>,
    transform: Option<Transform<K>>,
    is_optional: bool,
    /// See [`InformerOptions::with_other_version`].
    use_other_version: Option<fn() -> String>,
    metrics: Metrics,
    backoff: Backoff,
    /// The resource version of the last event. `None` means that a list comes next.
    version: Option<String>,
    /// Whether the last watch ended before its timeout, so that the next one may reach another server.
    is_interrupted: bool,
    /// Whether a request had no answer, so that the server may have been restored from a backup meanwhile.
    was_unreachable: bool,
    failures: FailureLog,
}

/// The error of a request, or the status that a watch sent as its last event.
#[derive(Debug)]
struct Error(kube::Error);

impl Error {
    fn status(&self) -> Option<&Status> {
        if let kube::Error::Api(status) = &self.0 { Some(status) } else { None }
    }

    fn is_expired(&self) -> bool {
        self.status().is_some_and(|status| status.code == 410 || matches!(&*status.reason, "Expired" | "Gone"))
    }

    /// A list finds every kind that is served, so 404 means that the kind is not served.
    fn is_not_served(&self) -> bool {
        self.status().is_some_and(|status| status.code == 404)
    }

    fn is_forbidden(&self) -> bool {
        self.status().is_some_and(|status| status.code == 403)
    }

    /// A response or an event is not in the format of the API. kube reports such an event as a status without a code.
    fn is_malformed(&self) -> bool {
        matches!(self.0, kube::Error::SerdeError(_)) || self.status().is_some_and(|status| status.code == 0)
    }

    fn is_without_answer(&self) -> bool {
        self.status().is_none()
    }

    fn retry_after(&self) -> Duration {
        self.status().and_then(|status| ApiError::from(status).retry_after).unwrap_or_default()
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let error = ApiError::from(&self.0).for_required_access();
        if self.is_not_served() {
            write!(f, "{}", ApiError::not_served().message)
        } else if self.is_malformed() {
            // The error may contain a part of an object.
            write!(f, "the API server sent a list or an event that is not valid")
        } else if self.is_without_answer() {
            write!(f, "the API server cannot be reached: {}", error.message)
        } else {
            write!(f, "the API server answered {error}")
        }
    }
}

impl<K> Reflector<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    pub(super) fn new(api: Api<K>, kind: String, options: &InformerOptions<K>, metrics: Metrics) -> Self {
        let requests = Request::new(api.resource_url());
        Self {
            client: api.into_client(),
            requests,
            kind,
            config: options.config.clone(),
            filter: options.filter,
            transform: options.transform,
            is_optional: options.is_optional,
            use_other_version: options.use_other_version,
            metrics,
            backoff: Backoff::for_watches(),
            version: None,
            is_interrupted: false,
            was_unreachable: false,
            failures: FailureLog::default(),
        }
    }

    /// Never returns; the task that runs it ends with the process.
    pub(super) async fn run(mut self, mut sink: impl FnMut(Event<K>) + Send) {
        loop {
            let started = Instant::now();
            let (error, min_delay) = match self.list_and_watch(&mut sink).await {
                Ok(_) if started.elapsed() >= MIN_WATCH_DURATION => continue,
                Ok(events) if events > 0 => {
                    tokio::time::sleep(REWATCH_DELAY).await;
                    continue;
                }
                Ok(_) => ("the API server closed the watch at once".to_owned(), Duration::ZERO),
                Err(error) => {
                    self.is_interrupted = true;
                    self.was_unreachable |= error.is_without_answer();
                    let is_forbidden = self.is_optional && error.is_forbidden();
                    // After a malformed event, the next watch would receive the same event again. Without a watch, the objects of an
                    // optional informer would stay for ever, so the next list decides whether they may still be read.
                    if error.is_expired() || error.is_not_served() || error.is_malformed() || is_forbidden {
                        self.version = None;
                    }
                    (error.to_string(), error.retry_after())
                }
            };
            sink(Event::Error(error.clone()));
            self.back_off(&error, min_delay).await;
        }
    }

    async fn back_off(&mut self, error: &str, min_delay: Duration) {
        let kind = &self.kind;
        self.metrics.record_watch_failure(kind);
        let delay = self.backoff.next_delay().max(min_delay);
        if self.failures.should_log_failure(error) {
            tracing::warn!(kind, ?delay, "list and watch failed, retrying: {error}");
        }
        tokio::time::sleep(delay).await;
    }

    fn recovered(&mut self) {
        if self.failures.should_log_recovery() {
            tracing::info!(kind = self.kind, "the watch receives events again");
        }
    }

    /// Returns the number of events that the watch received before it ended.
    async fn list_and_watch(&mut self, sink: &mut impl FnMut(Event<K>)) -> Result<usize, Error> {
        let known = self.version.clone();
        let was_restored = match &known {
            Some(known) => !self.resource_version_is_current(known).await?,
            None => false,
        };
        let version = match known {
            Some(known) if !was_restored && !self.was_unreachable => known,
            _ => self.list_into(sink, was_restored).await?,
        };
        (self.version, self.is_interrupted) = (Some(version.clone()), false);
        self.watch(version, sink).await
    }

    async fn list_into(&mut self, sink: &mut impl FnMut(Event<K>), was_restored: bool) -> Result<String, Error> {
        let mut list = self.list().await;
        if let Some(use_other_version) =
            self.use_other_version.filter(|_| list.as_ref().is_err_and(Error::is_not_served))
        {
            self.requests = Request::new(use_other_version());
            list = self.list().await;
        }
        if list.as_ref().is_err_and(Error::is_not_served) {
            sink(Event::NotServed);
        }
        if self.is_optional && list.as_ref().is_err_and(Error::is_forbidden) {
            sink(Event::Forbidden);
        }
        let (version, objects) = list?;
        self.was_unreachable = false;
        sink(if was_restored { Event::ReplaceAfterRestore(objects) } else { Event::Replace(objects) });
        Ok(version)
    }

    /// Whether the server knows `version`. A server that was restored from an older backup sends no event until it reaches
    /// that version again, so after an interrupted watch the server's own version is read. This proves nothing after a
    /// time without answers: the server may have reached the version by other changes.
    async fn resource_version_is_current(&self, version: &str) -> Result<bool, Error> {
        if !self.is_interrupted {
            return Ok(true);
        }
        let params = ListParams { limit: Some(1), ..self.selectors() };
        let text = self.request_text("list_metadata", self.requests.list_metadata(&params)).await?;
        let newest = parse_list(&text)?.metadata.resource_version.unwrap_or_default();
        let (Ok(known), Ok(newest)) = (version.parse::<u64>(), newest.parse::<u64>()) else { return Ok(true) };
        if newest < known {
            let kind = &self.kind;
            tracing::warn!(kind, known, newest, "the API server was restored from a backup; listing all objects again");
        }
        Ok(newest >= known)
    }

    fn selectors(&self) -> ListParams {
        ListParams {
            label_selector: self.config.label_selector.clone(),
            field_selector: self.config.field_selector.clone(),
            ..ListParams::default()
        }
    }

    async fn list(&self) -> Result<(String, Vec<DecodedObject<K>>), Error> {
        let mut params = ListParams { limit: self.config.page_size, ..self.selectors() };
        let mut objects = vec![];
        loop {
            let text = self.request_text("list", self.requests.list(&params)).await?;
            let metadata = self.decode_page(&text, &mut objects)?;
            params.continue_token = metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                self.metrics.record_list(&self.kind);
                return Ok((metadata.resource_version.unwrap_or_default(), objects));
            }
        }
    }

    /// Each page is filtered before the next one is read, so that filtered objects never add up in memory.
    fn decode_page(&self, text: &str, objects: &mut Vec<DecodedObject<K>>) -> Result<ListMeta, Error> {
        let RawList { metadata, items } = parse_list(text)?;
        let items = items.into_iter().flatten().map(|item| self.decode(item));
        objects.extend(items.filter(|item| self.is_stored(item)));
        Ok(metadata)
    }

    fn is_stored(&self, object: &DecodedObject<K>) -> bool {
        let DecodedObject::Readable(object) = object else { return true };
        self.filter.is_none_or(|filter| filter(object))
    }

    /// Sends a request of this name. The name is in traces.
    #[expect(clippy::disallowed_methods, reason = "the reflector decodes each object of a list on its own")]
    async fn request_text(&self, name: &'static str, request: BuiltRequest) -> Result<String, Error> {
        let text = self.client.request_text(named(name, request)?);
        with_timeout(LIST_OR_WATCH_START_TIMEOUT, text).await.map_err(Error)
    }

    #[expect(clippy::disallowed_methods, reason = "the reflector decodes each object of a watch on its own")]
    async fn watch(&mut self, version: String, sink: &mut impl FnMut(Event<K>)) -> Result<usize, Error> {
        let seconds = self.config.timeout.unwrap_or(WATCH_SECONDS);
        let params = WatchParams {
            label_selector: self.config.label_selector.clone(),
            field_selector: self.config.field_selector.clone(),
            timeout: Some(seconds),
            ..WatchParams::default()
        };
        let requested = Duration::from_secs(seconds.into());
        let started = Instant::now();
        let request = named("watch", self.requests.watch(&params, &version))?;
        let events = self.client.request_events::<Box<RawValue>>(request);
        let mut events = with_timeout(LIST_OR_WATCH_START_TIMEOUT, events).await.map_err(Error)?.boxed();
        self.metrics.record_watch(&self.kind);
        let mut received = 0;
        // Without this timeout a connection that broke unnoticed would stay silent for ever.
        while let Ok(event) = timeout(requested + Duration::from_secs(10), events.try_next()).await {
            match event.map_err(Error)? {
                None => {
                    self.is_interrupted = started.elapsed() + Duration::from_secs(1) < requested;
                    return Ok(received);
                }
                Some(event) => self.forward(event, sink)?,
            }
            received += 1;
        }
        self.is_interrupted = true;
        Ok(received)
    }

    fn forward(&mut self, event: WatchEvent<Box<RawValue>>, sink: &mut impl FnMut(Event<K>)) -> Result<(), Error> {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => sink(Event::Apply(self.decode_event(&object))),
            WatchEvent::Deleted(object) => sink(Event::Delete(self.decode_event(&object))),
            WatchEvent::Bookmark(bookmark) => self.version = Some(bookmark.metadata.resource_version),
            WatchEvent::Error(status) => return Err(Error(kube::Error::Api(status))),
        }
        self.recovered();
        Ok(())
    }

    fn decode(&self, json: &RawValue) -> DecodedObject<K> {
        let mut object = DecodedObject::from_json(json.get());
        if let (DecodedObject::Readable(object), Some(transform)) = (&mut object, self.transform) {
            transform(object);
        }
        object
    }

    fn decode_event(&mut self, object: &RawValue) -> DecodedObject<K> {
        let object = self.decode(object);
        if let Some(version) = &object.metadata().resource_version {
            self.version = Some(version.clone());
        }
        object
    }
}

fn named(name: &'static str, request: BuiltRequest) -> Result<http::Request<Vec<u8>>, Error> {
    let mut request = request.map_err(|error| Error(kube::Error::BuildRequest(error)))?;
    request.extensions_mut().insert(name);
    Ok(request)
}

/// A list with the JSON of each item.
#[derive(Deserialize)]
struct RawList<'a> {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

fn parse_list(text: &str) -> Result<RawList<'_>, Error> {
    serde_json::from_str(text).map_err(|error| Error(kube::Error::SerdeError(error)))
}
