//! The rejected creates of all owners by kind, and the order in which the owners of a namespace wait for released quota.

use std::{collections::BTreeMap, time::Duration};

use grove_runtime::backoff::Backoff;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use tokio::time::Instant;

use super::{MAX_REJECTED_BYTES, MAX_REJECTIONS, RejectedCreate};

/// The interval of the retries of all owners of a namespace that wait for quota.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// Also if many owners wait, each retries after this time, because only a retry notices a larger quota.
const MAX_RETRY_DELAY: Duration = Duration::from_mins(1);

/// The parts of an owner that alike children are created from: they copy its labels and annotations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnerVersion {
    generation: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

impl OwnerVersion {
    pub(super) fn of(owner: &impl Resource) -> Self {
        let ObjectMeta { generation, labels, annotations, .. } = owner.meta().clone();
        Self { generation, labels, annotations }
    }
}

/// The kind of rejected creates, and whether their rejection concerns the kind or single objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KindKey {
    /// Group and kind.
    pub(super) kind: String,
    pub(super) concerns_kind: bool,
}

/// Rejected creates.
#[derive(Debug, Default)]
pub(super) struct Rejections {
    pub(super) children: Vec<RejectedCreate>,
    /// The bytes of their manifests and of the messages of the API server.
    bytes: usize,
}

impl Rejections {
    pub(super) fn push(&mut self, rejected: RejectedCreate, manifest_bytes: usize) {
        let (_, error) = &rejected;
        self.bytes = self.bytes.saturating_add(manifest_bytes).saturating_add(error.message.len());
        self.children.push(rejected);
    }

    fn append(&mut self, later: Self) {
        self.bytes = self.bytes.saturating_add(later.bytes);
        self.children.extend(later.children);
    }

    /// Whether no further ones may be added.
    pub(super) fn is_full(&self) -> bool {
        self.children.len() >= MAX_REJECTIONS || self.bytes >= MAX_REJECTED_BYTES
    }
}

/// The rejected creates with one key, and their backoff.
#[derive(Debug)]
pub(super) struct BackedOffKind {
    pub(super) rejected: Rejections,
    backoff: Backoff,
    pub(super) due: Instant,
    /// The number of attempts: the first one and the retries.
    pub(super) attempts: usize,
    /// The number of rejections in these attempts.
    pub(super) rejections: usize,
}

impl BackedOffKind {
    fn new() -> Self {
        let (rejected, backoff) = (Rejections::default(), Backoff::for_objects());
        Self { rejected, backoff, due: Instant::now(), attempts: 0, rejections: 0 }
    }

    /// Begins the backoff after an attempt. It takes at least `min_delay`.
    fn begin(&mut self, rejected: Rejections, min_delay: Duration) {
        self.due = Instant::now() + self.backoff.next_delay().max(min_delay);
        self.attempts = self.attempts.wrapping_add(1);
        self.rejections = self.rejections.wrapping_add(rejected.children.len());
        self.rejected = rejected;
    }
}

/// The rejected creates of one owner.
#[derive(Debug)]
pub(super) struct RejectedCreates {
    pub(super) namespace: String,
    pub(super) name: String,
    /// The owner at the time of the rejection, as far as its children depend on it.
    pub(super) owner_version: OwnerVersion,
    pub(super) by_kind: BTreeMap<KindKey, BackedOffKind>,
    /// The position among the owners of the namespace that wait.
    ticket: u64,
}

impl RejectedCreates {
    pub(super) fn of(owner: &impl Resource) -> Self {
        Self {
            namespace: owner.namespace().unwrap_or_default(),
            name: owner.name_any(),
            owner_version: OwnerVersion::of(owner),
            by_kind: BTreeMap::new(),
            ticket: 0,
        }
    }

    /// Adds the rejections of the first attempt or of a retry, which begin a backoff. Those of another plan share the retry of the
    /// earlier ones. `has_created` is whether objects of the kind were created, too. A retry of a kind is not earlier than after `min_delay`.
    pub(super) fn add(
        &mut self,
        key: KindKey,
        rejected: Rejections,
        (is_retry, has_created): (bool, bool),
        min_delay: Duration,
    ) {
        let concerns_kind = key.concerns_kind;
        let backed_off = self.by_kind.entry(key).or_insert_with(BackedOffKind::new);
        if backed_off.attempts > 0 && !is_retry {
            backed_off.rejected.append(rejected);
            return;
        }
        if concerns_kind && has_created {
            // A part of the children fits into the quota, so the next delays are short again.
            backed_off.backoff = Backoff::for_objects();
        }
        backed_off.begin(rejected, if concerns_kind { min_delay } else { Duration::ZERO });
    }

    /// Ends the backoff of the kinds that wait for quota. A quota counts a deletion a little later, so the retry may be too early. The
    /// next delays are short again.
    pub(super) fn end_backoff_of_kinds(&mut self) {
        for (_, backed_off) in self.by_kind.iter_mut().filter(|(key, _)| key.concerns_kind) {
            (backed_off.due, backed_off.backoff) = (Instant::now(), Backoff::for_objects());
        }
    }

    /// Whether a deletion may end a backoff.
    fn awaits_quota(&self, now: Instant) -> bool {
        self.by_kind.iter().any(|(key, backed_off)| key.concerns_kind && backed_off.due > now)
    }
}

/// The entries of all owners.
#[derive(Debug, Default)]
pub(super) struct Entries {
    by_owner_uid: BTreeMap<String, RejectedCreates>,
    /// By namespace, the uids of the owners that wait for released quota, in order of their tickets.
    waiting: BTreeMap<String, BTreeMap<u64, String>>,
    last_ticket: u64,
}

impl Entries {
    pub(super) fn len(&self) -> usize {
        self.by_owner_uid.len()
    }

    pub(super) fn get(&self, uid: &str) -> Option<&RejectedCreates> {
        self.by_owner_uid.get(uid)
    }

    /// The entry of an owner, which waits from now on: behind the other owners, unless it waits already.
    pub(super) fn get_or_insert(&mut self, uid: String, new: impl FnOnce() -> RejectedCreates) -> &mut RejectedCreates {
        let Self { by_owner_uid, waiting, last_ticket } = self;
        let entry = by_owner_uid.entry(uid.clone()).or_insert_with(new);
        let of_namespace = waiting.entry(entry.namespace.clone()).or_default();
        let waits = of_namespace.contains_key(&entry.ticket);
        if !waits {
            *last_ticket += 1;
            entry.ticket = *last_ticket;
            of_namespace.insert(entry.ticket, uid);
        }
        entry
    }

    /// Removes the entry of an owner.
    pub(super) fn remove(&mut self, uid: &str) {
        let Some(entry) = self.by_owner_uid.remove(uid) else { return };
        let Some(of_namespace) = self.waiting.get_mut(&entry.namespace) else { return };
        of_namespace.remove(&entry.ticket);
        if of_namespace.is_empty() {
            self.waiting.remove(&entry.namespace);
        }
    }

    /// Ends the backoffs of an owner that are selected by `is_ended`.
    pub(super) fn end(&mut self, uid: &str, is_ended: impl Fn(&KindKey) -> bool) {
        let Some(entry) = self.by_owner_uid.get_mut(uid) else { return };
        entry.by_kind.retain(|key, _| !is_ended(key));
        if entry.by_kind.is_empty() {
            self.remove(uid);
        }
    }

    /// The owner that waits longest for quota in the namespace. It does not wait any more.
    pub(super) fn pop_waiting(&mut self, namespace: &str) -> Option<&mut RejectedCreates> {
        let now = Instant::now();
        let of_namespace = self.waiting.get_mut(namespace)?;
        let mut popped = None;
        while let Some((_, uid)) = of_namespace.pop_first() {
            if self.by_owner_uid.get(&uid).is_some_and(|entry| entry.awaits_quota(now)) {
                popped = Some(uid);
                break;
            }
        }
        if of_namespace.is_empty() {
            self.waiting.remove(namespace);
        }
        self.by_owner_uid.get_mut(&popped?)
    }

    /// The earliest retry of an owner of this namespace. The owners that wait there for quota share a rate of retries: a quota that rejected
    /// the objects of one of them probably rejects those of the others.
    pub(super) fn min_retry_delay(&self, namespace: &str) -> Duration {
        let waiting = self.waiting.get(namespace).map_or(0, BTreeMap::len);
        let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
        RETRY_INTERVAL.saturating_mul(waiting).min(MAX_RETRY_DELAY)
    }

    #[cfg(test)]
    pub(super) fn waiting_is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
