//! Which steps are still sent after the API server rejected one.

use super::*;
use crate::plan::{ManifestTemplate, SlowStart};

fn exceeded_quota() -> MockResponse {
    let mut body = mock_api_server::status(403, "Forbidden");
    body["message"] = json!("configmaps \"m\" is forbidden: exceeded quota: small");
    MockResponse::Json(403, body)
}

/// A server with a quota of this many objects.
fn executor_with_quota(quota: usize) -> (Executor, RequestLog) {
    let accepted = std::sync::atomic::AtomicUsize::new(0);
    executor(move |request| {
        let is_accepted = accepted.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < quota;
        if is_accepted { MockResponse::ok(request.body.clone()) } else { exceeded_quota() }
    })
}

fn alike(count: usize, slow_start: SlowStart) -> Plan {
    let steps = (0..count).map(|nth| Step::create(&object(&format!("m{nth}"))));
    Plan::new().stage(Stage::new("maps", steps).with_slow_start(Some(slow_start)))
}

#[tokio::test]
async fn a_quota_rejects_few_of_many_alike_creates() {
    for (quota, max_rejected) in [(0, 8), (10, 14), (100, MAX_IN_FLIGHT_WRITES)] {
        let (executor, log) = executor_with_quota(quota);
        let done = executor.execute(&object("subject"), &alike(300, SlowStart::INITIAL)).await;
        let rejected = done.failures().count();
        assert!((1..=max_rejected).contains(&rejected), "{rejected} rejections with a quota of {quota}");
        assert_eq!((done.steps.len(), log.requests().len()), (quota + rejected, quota + rejected));
    }
}

#[tokio::test]
async fn a_retry_sends_two_creates_to_an_exhausted_quota_and_all_creates_to_a_sufficient_one() {
    for (quota, sent) in [(0, 2), (300, 300)] {
        let (executor, log) = executor_with_quota(quota);
        executor.execute(&object("subject"), &alike(300, SlowStart { alternate: Some(1), ..SlowStart::RETRY })).await;
        assert_eq!(log.requests().len(), sent);
    }
}

/// Executes the creates of an object in each of 100 failure domains, and then of a dependent in each. The server answers with
/// `rejection` or creates the object. Returns the domains of both in which they exist, and the number of rejected creates.
async fn create_in_domains(
    slow_start: Option<SlowStart>,
    rejection: impl Fn(&str, usize) -> Option<MockResponse> + Send + Sync + 'static,
) -> (Vec<usize>, Vec<usize>, usize) {
    let split =
        |name: &str| name.split_once('-').map(|(stage, domain)| (stage.to_owned(), domain.parse::<usize>().unwrap()));
    let (executor, _) = executor(move |request| {
        let (stage, domain) = request.body["metadata"]["name"].as_str().and_then(split).unwrap();
        rejection(&stage, domain).unwrap_or_else(|| MockResponse::ok(request.body.clone()))
    });
    let stage = |name: &'static str| {
        let creates = (0..100).map(|domain| Step::create(&object(&format!("{name}-{domain}"))));
        Stage::new(name, creates).with_slow_start(slow_start)
    };
    let domains = (0..100).flat_map(|domain| ["first", "later"].map(|name| (format!("{name}-{domain}"), domain)));
    let plan = Plan::new().stage(stage("first")).stage(stage("later")).with_failure_domains(domains.collect());
    let done = executor.execute(&object("subject"), &plan).await;
    let created = |stage: &str| -> Vec<usize> {
        let steps = done.steps.iter().filter(|step| step.stage == stage && step.result.is_ok());
        steps.filter_map(|step| split(&step.target.name)).map(|(_, domain)| domain).collect()
    };
    (created("first"), created("later"), done.failures().count())
}

#[tokio::test]
async fn a_quota_blocks_the_failure_domains_of_the_creates_that_were_not_sent() {
    let quota_of_10 = |stage: &str, domain: usize| (stage == "first" && domain >= 10).then(exceeded_quota);
    let (first, later, rejected) = create_in_domains(None, quota_of_10).await;
    let fits: Vec<_> = (0..10).collect();
    assert_eq!((&first, &later), (&fits, &fits));
    assert!((1..=MAX_IN_FLIGHT_WRITES).contains(&rejected), "{rejected} rejections");
    let retry = Some(SlowStart { alternate: Some(1), ..SlowStart::RETRY_AFTER_QUOTA });
    assert_eq!(create_in_domains(retry, quota_of_10).await, (vec![0, 1, 2, 3, 4, 5, 6, 7, 8, 9], fits, 5));
    let no_quota = |stage: &str, _: usize| (stage == "first").then(exceeded_quota);
    assert_eq!(create_in_domains(retry, no_quota).await, (vec![], vec![], 2));
}

#[tokio::test]
async fn a_policy_blocks_only_the_failure_domains_of_the_rejected_creates() {
    let policy =
        |stage: &str, domain: usize| (stage == "first" && domain < 60).then(|| MockResponse::error(422, "Invalid"));
    let others: Vec<_> = (60..100).collect();
    for slow_start in [None, Some(SlowStart { alternate: Some(1), ..SlowStart::RETRY_AFTER_QUOTA })] {
        assert_eq!(create_in_domains(slow_start, policy).await, (others.clone(), others.clone(), 60));
    }
}

#[tokio::test]
async fn a_rejected_step_blocks_no_step_of_an_independent_stage() {
    let tried = async |code: u16, reason: &'static str| {
        let (executor, _) = executor(move |request| match &*request.method {
            "DELETE" => MockResponse::error(code, reason),
            _ => MockResponse::ok(request.body.clone()),
        });
        let plan = Plan::new()
            .stage(Stage::new("deletes", [Step::delete(&object("a"))]))
            .stage(Stage::new("creates", [Step::create(&object("b"))]))
            .with_independent_stages();
        let done = executor.execute(&object("subject"), &plan).await;
        assert!(!done.succeeded());
        done.steps.iter().map(|step| step.target.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(tried(403, "Forbidden").await, ["a", "b"]);
    assert_eq!(tried(500, "InternalError").await, ["a", "b"], "for example the failed call of a webhook");
    assert_eq!(tried(503, "ServiceUnavailable").await, ["a"]);
}

/// Counts how often it renders.
#[derive(Debug, Default)]
struct CountingTemplate(std::sync::atomic::AtomicUsize);

impl ManifestTemplate for CountingTemplate {
    fn render(&self, name: &str, index: i32) -> String {
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "i": index.to_string() } })
            .to_string()
    }
}

#[tokio::test]
async fn a_manifest_of_a_template_is_rendered_when_it_is_sent() {
    let template = Arc::new(CountingTemplate::default());
    let steps = (0..3).map(|index| {
        let target = Target { uid: None, ..Target::of(&object(&format!("m{index}"))) };
        Step::create_from_template(target, Arc::clone(&template) as Arc<dyn ManifestTemplate>, index)
    });
    let plan = Plan::new().stage(Stage::new("maps", steps));
    let rendered = || template.0.load(std::sync::atomic::Ordering::SeqCst);
    assert_eq!((rendered(), plan.to_string().lines().count()), (0, 3));
    let (executor, log) = executor(|request| MockResponse::ok(request.body.clone()));
    assert!(executor.execute(&object("subject"), &plan).await.succeeded());
    assert_eq!(rendered(), 3);
    let mut sent: Vec<_> = log.requests().into_iter().map(|request| request.body["data"]["i"].clone()).collect();
    sent.sort_by_key(ToString::to_string);
    assert_eq!(sent, [json!("0"), json!("1"), json!("2")]);
}
