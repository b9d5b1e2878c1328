//! The watches of a daemon: of its own pod, and of the one object with the entries of its peers.

use futures::stream::{self, BoxStream, Stream, StreamExt};
use grove_api_types::compute_domain::ComputeDomainState;
use grove_api_types::compute_domain::clique::ComputeDomainClique;
use grove_api_types::compute_domain::daemon::Input;
use grove_api_types::compute_domain::daemon_pod::DaemonPodObject;
use grove_api_types::compute_domain::daemon_state::Identity;
use grove_api_types::compute_domain::state_object::StateObject;
use grove_api_types::compute_domain::strategy::Strategy;
use grove_process::api_error::{ApiError, error_chain};
use grove_process::failure_log::FailureLog;
use kube::core::NamespaceResourceScope;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

/// The versions of the own pod.
pub fn own_pod(client: &Client, identity: &Identity) -> BoxStream<'static, Input> {
    let pods = Api::<DaemonPodObject>::namespaced(client.clone(), &identity.driver_namespace);
    // A daemon does not outlive its pod.
    versions(pods, &identity.pod_name)
        .filter_map(async |version| match version {
            Version::Exists(pod) => Some(Input::PodChanged { is_ready: pod.is_ready(), published: pod.index() }),
            Version::Missing => None,
        })
        .boxed()
}

/// The versions of the object with the entries. A daemon without fabric has no peers.
pub fn entries(client: &Client, identity: &Identity, strategy: Strategy) -> BoxStream<'static, Input> {
    if identity.clique.is_empty() {
        return stream::empty().boxed();
    }
    if strategy.has_cliques() {
        let cliques = Api::namespaced(client.clone(), &identity.driver_namespace);
        return inputs::<ComputeDomainClique>(cliques, &identity.clique_object_name());
    }
    let domains = Api::namespaced(client.clone(), &identity.domain_namespace);
    inputs::<ComputeDomainState>(domains, &identity.domain_name)
}

fn inputs<K>(api: Api<K>, name: &str) -> BoxStream<'static, Input>
where
    K: WatchedKind + Into<StateObject>,
{
    let input = |version| match version {
        Version::Exists(object) => Input::ObjectChanged(K::into(object)),
        Version::Missing => Input::ObjectDeleted,
    };
    versions(api, name).map(input).boxed()
}

/// A kind that a daemon watches.
trait WatchedKind:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static
{
}

impl<K> WatchedKind for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug
        + Send
        + 'static
{
}

/// What a watch knows about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Version<K> {
    /// It exists in this version.
    Exists(K),
    /// It does not exist.
    Missing,
}

/// Each version of the object `name`. The watch is retried with backoff.
fn versions<K: WatchedKind>(api: Api<K>, name: &str) -> impl Stream<Item = Version<K>> + Send + 'static {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let (mut failures, mut is_listed) = (FailureLog::default(), false);
    let events = watcher(api, config).default_backoff();
    events.filter_map(move |event| {
        log(&K::kind(&()), &event, &mut failures);
        std::future::ready(event.ok().and_then(|event| version(event, &mut is_listed)))
    })
}

/// Logs the first failure of the watch, and its recovery.
fn log<K>(kind: &str, event: &Result<Event<K>, watcher::Error>, failures: &mut FailureLog) {
    match event {
        Ok(_) if failures.should_log_recovery() => tracing::info!(kind, "the watch works again"),
        Ok(_) => {}
        Err(error) => log_failure(kind, &reason(error), failures),
    }
}

/// Why the watch failed, with what to do about it.
fn reason(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => ApiError::from(error).to_string(),
        watcher::Error::WatchError(status) => ApiError::from(&**status).to_string(),
        watcher::Error::NoResourceVersion => error_chain(error),
    }
}

fn log_failure(kind: &str, error: &str, failures: &mut FailureLog) {
    if failures.should_log_failure(error) {
        tracing::warn!(kind, "the watch failed: {error}");
    }
}

/// The version of the object after the event. `is_listed`: whether the current list contains it.
fn version<K>(event: Event<K>, is_listed: &mut bool) -> Option<Version<K>> {
    match event {
        Event::Init => {
            *is_listed = false;
            None
        }
        Event::InitApply(object) => {
            *is_listed = true;
            Some(Version::Exists(object))
        }
        Event::InitDone => (!*is_listed).then_some(Version::Missing),
        Event::Apply(object) => Some(Version::Exists(object)),
        Event::Delete(_) => Some(Version::Missing),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::Version::{Exists, Missing};
    use super::*;

    #[test]
    fn an_expired_token_is_named() {
        let unauthorized = || Box::new(Status::failure("Unauthorized", "Unauthorized").with_code(401));
        let expected = "401 Unauthorized: Unauthorized; the token of this service is not accepted, it may have expired";
        assert_eq!(reason(&watcher::Error::InitialListFailed(kube::Error::Api(unauthorized()))), expected);
        assert_eq!(reason(&watcher::Error::WatchError(unauthorized())), expected);
    }

    #[test]
    fn an_object_that_a_list_lacks_is_deleted() {
        let mut is_listed = false;
        let mut versions = |events: Vec<Event<u8>>| -> Vec<Version<u8>> {
            events.into_iter().filter_map(|event| version(event, &mut is_listed)).collect()
        };
        assert_eq!(versions(vec![Event::Init, Event::InitApply(1), Event::InitDone]), [Exists(1)]);
        assert_eq!(versions(vec![Event::Apply(2), Event::Delete(2), Event::Apply(3)]), [Exists(2), Missing, Exists(3)]);
        assert_eq!(versions(vec![Event::Init, Event::InitDone]), [Missing]);
    }
}
