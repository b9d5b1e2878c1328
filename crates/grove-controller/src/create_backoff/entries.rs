//! The rejected creates of all owners, and the order in which the owners of a namespace wait for released quota.

use std::collections::BTreeMap;

use grove_runtime::backoff::Backoff;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use tokio::time::Instant;

use super::RejectedCreate;

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

/// The children of one owner with rejected creates, and their backoff.
#[derive(Debug)]
pub(super) struct RejectedCreates {
    pub(super) namespace: String,
    pub(super) name: String,
    /// The owner at the time of the rejection, as far as its children depend on it.
    pub(super) owner_version: OwnerVersion,
    pub(super) children: Vec<RejectedCreate>,
    pub(super) backoff: Backoff,
    pub(super) due: Instant,
    /// The number of retries.
    pub(super) retries: usize,
    /// The number of rejections in the first attempt and in the retries.
    pub(super) rejections: usize,
    /// The position among the owners of the namespace that wait.
    ticket: u64,
}

impl RejectedCreates {
    pub(super) fn of(owner: &impl Resource) -> Self {
        Self {
            namespace: owner.namespace().unwrap_or_default(),
            name: owner.name_any(),
            owner_version: OwnerVersion::of(owner),
            children: vec![],
            backoff: Backoff::for_objects(),
            due: Instant::now(),
            retries: 0,
            rejections: 0,
            ticket: 0,
        }
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

    /// The owner with a running backoff that waits longest in the namespace. It does not wait any more.
    pub(super) fn pop_waiting(&mut self, namespace: &str) -> Option<&mut RejectedCreates> {
        let now = Instant::now();
        let of_namespace = self.waiting.get_mut(namespace)?;
        let mut popped = None;
        while let Some((_, uid)) = of_namespace.pop_first() {
            if self.by_owner_uid.get(&uid).is_some_and(|entry| entry.due > now) {
                popped = Some(uid);
                break;
            }
        }
        if of_namespace.is_empty() {
            self.waiting.remove(namespace);
        }
        self.by_owner_uid.get_mut(&popped?)
    }

    #[cfg(test)]
    pub(super) fn waiting_is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
