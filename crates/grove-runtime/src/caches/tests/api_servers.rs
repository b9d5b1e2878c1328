//! Caches of API servers that were restored from a backup, that do not serve the kind, or that reject requests.

use std::sync::atomic::AtomicU32;

use super::*;

fn over(respond: impl Fn(&RecordedRequest) -> MockResponse + Send + Sync + 'static) -> Informer {
    start(InformerOptions::default(), respond)
}

fn reason(informer: &Informer) -> String {
    informer.ready.pending()["configmaps"].clone().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_server_restored_from_a_backup_is_listed_again_and_objects_of_equal_version_are_replaced() {
    let version = Arc::new(AtomicU32::new(20));
    let server = Arc::clone(&version);
    let mut other = map("a", 15);
    other["data"] = json!({ "written": "after the restore" });
    let mut informer = over(move |request| {
        let version = server.load(Ordering::SeqCst);
        match (request.is_watch(), version) {
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
        assert_eq!(informer.next().await, expected);
    }
    let data = informer.cache.get("ns", "a").unwrap().data.clone().unwrap();
    assert_eq!(data["written"], "after the restore");
    let versions: Vec<_> = informer
        .log
        .requests()
        .iter()
        .filter(|request| request.is_watch())
        .map(|request| request.query.clone())
        .collect();
    assert!(versions[1].contains("resourceVersion=16"), "{versions:?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_restored_from_a_backup_is_listed_again_even_if_it_reached_the_known_version() {
    let lists = AtomicU32::new(0);
    let mut informer = over(move |request| match (request.is_watch(), request.is_list()) {
        (true, _) if lists.load(Ordering::SeqCst) == 1 => MockResponse::ConnectionReset,
        (true, _) => OPEN,
        (_, true) if lists.fetch_add(1, Ordering::SeqCst) == 0 => {
            config_maps(20, &[map("a", 15), map("b", 18), map("d", 19)])
        }
        _ => config_maps(25, &[map("a", 15), map("c", 19), map("d", 16)]),
    });
    for expected in ["+a", "+b", "+d", "-b", "~a", "+c", "~d"] {
        assert_eq!(informer.next().await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_has_an_empty_cache_until_it_is_installed() {
    let installed = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let server = Arc::clone(&installed);
    let mut informer = over(move |request| match (server.load(Ordering::SeqCst), request.is_watch()) {
        (false, _) => MockResponse::Text(404, "404 page not found\n"),
        (true, false) => config_maps(5, &[map("a", 1)]),
        (true, true) => OPEN,
    });
    informer.ready.wait().await;
    assert!(!informer.cache.is_served() && informer.cache.is_empty());
    let mut availability = informer.cache.subscribe_availability();
    tokio::time::sleep(Duration::from_mins(10)).await;
    let requests = informer.log.requests().len();
    assert!(requests <= 130, "{requests} requests in ten minutes");
    installed.store(true, Ordering::SeqCst);
    availability.changed().await.unwrap();
    assert!(informer.cache.is_served());
    assert_eq!(informer.next().await, "+a");
}

#[tokio::test(start_paused = true)]
async fn the_cache_of_a_removed_kind_is_emptied() {
    let (removed, watches) = (Arc::new(std::sync::atomic::AtomicBool::new(false)), AtomicU32::new(0));
    let server = Arc::clone(&removed);
    let mut informer = over(move |request| match (server.load(Ordering::SeqCst), request.is_watch()) {
        (true, _) => MockResponse::Text(404, "404 page not found\n"),
        (false, false) => config_maps(5, &[map("a", 1)]),
        (false, true) => {
            server.store(watches.fetch_add(1, Ordering::SeqCst) == 0, Ordering::SeqCst);
            MockResponse::Watch { events: vec![], stays_open: false }
        }
    });
    assert_eq!((informer.next().await, informer.next().await), ("+a".into(), "-a".into()));
    assert!(!informer.cache.is_served());
    removed.store(false, Ordering::SeqCst);
    assert_eq!(informer.next().await, "+a");
    assert!(informer.cache.is_served());
}

#[tokio::test(start_paused = true)]
async fn the_cache_of_an_optional_kind_is_empty_and_ready_while_the_kind_may_not_be_read() {
    let (allowed, watches) = (Arc::new(std::sync::atomic::AtomicBool::new(false)), AtomicU32::new(0));
    let server = Arc::clone(&allowed);
    let mut informer = start(InformerOptions::default().optional(), move |request| {
        match (server.load(Ordering::SeqCst), request.is_watch()) {
            (false, _) => MockResponse::error(403, "Forbidden"),
            (true, false) => config_maps(5, &[map("a", 1)]),
            (true, true) if watches.fetch_add(1, Ordering::SeqCst) == 0 => {
                server.store(false, Ordering::SeqCst);
                MockResponse::Watch { events: vec![], stays_open: false }
            }
            (true, true) => OPEN,
        }
    });
    let ready = tokio::time::timeout(Duration::from_mins(1), informer.ready.wait()).await;
    assert!(ready.is_ok() && informer.cache.is_empty());
    assert!(informer.cache.is_forbidden());
    assert!(informer.cache.is_served(), "403 does not show whether the kind is served");
    allowed.store(true, Ordering::SeqCst);
    assert_eq!(informer.next().await, "+a");
    assert_eq!(informer.next().await, "-a", "without a watch, the state may be wrong for ever");
    allowed.store(true, Ordering::SeqCst);
    assert_eq!(informer.next().await, "+a");
}

#[tokio::test(start_paused = true)]
async fn the_cache_of_an_optional_kind_retains_its_objects_while_only_its_watch_is_forbidden() {
    let removed = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let server = Arc::clone(&removed);
    let mut informer = start(InformerOptions::default().optional(), move |request| {
        match (request.is_watch(), server.load(Ordering::SeqCst)) {
            (true, _) => MockResponse::error(403, "Forbidden"),
            (false, false) => config_maps(5, &[map("a", 1)]),
            (false, true) => config_maps(6, &[]),
        }
    });
    assert_eq!(informer.next().await, "+a");
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(informer.names(), ["a"]);
    assert_eq!(informer.deltas.next().now_or_never().flatten().map(|delta| text(&delta)), None);
    removed.store(true, Ordering::SeqCst);
    assert_eq!(informer.next().await, "-a");
}

#[tokio::test(start_paused = true)]
async fn the_cache_of_a_required_kind_is_not_ready_and_retains_its_objects_while_the_kind_may_not_be_read() {
    let allowed = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let server = Arc::clone(&allowed);
    let mut informer = over(move |request| match (server.load(Ordering::SeqCst), request.is_watch()) {
        (false, _) | (true, true) => MockResponse::error(403, "Forbidden"),
        (true, false) => config_maps(5, &[map("a", 1)]),
    });
    let minutes = |count| tokio::time::sleep(Duration::from_mins(count));
    minutes(5).await;
    assert!(!informer.ready.pending().is_empty());
    allowed.store(true, Ordering::SeqCst);
    assert_eq!(informer.next().await, "+a");
    minutes(5).await;
    assert_eq!(informer.names(), ["a"]);
    assert_eq!(informer.deltas.next().now_or_never().flatten().map(|delta| text(&delta)), None);
}

#[tokio::test(start_paused = true)]
async fn the_readiness_reason_names_the_error_and_the_remedy() {
    for (code, expected) in [
        (
            401,
            "the API server answered 401 Unauthorized: the server returned Unauthorized; the token of this service is not accepted, it may have expired",
        ),
        (
            403,
            "the API server answered 403 Forbidden: the server returned Forbidden; the account of this service lacks a rule",
        ),
        (500, "the API server answered 500 InternalError: the server returned InternalError"),
    ] {
        let status = expected.split([' ', ':']).nth(5).unwrap();
        let informer = over(move |_| MockResponse::error(code, status));
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(reason(&informer), expected);
    }
    let informer = over(|_| MockResponse::ConnectionReset);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(reason(&informer).starts_with("the API server cannot be reached: "), "{}", reason(&informer));
    assert!(reason(&informer).contains("connection reset by peer"), "{}", reason(&informer));
}

#[tokio::test(start_paused = true)]
async fn an_expired_token_is_retried_until_it_is_renewed() {
    let renewed = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let server = Arc::clone(&renewed);
    let mut informer = over(move |request| match (server.load(Ordering::SeqCst), request.is_watch()) {
        (false, _) => MockResponse::error(401, "Unauthorized"),
        (true, false) => config_maps(5, &[map("a", 1)]),
        (true, true) => OPEN,
    });
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(!informer.ready.pending().is_empty());
    renewed.store(true, Ordering::SeqCst);
    assert_eq!(informer.next().await, "+a");
    informer.ready.wait().await;
}

#[tokio::test(start_paused = true)]
async fn an_informer_starts_after_the_first_list_of_the_kind_that_it_needs() {
    for (code, reason) in [(404, "NotFound"), (403, "Forbidden")] {
        let is_available = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let server = Arc::clone(&is_available);
        let other = start(InformerOptions::default().optional(), move |request| {
            match (server.load(Ordering::SeqCst), request.is_watch()) {
                (false, _) => MockResponse::error(code, reason),
                (true, false) => config_maps(5, &[]),
                (true, true) => OPEN,
            }
        });
        let options = InformerOptions::default().after_list_of(&other.cache);
        let mut informer = informer_with(options, |_| config_maps(5, &[map("a", 1)]), |_, _| OPEN);
        informer.ready.wait().await;
        assert!(informer.cache.is_empty() && informer.log.requests().is_empty(), "{reason}");
        is_available.store(true, Ordering::SeqCst);
        assert_eq!(informer.next().await, "+a", "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_informer_is_ready_after_its_own_list_if_the_kind_that_it_needs_is_served() {
    let other = over(|request| if request.is_watch() { OPEN } else { config_maps(5, &[]) });
    let options = InformerOptions::default().after_list_of(&other.cache);
    let informer = informer_with(options, |_| config_maps(5, &[map("a", 1)]), |_, _| OPEN);
    informer.ready.wait().await;
    assert_eq!(informer.names(), ["a"]);
}
