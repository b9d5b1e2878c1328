//! Whose an object is: what matters is kept, what has no owner is found, and who wants a taken name is told.

use super::*;

const OWNED: Filter<ConfigMap> = |object| !object.owner_references().is_empty();

fn free(name: &str, version: u32) -> Value {
    let mut object = map(name, version);
    object["metadata"]["ownerReferences"] = json!([]);
    object
}

fn object(value: &Value) -> ConfigMap {
    serde_json::from_value(value.clone()).unwrap()
}

fn set(name: &str, uid: &str) -> ConfigMap {
    object(&json!({ "metadata": { "name": name, "namespace": "ns", "uid": uid } }))
}

#[tokio::test(start_paused = true)]
async fn what_does_not_matter_is_not_retained_and_what_ceases_to_counts_as_gone() {
    let events = vec![
        event("ADDED", &free("b", 6)),
        event("MODIFIED", &free("a", 7)),
        event("MODIFIED", &map("b", 8)),
        event("DELETED", &free("b", 9)),
        event("DELETED", &free("never-seen", 10)),
        event("ADDED", &map("c", 11)),
    ];
    let mut watched = keeping(
        Some(OWNED),
        |_| config_maps(5, &[map("a", 1), free("z", 2)]),
        move |_, _| MockResponse::Watch { events: events.clone(), stays_open: true },
    );
    for expected in ["+a", "-a", "+b", "-b", "+c"] {
        assert_eq!(watched.next().await, expected);
    }
    assert_eq!(watched.names(), ["c"]);
    // What is remembered of those that went is how they were while they mattered.
    let departed: Vec<_> =
        watched.cache.departed("owner").iter().filter_map(|object| object.resource_version()).collect();
    assert_eq!(departed, ["1", "8"]);
}

#[test]
fn objects_that_nobody_controls_are_found_by_namespace_and_belong_to_no_uid() {
    let elsewhere = json!({ "metadata": { "name": "b", "namespace": "other", "uid": "x" } });
    let cache = Cache::from_objects([object(&free("a", 1)), object(&map("c", 1)), object(&elsewhere)]);
    let names = |cache: &Cache<ConfigMap>| cache.orphans("ns").iter().map(|o| o.name_any()).collect::<Vec<_>>();
    assert_eq!(names(&cache), ["a"]);
    assert!(cache.owned_by("").is_empty(), "an owner without a uid owns nothing");
    cache.apply_event(Event::Apply(object(&map("a", 2))));
    cache.apply_event(Event::Apply(object(&free("c", 2))));
    assert_eq!(names(&cache), ["c"]);
    assert_eq!(cache.owned_by("owner").len(), 1);
}

#[test]
fn who_wants_a_taken_name_is_told_once_when_its_holder_changes() {
    let cache = Cache::from_objects([object(&map("taken", 1)), object(&map("own", 1))]);
    let (owner, other) = (set("o", "owner"), set("other", "another"));
    assert!(cache.name_conflicts(&owner, ["taken", "own", "free"]).is_empty(), "they are its own");
    let found = cache.name_conflicts(&other, ["taken", "free"]);
    assert_eq!(found.iter().map(|found| found.metadata.name.as_deref().unwrap()).collect::<Vec<_>>(), ["taken"]);

    let told = |event| {
        let changes = cache.apply_event(event);
        changes.iter().flat_map(|delta| cache.take_name_waiters::<ConfigMap>(delta)).map(|o| o.name).collect::<Vec<_>>()
    };
    assert!(told(Event::Apply(object(&map("own", 2)))).is_empty());
    assert_eq!(told(Event::Apply(object(&map("taken", 2)))), ["other"]);
    assert!(told(Event::Apply(object(&map("taken", 3)))).is_empty(), "nobody looked again");
    cache.name_conflicts(&other, ["taken"]);
    assert_eq!(told(Event::Delete(object(&map("taken", 4)))), ["other"]);
}

#[test]
fn only_seekers_of_the_kind_that_asks_are_told_and_the_others_stay() {
    let cache = Cache::from_objects([object(&map("taken", 1))]);
    cache.name_conflicts(&set("other", "another"), ["taken"]);
    let changes = cache.apply_event(Event::Apply(object(&map("taken", 2))));
    assert!(cache.take_name_waiters::<k8s_openapi::api::core::v1::Pod>(&changes[0]).is_empty());
    assert_eq!(cache.take_name_waiters::<ConfigMap>(&changes[0]).len(), 1);
}

#[test]
fn what_leaves_an_owner_that_is_forgotten_is_not_remembered() {
    let slot: Slot<ConfigMap> = |object| Some(object.name_any());
    let cache = Cache::new(Some(slot), None);
    cache.apply_event(Event::Replace(vec![object(&map("a", 1)), object(&map("b", 1)), object(&map("c", 1))]));
    cache.apply_event(Event::Delete(object(&map("a", 2))));
    assert_eq!(cache.departed("owner").len(), 1);
    cache.forget_owner("owner");
    // The rest of its children go only now.
    cache.apply_event(Event::Delete(object(&map("b", 3))));
    assert!(cache.departed("owner").is_empty());
    cache.apply_event(Event::Delete(object(&map("c", 4))));
    assert!(cache.departed("owner").is_empty());
    let index = cache.read();
    assert!(index.forgets_nobody(), "the last child gone, nothing is known of the owner");
}
