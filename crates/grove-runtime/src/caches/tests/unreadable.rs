//! Objects that cannot be decoded: they exist, and affect no other object.

use super::*;

/// A config map with a value that is no text.
fn unreadable(name: &str, version: u32) -> Value {
    let mut object = map(name, version);
    object["data"] = json!({ "secret": ["a secret"] });
    object
}

/// Waits until the watch has delivered all events before the config map `last`.
async fn wait_for_last(informer: &Informer) {
    informer.cache.wait_for(|cache| cache.get("ns", "last").is_some()).await;
}

fn unreadable_names(informer: &Informer) -> Vec<&'static str> {
    ["a", "b", "c"].into_iter().filter(|name| informer.cache.unreadable("ns", name).is_some()).collect()
}

fn has_metric(informer: &Informer, line: &str) -> bool {
    informer.metrics.render().unwrap().lines().any(|other| other == line)
}

#[tokio::test(start_paused = true)]
async fn one_unreadable_item_of_a_list_does_not_affect_the_others() {
    let informer = informer(|_| config_maps(5, &[map("a", 1), unreadable("b", 2), map("c", 3)]), |_, _| OPEN);
    informer.ready.wait().await;
    assert_eq!(informer.names(), ["a", "c"]);
    let object = informer.cache.unreadable("ns", "b").unwrap();
    assert_eq!(object.metadata.uid.as_deref(), Some("uid-b"));
    assert_eq!(object.metadata.resource_version.as_deref(), Some("2"));
    assert!(!object.reason.contains("secret"), "{}", object.reason);
    assert!(informer.cache.contains("ns", "b") && informer.cache.get("ns", "b").is_none());
    assert!(!informer.cache.contains("ns", "z"));
    assert_eq!(informer.cache.unreadable_owned_by("ns", "owner").len(), 1);
    assert!(informer.cache.unreadable_owned_by("other", "owner").is_empty());
    assert!(has_metric(&informer, r#"grove_unreadable_objects{kind="ConfigMap"} 1"#));
    assert!(has_metric(&informer, r#"grove_cache_index_values{index="owner",kind="ConfigMap"} 1"#));
}

#[tokio::test(start_paused = true)]
async fn times_that_cannot_be_represented_in_the_metadata_do_not_make_an_object_unreadable() {
    let mut object = map("a", 1);
    object["metadata"]["managedFields"] = json!([{ "manager": "m", "time": "9999-12-31T23:59:59Z" }]);
    object["metadata"]["deletionTimestamp"] = json!("9999-12-31T23:59:59Z");
    let informer = informer(move |_| config_maps(5, std::slice::from_ref(&object)), |_, _| OPEN);
    informer.ready.wait().await;
    assert!(informer.cache.get("ns", "a").unwrap().metadata.deletion_timestamp.is_some());
    assert_eq!(unreadable_names(&informer), Vec::<&str>::new());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_becomes_unreadable_stays_with_its_last_state_until_it_is_repaired() {
    let (events, watched) = unbounded();
    let watched = Mutex::new(Some(watched));
    let mut informer = informer(
        |_| config_maps(5, &[map("a", 1), map("b", 2)]),
        move |_, _| watched.lock().take().map_or(OPEN, MockResponse::LiveWatch),
    );
    let mut unreadable_events = informer.cache.subscribe_unreadable();
    assert_eq!((informer.next().await, informer.next().await), ("+a".into(), "+b".into()));
    events.unbounded_send(event("MODIFIED", &unreadable("a", 6))).unwrap();
    assert_eq!(unreadable_events.next().await.unwrap().metadata.name.as_deref(), Some("a"));
    assert_eq!((informer.names(), unreadable_names(&informer)), (vec!["a".into(), "b".into()], vec!["a"]));
    assert_eq!(informer.cache.get("ns", "a").unwrap().resource_version().as_deref(), Some("1"));
    assert!(has_metric(&informer, r#"grove_unreadable_objects{kind="ConfigMap"} 1"#));

    events.unbounded_send(event("MODIFIED", &map("b", 7))).unwrap();
    assert_eq!(informer.next().await, "~b");
    events.unbounded_send(event("MODIFIED", &map("a", 8))).unwrap();
    assert_eq!(informer.next().await, "~a");
    assert_eq!(unreadable_events.next().await.unwrap().metadata.name.as_deref(), Some("a"));
    assert_eq!(unreadable_names(&informer), Vec::<&str>::new());
    assert_eq!(informer.log.count(RecordedRequest::is_list), 1, "the watch continued");
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_object_is_absent_after_its_deletion() {
    let events = vec![
        event("ADDED", &unreadable("a", 6)),
        event("MODIFIED", &unreadable("b", 7)),
        event("DELETED", &unreadable("a", 8)),
        event("DELETED", &unreadable("b", 9)),
        event("ADDED", &unreadable("c", 10)),
        event("ADDED", &map("last", 11)),
    ];
    let mut informer = informer(
        |_| config_maps(5, &[map("b", 2)]),
        move |_, _| MockResponse::Watch { events: events.clone(), stays_open: true },
    );
    wait_for_last(&informer).await;
    assert_eq!((informer.names(), unreadable_names(&informer)), (vec!["last".into()], vec!["c"]));
    for expected in ["+b", "-b", "+last"] {
        assert_eq!(informer.next().await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_relist_finds_repaired_deleted_and_new_unreadable_objects() {
    let mut informer = informer(
        |nth| match nth {
            0 => config_maps(5, &[unreadable("a", 1), unreadable("b", 2), map("c", 3)]),
            _ => config_maps(20, &[map("a", 15), unreadable("c", 16), map("last", 17)]),
        },
        |nth, _| match nth {
            0 => MockResponse::Watch { events: vec![event("ERROR", &status(410, "Expired"))], stays_open: true },
            _ => OPEN,
        },
    );
    wait_for_last(&informer).await;
    assert_eq!(informer.names(), ["a", "c", "last"]);
    assert_eq!(unreadable_names(&informer), ["c"]);
    for expected in ["+c", "+a", "+last"] {
        assert_eq!(informer.next().await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_in_another_format_than_that_of_the_api_leads_to_a_list() {
    let mut informer = informer(
        |nth| match nth {
            0 => config_maps(5, &[map("a", 1)]),
            _ => config_maps(9, &[map("a", 1), map("b", 8)]),
        },
        |nth, _| match nth {
            0 => MockResponse::Watch { events: vec![event("BOOKMARK", &json!({}))], stays_open: true },
            _ => OPEN,
        },
    );
    assert_eq!(informer.next().await, "+a");
    let created = tokio::time::timeout(Duration::from_mins(1), informer.next()).await;
    assert_eq!(created.ok().as_deref(), Some("+b"), "the next watch would begin with the same event");
}

#[test]
fn an_unreadable_object_with_another_uid_replaces_a_deleted_object() {
    let (cache, writer) = Cache::<ConfigMap>::with_writer(InformerOptions::default());
    let decoded = |value: &Value| DecodedObject::<ConfigMap>::from_json(&value.to_string());
    writer.apply_event(Event::Apply(decoded(&map("a", 1))));
    let mut successor = unreadable("a", 2);
    successor["metadata"]["uid"] = json!("successor");
    let deltas = writer.apply_event(Event::Apply(decoded(&successor))).deltas;
    assert_eq!(deltas.iter().map(text).collect::<Vec<_>>(), ["-a"]);
    assert!(cache.is_empty() && cache.contains("ns", "a"));
    writer.apply_event(Event::Delete(decoded(&map("a", 3))));
    assert!(cache.contains("ns", "a"), "the delete of the first object came late");
}

#[test]
fn unreadable_objects_are_found_by_their_controller_and_without_one() {
    let (cache, writer) = Cache::<ConfigMap>::with_writer(InformerOptions::default());
    let mut orphan = unreadable("b", 2);
    orphan["metadata"]["ownerReferences"] = json!([]);
    orphan["metadata"]["labels"] = json!({ "k": "v" });
    for object in [unreadable("a", 1), orphan] {
        writer.apply_event(Event::Apply(DecodedObject::from_json(&object.to_string())));
    }
    let names = |objects: Vec<Arc<UnreadableObject>>| {
        objects.iter().map(|object| object.metadata.name.clone().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(names(cache.unreadable_owned_by("ns", "owner")), ["a"]);
    assert_eq!(names(cache.unreadable_orphans("ns")), ["b"]);
    assert_eq!(cache.unreadable_orphans("ns")[0].metadata.labels.as_ref().unwrap()["k"], "v");
    assert!(cache.unreadable_orphans("other").is_empty());
}

#[test]
fn the_old_state_of_an_unreadable_object_is_published_if_its_uid_its_labels_or_its_owners_change() {
    let (cache, writer) = Cache::<ConfigMap>::with_writer(InformerOptions::default());
    let mut published = cache.subscribe_unreadable();
    let mut version = 1;
    let mut published_after = |path: &str, value: Value| {
        version += 1;
        let mut object = unreadable("a", version);
        object["metadata"][path] = value;
        writer.apply_event(Event::Apply(DecodedObject::from_json(&object.to_string())));
        let versions = std::iter::from_fn(|| published.next().now_or_never().flatten());
        versions.map(|object| object.metadata.resource_version.clone().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(published_after("annotations", json!({})), ["2"], "it appeared");
    assert_eq!(published_after("annotations", json!({ "k": "v" })), ["3"]);
    assert_eq!(published_after("labels", json!({ "k": "v" })), ["3", "4"]);
    assert_eq!(published_after("ownerReferences", json!([])), ["4", "5"]);
    assert_eq!(published_after("uid", json!("successor")), ["5", "6"]);
}

#[test]
fn an_unreadable_object_is_logged_once_per_reason() {
    let writer = Cache::<ConfigMap>::with_writer(InformerOptions::default()).1;
    let logged = |value: &Value| {
        let decoded = DecodedObject::from_json(&value.to_string());
        writer.apply_event(Event::Apply(decoded)).to_log.len()
    };
    assert_eq!([1, 2, 3].map(|version| logged(&unreadable("a", version))), [1, 0, 0]);
    let mut other_reason = map("a", 4);
    other_reason["metadata"]["labels"] = json!(5);
    assert_eq!(logged(&other_reason), 1);
    assert_eq!(logged(&map("a", 5)), 0);
    assert_eq!(logged(&unreadable("a", 6)), 1);
}
