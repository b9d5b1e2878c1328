//! Subscribers of a cache: each gets the current objects, and then every change.

use std::collections::BTreeMap;

use super::*;

fn object(name: &str, version: u32) -> ConfigMap {
    serde_json::from_value(map(name, version)).unwrap()
}

/// The deltas that the subscriber has received.
fn received(deltas: &mut (impl Stream<Item = Delta<ConfigMap>> + Unpin)) -> Vec<String> {
    std::iter::from_fn(|| deltas.next().now_or_never().flatten()).map(|delta| text(&delta)).collect()
}

#[test]
fn a_late_subscriber_gets_the_current_objects_first_and_an_early_one_gets_nothing_twice() {
    let (cache, writer) = Cache::with_writer(InformerOptions::default());
    let mut early = cache.subscribe();
    writer.replace(vec![object("a", 1), object("b", 2)]);
    let mut late = cache.subscribe();
    writer.apply(object("a", 3));
    writer.delete(object("b", 4));
    assert_eq!(received(&mut early), ["+a", "+b", "~a", "-b"]);
    assert_eq!(received(&mut late), ["+a", "+b", "~a", "-b"]);
}

#[test]
fn a_dropped_subscriber_is_removed_and_the_others_get_every_delta() {
    let (cache, writer) = Cache::with_writer(InformerOptions::default());
    let (dropped, mut other) = (cache.subscribe(), cache.subscribe());
    drop(dropped);
    writer.replace(vec![object("a", 1), object("b", 2)]);
    assert_eq!(received(&mut other), ["+a", "+b"]);
    assert_eq!(cache.subscribers.lock().deltas.len(), 1);
}

#[test]
fn a_subscriber_that_joins_during_writes_ends_with_the_state_of_the_cache() {
    // So many that a subscriber reads them during several writes.
    const OBJECTS: u32 = 2000;
    let (cache, writer) = Cache::with_writer(InformerOptions::default());
    writer.replace((0..OBJECTS).map(|index| object(&format!("m{index}"), 1)).collect());
    let subscribers = std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            for version in 2..20_000 {
                let name = format!("m{}", version % OBJECTS);
                let is_cached = cache.get("ns", &name).is_some();
                if is_cached && version % 3 == 0 {
                    writer.delete(object(&name, version));
                } else {
                    writer.apply(object(&name, version));
                }
            }
        });
        let mut subscribers = vec![];
        while !writing.is_finished() && subscribers.len() < 20 {
            subscribers.push(cache.subscribe());
        }
        subscribers
    });
    let versions = |objects: Vec<Arc<ConfigMap>>| -> BTreeMap<_, _> {
        objects.into_iter().map(|object| (object.name_any(), object.resource_version())).collect()
    };
    for mut deltas in subscribers {
        let mut objects = BTreeMap::new();
        while let Some(delta) = deltas.next().now_or_never().flatten() {
            let name = delta.object().unwrap().name_any();
            let known = match &delta.new {
                Some(new) => objects.insert(name, Arc::clone(new)),
                None => objects.remove(&name),
            };
            assert_eq!(known.is_some(), delta.old.is_some(), "a lost or repeated delta");
        }
        assert_eq!(versions(objects.into_values().collect()), versions(cache.all()));
    }
}
