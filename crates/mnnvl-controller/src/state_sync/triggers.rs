//! The mapper from an object of a domain to the domain.

use std::borrow::Cow;

use futures::Stream;
use futures::stream::{self, StreamExt};
use grove_runtime::caches::{Cache, Delta};
use kube::Resource;
use kube::runtime::reflector::ObjectRef;

use super::domain::SyncedDomain;
use super::informers::BY_UID;

/// The UIDs of the domains of an object.
type DomainsOf<K> = fn(&K) -> Vec<Cow<'_, str>>;

/// The domains of each changed object.
pub(super) fn domains_of_changed<K: Resource + Send + Sync + 'static>(
    domains: &Cache<SyncedDomain>,
    objects: &Cache<K>,
    uids: DomainsOf<K>,
) -> impl Stream<Item = ObjectRef<SyncedDomain>> + Send + 'static {
    let domains = domains.clone();
    objects.subscribe().flat_map(move |delta| stream::iter(domains_of(&domains, &delta, uids)))
}

/// The domains of the object before and after the change.
pub(super) fn domains_of<K>(
    domains: &Cache<SyncedDomain>,
    delta: &Delta<K>,
    uids: DomainsOf<K>,
) -> Vec<ObjectRef<SyncedDomain>> {
    let versions = delta.old.iter().chain(&delta.new);
    let found = versions.flat_map(|object| uids(object)).flat_map(|uid| domains.by_index(&BY_UID, &uid));
    found.map(|domain| ObjectRef::from_obj(&*domain)).collect()
}
