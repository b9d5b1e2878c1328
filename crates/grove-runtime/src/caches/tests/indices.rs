//! Filters, indices, sums and observers of a cache.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    panic::{self, AssertUnwindSafe},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::*;

const HAS_OWNER: Filter<ConfigMap> = |object| !object.owner_references().is_empty();

fn orphan(name: &str, version: u32) -> Value {
    let mut object = map(name, version);
    object["metadata"]["ownerReferences"] = json!([]);
    object
}

fn object(value: &Value) -> ConfigMap {
    serde_json::from_value(value.clone()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_pass_the_filter_any_more_counts_as_deleted() {
    let events = vec![
        event("ADDED", &orphan("b", 6)),
        event("MODIFIED", &orphan("a", 7)),
        event("MODIFIED", &map("b", 8)),
        event("DELETED", &orphan("b", 9)),
        event("DELETED", &orphan("never-seen", 10)),
        event("ADDED", &map("c", 11)),
    ];
    let mut informer = informer_with(
        InformerOptions::default().with_filter(HAS_OWNER),
        |_| config_maps(5, &[map("a", 1), orphan("z", 2)]),
        move |_, _| MockResponse::Watch { events: events.clone(), stays_open: true },
    );
    let mut last_states = vec![];
    for expected in ["+a", "-a", "+b", "-b", "+c"] {
        let delta = informer.deltas.next().await.unwrap();
        last_states.extend(delta.old.as_ref().and_then(|object| object.resource_version()));
        assert_eq!(text(&delta), expected);
    }
    assert_eq!(informer.names(), ["c"]);
    assert_eq!(last_states, ["1", "8"], "a delete has the last state that passed the filter");
}

#[tokio::test]
async fn objects_of_lists_and_watches_are_transformed_and_a_page_is_small() {
    let events = vec![event("ADDED", &map("b", 6)), event("DELETED", &map("a", 7))];
    let mut informer = informer_with(
        InformerOptions::default().with_transform(|map: &mut ConfigMap| map.metadata.owner_references = None),
        |_| config_maps(5, &[map("a", 1)]),
        move |_, _| MockResponse::Watch { events: events.clone(), stays_open: true },
    );
    for expected in ["+a", "+b", "-a"] {
        let delta = informer.deltas.next().await.unwrap();
        assert_eq!(text(&delta), expected);
        assert_eq!(delta.object().unwrap().metadata.owner_references, None, "{expected}");
    }
    let list = &informer.log.requests()[0];
    assert!(list.query.split('&').any(|part| part == "limit=50"), "{}", list.query);
}

#[test]
fn orphans_are_found_by_namespace_and_by_no_uid() {
    let elsewhere = json!({ "metadata": { "name": "b", "namespace": "other", "uid": "x" } });
    for options in [InformerOptions::default(), InformerOptions::default().with_index(Index::ORPHANS)] {
        let (cache, writer) = Cache::with_writer(options);
        writer.replace(vec![object(&orphan("a", 1)), object(&map("c", 1)), object(&elsewhere)]);
        let names = || names(&cache.orphans("ns"));
        assert_eq!(names(), ["a"]);
        assert!(cache.owned_by("ns", "").is_empty(), "an orphan has no owner, not an owner without a uid");
        writer.apply(object(&map("a", 2)));
        writer.apply(object(&orphan("c", 2)));
        assert_eq!(names(), ["c"]);
        assert_eq!(cache.owned_by("ns", "owner").len(), 1);
    }
}

/// A user of the other namespace knows the uid of the owner.
#[test]
fn an_owner_has_no_objects_in_another_namespace() {
    let mut foreign = map("a", 1);
    foreign["metadata"]["namespace"] = json!("other");
    foreign["metadata"]["uid"] = json!("foreign");
    let (cache, writer) = Cache::with_writer(InformerOptions::default());
    writer.replace(vec![object(&map("a", 1)), object(&foreign)]);
    let owned: Vec<_> = cache.owned_by("ns", "owner").iter().map(|object| object.namespace()).collect();
    assert_eq!(owned, [Some("ns".to_owned())]);
}

#[test]
fn an_index_has_no_entry_for_a_value_without_objects() {
    let (cache, writer) = Cache::with_writer(InformerOptions::default().with_index(Index::ORPHANS));
    let sizes = || cache.indexer.read().index_sizes().collect::<Vec<_>>();
    writer.apply(object(&map("a", 1)));
    assert_eq!(sizes(), [1, 0]);
    writer.apply(object(&orphan("a", 2)));
    assert_eq!(sizes(), [0, 1]);
    writer.delete(object(&orphan("a", 3)));
    assert_eq!(sizes(), [0, 0]);
}

const COLOURS: Index<ConfigMap> = Index { name: "colours", values: colours, scope: IndexScope::Cluster };

fn colours(object: &ConfigMap) -> Vec<Cow<'_, str>> {
    object.labels().get("colours").into_iter().flat_map(|colours| colours.split('-')).map(Cow::Borrowed).collect()
}

fn coloured(name: &str, version: u32, colours: &str) -> ConfigMap {
    let mut object = object(&map(name, version));
    object.labels_mut().insert("colours".to_owned(), colours.to_owned());
    object
}

fn names(objects: &[Arc<ConfigMap>]) -> Vec<String> {
    objects.iter().map(|object| object.name_any()).collect()
}

#[test]
fn an_index_finds_the_newest_objects_by_each_of_their_values() {
    for options in [InformerOptions::default().with_index(COLOURS), InformerOptions::default()] {
        let (cache, writer) = Cache::with_writer(options);
        let found = |colour| names(&cache.by_index(&COLOURS, colour));
        writer.replace(vec![coloured("c", 1, "red"), coloured("b", 1, "red-blue"), object(&map("a", 1))]);
        assert_eq!((found("red"), found("blue")), (vec!["b".into(), "c".into()], vec!["b".into()]));
        writer.apply(coloured("b", 2, "blue-green"));
        assert_eq!(
            (found("red"), found("blue"), found("green")),
            (vec!["c".into()], vec!["b".into()], vec!["b".into()])
        );
        let version = |colour| cache.by_index(&COLOURS, colour)[0].resource_version();
        assert_eq!((version("blue"), version("green")), (Some("2".into()), Some("2".into())));
        // The final state has other values than the stored object.
        writer.delete(coloured("b", 3, "black"));
        assert!(found("blue").is_empty() && found("green").is_empty() && found("black").is_empty());
        writer.replace(vec![]);
        assert!(found("red").is_empty() && cache.is_empty());
    }
}

/// A user chooses the values of labels, so a value without the namespace would lead to objects of other tenants.
#[test]
fn values_without_the_namespace_of_their_object_are_a_defect() {
    let in_namespace = |colours: &str| {
        let mut object = coloured("a", 1, colours);
        object.metadata.namespace = Some("prod".to_owned());
        object
    };
    let confined = Index { scope: IndexScope::Namespaced, ..COLOURS };
    let sum = Sum { scope: IndexScope::Namespaced, ..VERSIONS };
    for (colours, is_allowed) in [("prod", true), ("prod/red", true), ("red", false), ("product", false), ("", false)] {
        for options in [InformerOptions::default().with_index(confined), InformerOptions::default().with_sum(sum)] {
            let (_cache, writer) = Cache::with_writer(options);
            let stored = panic::catch_unwind(AssertUnwindSafe(|| writer.apply(in_namespace(colours))));
            assert_eq!(stored.is_ok(), is_allowed, "{colours:?}");
        }
    }
}

/// The sum of the resource versions by the first colour.
const VERSIONS: Sum<ConfigMap> =
    Sum { name: "versions", value: FIRST_COLOUR, amount: version_of, scope: IndexScope::Cluster };

const FIRST_COLOUR: fn(&ConfigMap) -> Option<String> = |object| colours(object).into_iter().next().map(Cow::into_owned);

fn version_of(object: &ConfigMap) -> usize {
    object.resource_version().and_then(|version| version.parse().ok()).unwrap_or_default()
}

#[test]
fn a_sum_ends_with_the_last_object_of_its_value() {
    for options in [InformerOptions::default().with_sum(VERSIONS), InformerOptions::default()] {
        let (cache, writer) = Cache::with_writer(options);
        let sums = || ["red", "blue"].map(|colour| cache.sum(&VERSIONS, colour));
        writer.replace(vec![coloured("a", 1, "red"), coloured("b", 2, "red"), coloured("c", 4, "blue")]);
        assert_eq!(sums(), [3, 4]);
        writer.apply(coloured("b", 8, "blue"));
        assert_eq!(sums(), [1, 12]);
        // The final state has another value and another amount than the stored object, and the other object was never stored.
        writer.delete(coloured("b", 9, "red"));
        writer.delete(coloured("never-seen", 10, "red"));
        assert_eq!(sums(), [1, 4]);
        writer.replace(vec![]);
        assert_eq!((sums(), cache.sum_values(&VERSIONS)), ([0, 0], 0));
    }
}

#[test]
fn a_sum_is_read_without_reading_the_objects() {
    static READS: AtomicUsize = AtomicUsize::new(0);
    let amount = |_: &ConfigMap| {
        READS.fetch_add(1, Ordering::SeqCst);
        1
    };
    let objects_by_colour = Sum { name: "objects", value: FIRST_COLOUR, amount, scope: IndexScope::Cluster };
    let (cache, writer) = Cache::with_writer(InformerOptions::default().with_sum(objects_by_colour));
    writer.replace((0..100).map(|number| coloured(&format!("a{number}"), 1, "red")).collect());
    writer.apply(coloured("a7", 2, "red"));
    let reads = READS.load(Ordering::SeqCst);
    assert_eq!(reads, 102, "each event reads only its own object");
    assert_eq!(cache.sum(&objects_by_colour, "red"), 100);
    assert_eq!(READS.load(Ordering::SeqCst), reads);
}

/// Random events, and the same answers from the index and the sum as from a scan.
#[test]
fn an_index_answers_like_a_scan_after_any_events() {
    let options = InformerOptions::default().with_index(COLOURS).with_index(Index::ORPHANS).with_sum(VERSIONS);
    let (cache, writer) = Cache::with_writer(options);
    let scan = |values: IndexFn<ConfigMap>, value: &str| {
        let objects = cache.all();
        names(&objects.into_iter().filter(|object| values(object).iter().any(|v| v == value)).collect::<Vec<_>>())
    };
    let (mut random, mut deltas) = (1_u32, BTreeSet::new());
    for version in 1..3000 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let choose = |from: &[&'static str], shift: u32| from[(random >> shift) as usize % from.len()];
        let mut object = coloured(choose(&["a", "b", "c", "d"], 8), version, choose(&["red", "blue", "red-blue"], 12));
        object.metadata.namespace = Some(choose(&["ns", "other"], 16).to_owned());
        object.metadata.uid = Some(choose(&["u1", "u2"], 18).to_owned());
        if choose(&["owned", "orphan"], 20) == "orphan" {
            object.metadata.owner_references = None;
        }
        let written = match choose(&["apply", "apply", "apply", "delete", "list"], 24) {
            "delete" => writer.delete(object),
            "list" => writer.replace(vec![object]),
            _ => writer.apply(object),
        };
        deltas.extend(written.iter().map(|delta| (delta.old.is_some(), delta.new.is_some())));
        for colour in ["red", "blue"] {
            assert_eq!(names(&cache.by_index(&COLOURS, colour)), scan(COLOURS.values, colour));
            assert_eq!(cache.has_index_value(&COLOURS, colour), !scan(COLOURS.values, colour).is_empty());
            let with_colours = cache.all().into_iter().filter(|object| FIRST_COLOUR(object).as_deref() == Some(colour));
            assert_eq!(cache.sum(&VERSIONS, colour), with_colours.map(|object| version_of(&object)).sum::<usize>());
        }
        assert!(cache.sum_values(&VERSIONS) <= 2, "a value without objects has no entry");
        for namespace in ["ns", "other"] {
            assert_eq!(names(&cache.orphans(namespace)), scan(Index::ORPHANS.values, namespace));
            let owned = scan(Index::OWNER.values, &format!("{namespace}/owner"));
            assert_eq!(names(&cache.owned_by(namespace, "owner")), owned);
        }
        assert_eq!(cache.len(), cache.all().len());
    }
    assert_eq!(deltas.len(), 3, "created, changed and deleted: {deltas:?}");
}

#[test]
fn an_observer_receives_every_delta_before_a_reader_sees_its_effect() {
    let deleted = Arc::new(Mutex::new(BTreeSet::new()));
    let observed = Arc::clone(&deleted);
    let options = InformerOptions::default().with_observer(move |delta: &Delta<ConfigMap>| {
        if delta.is_delete() {
            // Time for a reader that does not wait for the lock.
            std::thread::sleep(Duration::from_millis(20));
            observed.lock().unwrap().insert(delta.old.as_ref().unwrap().name_any());
        }
    });
    let (cache, writer) = Cache::with_writer(options);
    writer.replace(["a", "b", "c"].map(|name| object(&map(name, 1))).into());
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !cache.is_empty() {
                let missing: Vec<_> =
                    ["a", "b", "c"].into_iter().filter(|name| cache.get("ns", name).is_none()).collect();
                let deleted = deleted.lock().unwrap();
                assert!(
                    missing.iter().all(|name| deleted.contains(*name)),
                    "{missing:?} missing, {deleted:?} observed"
                );
            }
        });
        writer.delete(object(&map("a", 2)));
        writer.replace(vec![object(&map("c", 1))]);
        writer.apply_event(Event::NotServed);
        reader.join().unwrap();
    });
}
