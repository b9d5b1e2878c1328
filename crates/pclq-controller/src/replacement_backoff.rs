//! The exponential backoff of replacements: pods that end soon after they started are not replaced in a loop. Like the backoff of
//! a kubelet for containers, it begins with 10 s and doubles up to 5 min, for each index of a clique.
//!
//! A replacement is due that long after the creation of the pod that ended. Until then the ended pod stays. Then one plan deletes it
//! (function `finished` in `clique/plan.rs`) and creates its replacement. So a pod that ran longer is replaced at once. So is an
//! ended pod that a user deleted before its replacement was due, but it still counts. Each further such deletion at the index has a
//! growing delay, too: otherwise a client that deletes every ended pod would end the backoff.
//!
//! An ended pod that shares a claim with other pods does not stay: Kubernetes would write the status of the claim a hundred times per
//! second. It is deleted at once, and its replacement is created when it is due.

use std::collections::BTreeMap;
use std::time::Duration;

use grove_api_types::backoff::exponential_delay;
use grove_api_types::labels;
use grove_api_types::v1alpha1::PodClique;
use grove_controller::plan::Plan;
use grove_controller::slim_pod::SlimPod;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::pod;

/// The delay after the first pod that ended.
const MIN_DELAY: Duration = Duration::from_secs(10);
/// The longest delay.
const MAX_DELAY: Duration = Duration::from_mins(5);
/// A pod that ran this long resets the backoff of its index.
const RESET_AFTER: Duration = Duration::from_mins(10);

/// The backoff of all cliques, by uid.
#[derive(Debug, Default)]
pub(crate) struct ReplacementBackoff(Mutex<BTreeMap<String, CliqueBackoff>>);

/// The backoff of one clique. Another template resets it.
#[derive(Debug, Default)]
struct CliqueBackoff {
    template_hash: Option<String>,
    by_index: BTreeMap<i32, IndexBackoff>,
}

/// The backoff of one index.
#[derive(Debug)]
struct IndexBackoff {
    /// The last pod that ended.
    ended_uid: Option<String>,
    /// The number of pods in sequence that ended soon.
    ended: u32,
    /// When the replacement is due while the ended pod exists.
    due: Instant,
    /// When the replacement is due after a deletion of the ended pod.
    due_after_deletion: Instant,
    /// The number of replacements in sequence that were created before they were due, because the ended pod was deleted.
    early_replacements: u32,
    /// When this process last sent a create for the index.
    created_at: Option<Instant>,
}

impl ReplacementBackoff {
    /// Counts the pods of the clique that ended, and returns the time until the replacement at each index that has to wait. An ended
    /// pod also counts if it was deleted before this call: then it is among the `tombstones`. `shares_claims`: Grove deletes ended pods at
    /// once.
    pub(crate) fn observe<'a>(
        &self,
        (clique, shares_claims): (&PodClique, bool),
        pods: impl Iterator<Item = &'a SlimPod>,
        tombstones: impl Iterator<Item = &'a SlimPod>,
        now: Timestamp,
    ) -> BTreeMap<i32, Duration> {
        let template_hash = clique.labels().get(labels::TEMPLATE_HASH);
        let is_current = |pod: &&SlimPod| pod.labels().get(labels::TEMPLATE_HASH) == template_hash;
        let existing = latest_ended(clique, pods.filter(is_current));
        // An older one would not delay its replacement, and its entry may have expired.
        let deleted = tombstones.filter(is_current).filter(|pod| age(pod, now) < RESET_AFTER);
        let ended = latest_ended(clique, existing.values().copied().chain(deleted));
        let uid = clique.metadata.uid.as_deref().unwrap_or_default();
        let mut by_uid = self.0.lock();
        if ended.is_empty() && !by_uid.contains_key(uid) {
            return BTreeMap::new();
        }
        let backoff = by_uid.entry(uid.to_owned()).or_default();
        if backoff.template_hash.as_ref() != template_hash {
            *backoff = CliqueBackoff { template_hash: template_hash.cloned(), by_index: BTreeMap::new() };
        }
        let instant = Instant::now();
        for (index, pod) in &ended {
            backoff.count(*index, pod, age(pod, now), instant);
        }
        let replicas = clique.spec.replicas;
        backoff.by_index.retain(|index, entry| *index < replicas && !entry.is_expired(instant));
        let remaining = |index: &i32, entry: &IndexBackoff| {
            let due = if shares_claims || existing.contains_key(index) { entry.due } else { entry.due_after_deletion };
            due.checked_duration_since(instant).filter(|delay| !delay.is_zero())
        };
        let entries = backoff.by_index.iter();
        let delays = entries.filter_map(|(index, entry)| Some((*index, remaining(index, entry)?))).collect();
        if backoff.by_index.is_empty() {
            by_uid.remove(uid);
        }
        delays
    }

    /// Records when the pods of a plan are created, before the plan is executed.
    pub(crate) fn record_creation_times(&self, clique_uid: &str, plan: &Plan) {
        let mut by_uid = self.0.lock();
        let Some(backoff) = by_uid.get_mut(clique_uid) else { return };
        let now = Instant::now();
        for (index, _) in plan.indexed_creates() {
            if let Some(entry) = backoff.by_index.get_mut(&index) {
                entry.created_at = Some(now);
            }
        }
    }

    /// Drops the backoff of a deleted clique.
    pub(crate) fn forget(&self, clique_uid: &str) {
        self.0.lock().remove(clique_uid);
    }

    /// The number of indices with a backoff.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().values().map(|backoff| backoff.by_index.len()).sum()
    }
}

impl CliqueBackoff {
    /// Counts a pod once. `age` is the time since its creation by the wall clock. It is used only if this process did not create
    /// the pod as a replacement.
    fn count(&mut self, index: i32, pod: &SlimPod, age: Duration, now: Instant) {
        let known = self.by_index.get(&index);
        if known.is_some_and(|entry| entry.ended_uid == pod.metadata.uid) {
            return;
        }
        let created_at = known.and_then(|entry| entry.created_at);
        let lifetime = created_at.map_or(age, |created_at| now.saturating_duration_since(created_at));
        let known = known.filter(|_| lifetime < RESET_AFTER);
        let ended = known.map_or(0, |entry| entry.ended).saturating_add(1);
        let early_replacements = known.map_or(0, IndexBackoff::early_replacements);
        let due_after = |count: u32| now + delay(count).saturating_sub(lifetime);
        let entry = IndexBackoff {
            ended_uid: pod.metadata.uid.clone(),
            ended,
            due: due_after(ended),
            due_after_deletion: due_after(early_replacements),
            early_replacements,
            created_at: None,
        };
        self.by_index.insert(index, entry);
    }
}

impl IndexBackoff {
    /// The number of early replacements, that of the last ended pod included.
    fn early_replacements(&self) -> u32 {
        let is_early = self.created_at.is_some_and(|created_at| created_at < self.due);
        self.early_replacements.saturating_add(u32::from(is_early))
    }

    /// Whether the replacement has run so long that its end would reset the backoff.
    fn is_expired(&self, now: Instant) -> bool {
        self.created_at.is_some_and(|created_at| now.saturating_duration_since(created_at) >= RESET_AFTER)
    }
}

/// The latest pod of each index that failed or succeeded. A pod that was deleted before it ended does not count.
fn latest_ended<'a>(clique: &PodClique, pods: impl Iterator<Item = &'a SlimPod>) -> BTreeMap<i32, &'a SlimPod> {
    let mut by_index: BTreeMap<i32, Vec<&SlimPod>> = BTreeMap::new();
    for pod in pods.filter(|pod| !pod.is_live() && !pod.is_terminating()) {
        if let Some(index) = pod::index(pod) {
            by_index.entry(index).or_default().push(pod);
        }
    }
    let latest = |(index, of_index): (i32, Vec<_>)| Some((index, pod::latest(clique, index, &of_index)?));
    by_index.into_iter().filter_map(latest).collect()
}

/// The delay after this many pods that ended, or that were replaced early.
fn delay(count: u32) -> Duration {
    count.checked_sub(1).map_or(Duration::ZERO, |earlier| exponential_delay(MIN_DELAY, MAX_DELAY, earlier))
}

fn age(pod: &SlimPod, now: Timestamp) -> Duration {
    let created = pod.metadata.creation_timestamp.as_ref();
    // A clock that differs from that of the API server can change only the first delay.
    created.and_then(|created| Duration::try_from(now.duration_since(created.0)).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
