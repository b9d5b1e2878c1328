//! A Lease with random edits: a replica acquires only a Lease that it can decode, and leads when the Lease is repaired.

use grove_test_support::fuzz::{self, FuzzConfig, JsonBytes};
use grove_test_support::list_items;

use super::*;

/// Each input has an elector of its own.
const INPUTS: u64 = 500;
/// How long the replica observes the edited Lease, and the repaired one.
const OBSERVATION: Duration = Duration::from_secs(10);

fn lease(holder: Option<&str>) -> Value {
    let time = "2026-01-02T03:04:05.000006Z";
    let spec = json!({ "holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 1, "acquireTime": time,
        "renewTime": time });
    let mut lease = list_items::object::<Lease>(&json!({ "spec": spec }));
    // kube decodes the Lease, and cannot represent the times of `list_items`.
    lease["metadata"]["deletionTimestamp"] = Value::Null;
    lease["metadata"]["managedFields"][0]["time"] = json!("2026-01-02T03:04:05Z");
    lease
}

/// Whether the replica `b` may acquire the Lease within [`OBSERVATION`] from now.
fn may_be_acquired(lease: &Lease) -> bool {
    let observed = ObservedRecord::of(lease, None, LeaderElection::default().lease_duration);
    matches!(record::holder(lease), "" | "b") || observed.expiry() <= Instant::now() + OBSERVATION
}

/// Returns whether the edited Lease can be decoded, or the violated invariant.
async fn observe(edited: Value) -> Result<bool, String> {
    let server = Server::default();
    server.with(|state| state.store(lease(Some("a"))));
    let replica = Replica::start(&server, "b");
    seconds(1).await;
    let decoded: Option<Lease> = serde_json::from_value(edited.clone()).ok();
    let may_lead = decoded.as_ref().is_some_and(may_be_acquired);
    server.with(|state| state.store(edited));
    sleep(OBSERVATION).await;
    if replica.leadership.is_held() && !may_lead {
        return Err("the replica leads, but the Lease is not available".to_owned());
    }
    server.with(|state| state.store(lease(None)));
    sleep(OBSERVATION).await;
    if !replica.leadership.is_held() {
        return Err("the replica does not lead, but the Lease is available".to_owned());
    }
    Ok(decoded.is_some())
}

#[test]
fn an_edited_lease_does_not_prevent_the_election_after_its_repair() {
    let check = |_seed: u64, JsonBytes(bytes): &JsonBytes| {
        let Some(mut edited) = serde_json::from_slice::<Value>(bytes).ok().filter(Value::is_object) else {
            return Ok(false);
        };
        // The mock API server sets the resource version.
        if !edited["metadata"].is_object() {
            edited["metadata"] = json!({});
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(observe(edited))
    };
    let valid = lease(Some("a"));
    let config = FuzzConfig { inputs: INPUTS, seed: 1 };
    let outcome = fuzz::run(config, || fuzz::edited_objects(std::slice::from_ref(&valid)), check, |_| {});
    let outcome = outcome.unwrap_or_else(|failure| panic!("{} in {}", failure.violation, failure.minimal_input));
    assert!(outcome.valid > 0 && outcome.valid < outcome.inputs, "{outcome:?}");
}
