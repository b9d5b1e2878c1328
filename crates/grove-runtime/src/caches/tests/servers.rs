//! Caches over servers that are set back, do not know the kind, or refuse: the right state, and the reason in plain words.

use std::sync::atomic::AtomicU32;

use super::*;

fn over(script: impl Fn(&RecordedRequest) -> MockResponse + Send + Sync + 'static) -> Watched {
    let (client, log) = mock_api_server::client(script);
    let (ready, metrics) = (Readiness::new(), Metrics::new().unwrap());
    let handle = ready.register("configmaps");
    let (cache, changes) = start_informer(Api::all(client), watcher::Config::default(), handle, (None, None), &metrics);
    Watched { cache, changes: Box::new(changes), ready, log }
}

fn why(watched: &Watched) -> String {
    watched.ready.pending()["configmaps"].clone().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_set_back_is_read_anew_whatever_its_versions_say() {
    let far = Arc::new(AtomicU32::new(20));
    let server = Arc::clone(&far);
    let mut other = map("a", 15);
    other["data"] = json!({ "written": "after it was set back" });
    let mut watched = over(move |asked| {
        let far = server.load(Ordering::SeqCst);
        match (asked.is_watch(), far) {
            (true, 20) => {
                server.store(16, Ordering::SeqCst);
                MockResponse::ConnectionReset
            }
            (true, _) => OPEN,
            (false, 20) => config_maps(20, &[map("a", 15), map("b", 18)]),
            (false, _) => config_maps(16, std::slice::from_ref(&other)),
        }
    });
    for expected in ["+a", "+b", "-b", "~a"] {
        assert_eq!(watched.next().await, expected);
    }
    let data = watched.cache.get("ns", "a").unwrap().data.clone().unwrap();
    assert_eq!(data["written"], "after it was set back");
    let versions: Vec<_> =
        watched.log.requests().iter().filter(|asked| asked.is_watch()).map(|asked| asked.query.clone()).collect();
    assert!(versions[1].contains("resourceVersion=16"), "{versions:?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_set_back_and_has_come_as_far_again_is_read_anew_too() {
    let lists = AtomicU32::new(0);
    let mut watched = over(move |asked| match (asked.is_watch(), asked.is_list()) {
        (true, _) if lists.load(Ordering::SeqCst) == 1 => MockResponse::ConnectionReset,
        (true, _) => OPEN,
        (_, true) if lists.fetch_add(1, Ordering::SeqCst) == 0 => {
            config_maps(20, &[map("a", 15), map("b", 18), map("d", 19)])
        }
        _ => config_maps(25, &[map("a", 15), map("c", 19), map("d", 16)]),
    });
    for expected in ["+a", "+b", "+d", "-b", "~a", "+c", "~d"] {
        assert_eq!(watched.next().await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_is_an_empty_cache_and_comes_by_itself() {
    let installed = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let server = Arc::clone(&installed);
    let mut watched = over(move |asked| match (server.load(Ordering::SeqCst), asked.is_watch()) {
        (false, _) => MockResponse::Text(404, "404 page not found\n"),
        (true, false) => config_maps(5, &[map("a", 1)]),
        (true, true) => OPEN,
    });
    watched.ready.wait().await;
    assert!(!watched.cache.is_served() && watched.cache.is_empty());
    let mut known = watched.cache.subscribe_served();
    tokio::time::sleep(Duration::from_mins(10)).await;
    let requests = watched.log.requests().len();
    assert!(requests <= 130, "{requests} requests in ten minutes");
    installed.store(true, Ordering::SeqCst);
    known.changed().await.unwrap();
    assert!(watched.cache.is_served());
    assert_eq!(watched.next().await, "+a");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_ceases_to_be_served_has_no_objects_any_more() {
    let (gone, begun) = (Arc::new(std::sync::atomic::AtomicBool::new(false)), AtomicU32::new(0));
    let server = Arc::clone(&gone);
    let mut watched = over(move |asked| match (server.load(Ordering::SeqCst), asked.is_watch()) {
        (true, _) => MockResponse::Text(404, "404 page not found\n"),
        (false, false) => config_maps(5, &[map("a", 1)]),
        (false, true) => {
            server.store(begun.fetch_add(1, Ordering::SeqCst) == 0, Ordering::SeqCst);
            MockResponse::Watch { events: vec![], stays_open: false }
        }
    });
    assert_eq!((watched.next().await, watched.next().await), ("+a".into(), "-a".into()));
    assert!(!watched.cache.is_served());
    gone.store(false, Ordering::SeqCst);
    assert_eq!(watched.next().await, "+a");
    assert!(watched.cache.is_served());
}

#[tokio::test(start_paused = true)]
async fn what_readiness_waits_for_is_told_in_plain_words() {
    for (answer, expected) in [
        (
            401,
            "the API server answered 401 Unauthorized: the server said Unauthorized; the token of this service is not accepted, it may have expired",
        ),
        (
            403,
            "the API server answered 403 Forbidden: the server said Forbidden; the account of this service lacks a rule",
        ),
        (500, "the API server answered 500 InternalError: the server said InternalError"),
    ] {
        let reason = expected.split([' ', ':']).nth(5).unwrap();
        let watched = over(move |_| MockResponse::error(answer, reason));
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(why(&watched), expected);
    }
    let watched = over(|_| MockResponse::ConnectionReset);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(why(&watched).starts_with("the API server cannot be reached: "), "{}", why(&watched));
    assert!(why(&watched).contains("connection reset by peer"), "{}", why(&watched));
}

#[tokio::test(start_paused = true)]
async fn an_expired_token_ends_nothing_and_is_forgotten_when_it_is_renewed() {
    let renewed = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let server = Arc::clone(&renewed);
    let mut watched = over(move |asked| match (server.load(Ordering::SeqCst), asked.is_watch()) {
        (false, _) => MockResponse::error(401, "Unauthorized"),
        (true, false) => config_maps(5, &[map("a", 1)]),
        (true, true) => OPEN,
    });
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(!watched.ready.pending().is_empty());
    renewed.store(true, Ordering::SeqCst);
    assert_eq!(watched.next().await, "+a");
    watched.ready.wait().await;
}
