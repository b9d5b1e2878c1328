//! Metrics about the updates of sets.

use grove_api_types::conditions::{UPDATE_IN_PROGRESS, update_in_progress};
use grove_api_types::v1alpha1::{PodCliqueSet, PodCliqueSetUpdateProgress};
use grove_controller::conditions::find_status_condition;
use grove_controller::manager::Manager;
use grove_controller::scraped_gauge::{GaugeValue, register_scraped_gauge};
use grove_runtime::caches::{Cache, Delta};
use k8s_openapi::jiff::Timestamp;
use prometheus::{Histogram, HistogramOpts};

/// Half a minute to a day.
const DURATION_BUCKETS: [f64; 10] =
    [30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 4.0 * 3600.0, 12.0 * 3600.0, 24.0 * 3600.0];
/// The reasons of updates in progress.
const REASONS: [&str; 4] = [
    update_in_progress::PROGRESSING,
    update_in_progress::BLOCKED,
    update_in_progress::PAUSED,
    update_in_progress::PROGRESS_DEADLINE_EXCEEDED,
];

/// The durations of the updates that ended while this process watched them.
#[derive(Clone, Debug)]
pub(crate) struct UpdateDurations(Histogram);

impl UpdateDurations {
    /// Registers the metric.
    ///
    /// # Errors
    /// If a metric of this name is already registered.
    pub(crate) fn register(manager: &Manager) -> anyhow::Result<Self> {
        let options = HistogramOpts::new("grove_update_duration_seconds", "Duration of the updates of PodCliqueSets.");
        let durations = Self(Histogram::with_opts(options.buckets(DURATION_BUCKETS.to_vec()))?);
        manager.metrics().registry().register(Box::new(durations.0.clone()))?;
        Ok(durations)
    }

    /// Observes the end of an update.
    pub(crate) fn observe(&self, delta: &Delta<PodCliqueSet>) {
        if let Some(seconds) = duration(delta) {
            self.0.observe(seconds);
        }
    }
}

/// The duration of the update that this change ends, in seconds.
fn duration(delta: &Delta<PodCliqueSet>) -> Option<f64> {
    let old = progress(delta.old.as_deref()?).filter(|old| old.is_in_progress())?;
    let new = progress(delta.new.as_deref()?).filter(|new| new.update_started_at == old.update_started_at)?;
    let (started, ended) = new.update_started_at.as_ref().zip(new.update_ended_at.as_ref())?;
    Some(ended.0.duration_since(started.0).as_secs_f64().max(0.0))
}

fn progress(set: &PodCliqueSet) -> Option<&PodCliqueSetUpdateProgress> {
    set.status.as_ref()?.update_progress.as_ref()
}

/// Registers the metrics about the updates in progress. Their values are computed when they are scraped.
///
/// # Errors
/// If a metric of one of the names is already registered.
pub(crate) fn register_gauges(manager: &Manager, sets: &Cache<PodCliqueSet>) -> anyhow::Result<()> {
    let clock = manager.clock();
    let by_reason = |of_waits: fn(&[u64]) -> usize| -> Vec<(&'static str, GaugeValue)> {
        let value = |reason: &'static str| -> (&'static str, GaugeValue) {
            let (sets, clock) = (sets.clone(), clock);
            (reason, Box::new(move || of_waits(&waits(&sets, reason, clock.now()))))
        };
        REASONS.into_iter().map(value).collect()
    };
    let longest = |waits: &[u64]| usize::try_from(waits.iter().copied().max().unwrap_or(0)).unwrap_or(usize::MAX);
    let registry = manager.metrics().registry();
    let in_progress =
        ("grove_updates_in_progress", "PodCliqueSets with an update in progress, by the reason of UpdateInProgress.");
    register_scraped_gauge(registry, in_progress, "reason", by_reason(<[u64]>::len))?;
    let longest_wait = (
        "grove_update_longest_wait_seconds",
        "The longest time without progress of an update in progress, by the reason of UpdateInProgress.",
    );
    register_scraped_gauge(registry, longest_wait, "reason", by_reason(longest))?;
    let outdated = ("grove_outdated_objects", "Objects with pods that updates in progress still replace, by kind.");
    let (for_cliques, for_groups) = (sets.clone(), sets.clone());
    let values: Vec<(&'static str, GaugeValue)> = vec![
        ("PodClique", Box::new(move || outdated_objects(&for_cliques).0)),
        ("PodCliqueScalingGroup", Box::new(move || outdated_objects(&for_groups).1)),
    ];
    Ok(register_scraped_gauge(registry, outdated, "kind", values)?)
}

/// For how many seconds each update with this reason has made no progress.
fn waits(sets: &Cache<PodCliqueSet>, reason: &str, now: Timestamp) -> Vec<u64> {
    let wait = |set: &PodCliqueSet| {
        let status = set.status.as_ref().filter(|status| status.is_updating())?;
        find_status_condition(&status.conditions, UPDATE_IN_PROGRESS).filter(|condition| condition.reason == reason)?;
        let progress = status.update_progress.as_ref()?;
        let since = progress.last_progressed_at.as_ref().or(progress.update_started_at.as_ref())?;
        Some(u64::try_from(now.duration_since(since.0).as_secs()).unwrap_or(0))
    };
    sets.all().iter().filter_map(|set| wait(set)).collect()
}

/// The numbers of standalone cliques and of scaling groups that updates in progress have not finished.
fn outdated_objects(sets: &Cache<PodCliqueSet>) -> (usize, usize) {
    let missing = |total: i32, updated: i32| usize::try_from(total.saturating_sub(updated)).unwrap_or(0);
    let of_set = |set: &PodCliqueSet| {
        let progress = progress(set).filter(|progress| progress.is_in_progress())?;
        let groups =
            missing(progress.total_pod_clique_scaling_groups_count, progress.updated_pod_clique_scaling_groups_count);
        Some((missing(progress.total_pod_cliques_count, progress.updated_pod_cliques_count), groups))
    };
    let all = sets.all();
    all.iter().filter_map(|set| of_set(set)).fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn set(name: &str, reason: &str, progress: &Value) -> PodCliqueSet {
        let condition = json!({ "type": UPDATE_IN_PROGRESS, "status": "True", "reason": reason, "message": "m",
            "lastTransitionTime": "1970-01-01T00:00:00Z" });
        let status = json!({ "availableReplicas": 0, "updatedReplicas": 0, "conditions": [condition],
            "updateProgress": progress });
        let spec = json!({ "template": { "cliques": [] } });
        let object = json!({ "metadata": { "name": name, "namespace": "n" }, "spec": spec, "status": status });
        serde_json::from_value(object).unwrap()
    }

    fn in_progress(last_progressed_at: &str, (updated, total): (i32, i32)) -> Value {
        json!({ "updateStartedAt": "1970-01-01T00:00:00Z", "lastProgressedAt": last_progressed_at,
            "updatedPodCliquesCount": updated, "totalPodCliquesCount": total,
            "updatedPodCliqueScalingGroupsCount": 0, "totalPodCliqueScalingGroupsCount": 1 })
    }

    #[test]
    fn updates_in_progress_are_counted() {
        let ended = json!({ "updateStartedAt": "1970-01-01T00:00:00Z", "updateEndedAt": "1970-01-01T00:00:09Z",
            "updatedPodCliquesCount": 0, "totalPodCliquesCount": 8 });
        let sets = Cache::from_objects([
            set("a", "Blocked", &in_progress("1970-01-01T00:00:10Z", (1, 3))),
            set("b", "Blocked", &in_progress("1970-01-01T00:00:40Z", (0, 2))),
            set("c", "Progressing", &in_progress("1970-01-01T00:01:00Z", (4, 4))),
            set("d", "NoActiveUpdate", &ended),
        ]);
        let now = Timestamp::from_second(50).unwrap();
        let mut blocked = waits(&sets, "Blocked", now);
        blocked.sort_unstable();
        assert_eq!(blocked, [10, 40]);
        assert_eq!(waits(&sets, "Progressing", now), [0], "the clock of another machine is ahead");
        assert_eq!(outdated_objects(&sets), (4, 3));
    }

    #[test]
    fn the_end_of_an_update_has_a_duration() {
        let ended = |started: &str| {
            let progress = json!({ "updateStartedAt": started, "updateEndedAt": "1970-01-01T00:01:30Z" });
            Some(Arc::new(set("a", "NoActiveUpdate", &progress)))
        };
        let open = || Some(Arc::new(set("a", "Progressing", &in_progress("1970-01-01T00:00:10Z", (0, 1)))));
        let first = "1970-01-01T00:00:00Z";
        assert_eq!(duration(&Delta { old: open(), new: ended(first) }), Some(90.0));
        assert_eq!(duration(&Delta { old: ended(first), new: ended(first) }), None, "it has ended before");
        assert_eq!(duration(&Delta { old: None, new: ended(first) }), None, "the process has just started");
        let later = "1970-01-01T00:01:00Z";
        assert_eq!(duration(&Delta { old: open(), new: ended(later) }), None, "another update");
    }
}
