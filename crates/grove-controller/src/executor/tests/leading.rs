//! A replica writes nothing before it leads, and nothing after it has lost the lease.

use tokio::time::Instant;

use std::time::Duration;

use super::*;
use grove_runtime::leadership::Leadership;

const TEN: Duration = Duration::from_secs(10);

fn creates(count: usize) -> Plan {
    let steps = (0..count).map(|nth| Step::create(&object(&format!("m{nth}"))));
    Plan::new().stage(Stage::new("maps", steps).with_event("Created", "NotCreated", "Created"))
}

#[tokio::test]
async fn a_standby_sends_no_request() {
    let (executor, log) = executor(|request| MockResponse::ok(request.body.clone()));
    let executor = executor.gated_by_leadership(Leadership::standby());
    let done = executor.execute(&object("subject"), &creates(3)).await;
    assert!(done.failures().all(|failure| failure.reason == ApiError::NOT_LEADING));
    let status = json!(PodStatus { message: Some("ready".into()), ..PodStatus::default() });
    assert!(executor.patch_status(&Pod::default(), &Value::Null, &status, StatusOwnership::Exclusive).await.is_err());
    assert!(log.requests().is_empty(), "{:?}", log.methods_and_names());
}

#[tokio::test(start_paused = true)]
async fn writes_in_flight_are_cancelled_when_the_lease_is_lost() {
    let (executor, log) = executor(|_| MockResponse::NoResponse);
    let leadership = Leadership::standby();
    leadership.extend(Instant::now(), Duration::from_secs(3));
    let executor = executor.gated_by_leadership(leadership);
    let began = Instant::now();
    let done = executor.execute(&object("subject"), &creates(1)).await;
    assert_eq!(began.elapsed(), Duration::from_secs(3));
    assert_eq!(done.failures().next().unwrap().reason, ApiError::NOT_LEADING);
    assert_eq!(log.requests().len(), 1);
    executor.wait_idle().await;
}

#[tokio::test(start_paused = true)]
async fn a_write_in_flight_survives_the_renewal_of_the_lease() {
    let (executor, _) = executor(|request| MockResponse::ok(request.body.clone()));
    let leadership = Leadership::standby();
    leadership.extend(Instant::now(), Duration::from_secs(3));
    let executor = executor.gated_by_leadership(leadership.clone());
    let slow = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        leadership.extend(Instant::now(), TEN);
        tokio::time::sleep(Duration::from_secs(5)).await;
        executor.execute(&object("subject"), &creates(1)).await
    };
    assert!(slow.await.succeeded());
}
