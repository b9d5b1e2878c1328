//! What a set says of itself: how many of its replicas are there, serve, and are up to date.

use grove_api_types::conditions::{self, available};
use grove_api_types::core::{LastError, PodClique, PodCliqueSetStatus};
use grove_api_types::{labels, shape};
use grove_runtime::conditions::{Verdict, set_condition};
use grove_runtime::executor::Done;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

use super::observed::Observed;
use crate::children::desired::Revision;

mod gang;

pub use gang::of_gangs;

/// The status of the set after `done`.
pub fn of_set(seen: &Observed, done: &Done, now: Timestamp) -> PodCliqueSetStatus {
    let old = seen.set.status.clone().unwrap_or_default();
    let replicas = shape::replicas(&seen.set);
    let revision = Revision::of(&seen.set.spec.template);
    let count = |holds: &dyn Fn(&shape::Clique<'_>) -> bool| {
        let whole = |replica: &&shape::SetReplica<'_>| replica.cliques.iter().all(holds);
        i32::try_from(replicas.iter().filter(whole).count()).unwrap_or(i32::MAX)
    };
    let available = count(&|clique| is_available(seen, clique));
    let failures = done.failures().map(|failure| (failure.reason.clone(), failure.message.clone()));
    let mut conditions = old.conditions;
    set_condition(&mut conditions, availability(seen, available, done), now);
    PodCliqueSetStatus {
        observed_generation: if done.succeeded() { seen.set.metadata.generation } else { old.observed_generation },
        conditions,
        last_errors: LastError::after(&old.last_errors, failures, &Time(now)),
        replicas: Some(seen.set.spec.replicas),
        updated_replicas: count(&|clique| is_updated(seen, &revision, clique)),
        available_replicas: available,
        hpa_pod_selector: Some(labels::selector(&labels::base(&seen.name()))),
        pod_gang_statuses: Vec::new(),
        update_progress: old.update_progress,
        current_generation_hash: Some(revision.generation.clone()),
    }
}

/// Whether the clique is there with at least `minAvailable` of its pods ready.
fn is_available(seen: &Observed, clique: &shape::Clique<'_>) -> bool {
    seen.clique(clique.name.as_str()).is_some_and(|live| ready(live) >= live.spec.needed())
}

/// Whether the pods of the clique are made from the template as it is now.
fn is_updated(seen: &Observed, revision: &Revision, clique: &shape::Clique<'_>) -> bool {
    let wanted = revision.pod_template(&clique.template.name);
    let reported = |live: &PodClique| live.status.as_ref().and_then(|status| status.current_pod_template_hash.clone());
    seen.clique(clique.name.as_str()).and_then(reported).is_some_and(|reported| reported == wanted)
}

fn ready(clique: &PodClique) -> i32 {
    clique.status.as_ref().map_or(0, |status| status.ready_replicas)
}

fn availability(seen: &Observed, available: i32, done: &Done) -> Verdict {
    let wanted = seen.set.spec.replicas;
    let tally = format!("{available} of {wanted} replicas are available");
    let (holds, reason, message) = match done.failures().next() {
        _ if available >= wanted => (true, available::SUFFICIENT, tally),
        Some(failure) => (false, available::REFUSED, format!("{tally}; the API server says: {}", failure.message)),
        None => (false, available::UNAVAILABLE, tally),
    };
    Verdict {
        type_: conditions::AVAILABLE,
        status: holds.into(),
        reason: reason.to_owned(),
        message,
        observed_generation: seen.set.metadata.generation,
    }
}
