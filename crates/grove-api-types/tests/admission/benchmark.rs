//! What the rules cost; measured on demand, since a time is not a promise on somebody else's machine.

use std::hint::black_box;
use std::time::{Duration, Instant};

use grove_api_types::admission::{Facts, default_pod_clique_set, validate_create, validate_update};
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_test_support::fuzz::resident_memory;
use grove_test_support::rows::Known;
use serde_json::Value;

use crate::facts::of_sets;
use crate::large_objects;

/// A set as the Dynamo operator writes it for a model that spans nodes.
fn typical() -> Value {
    serde_saphyr::from_str(include_str!("examples/multinode.yaml")).expect("YAML")
}

/// All that is done for one update: twice read, defaulted, read into types, judged.
fn update(bytes: &[u8], old: &[u8], facts: &Facts) -> usize {
    let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).expect("JSON");
    let defaults = default_pod_clique_set(&read(bytes), Some(&read(old)), facts);
    let typed = |bytes: &[u8]| serde_json::from_slice::<PodCliqueSet>(bytes).expect("a set");
    let result = validate_update(&typed(bytes), &typed(old), facts);
    defaults.len() + result.warnings.len()
}

fn create(bytes: &[u8], facts: &Facts) -> usize {
    let object = serde_json::from_slice::<Value>(bytes).expect("JSON");
    let defaults = default_pod_clique_set(&object, None, facts);
    let result = validate_create(&serde_json::from_slice(bytes).expect("a set"), facts);
    defaults.len() + result.warnings.len()
}

fn each(times: u32, it: impl Fn() -> usize) -> Duration {
    let begun = Instant::now();
    for _ in 0..times {
        black_box(it());
    }
    begun.elapsed() / times
}

#[test]
#[ignore = "measures; run with --ignored --nocapture"]
fn figures_of_the_rules() {
    let facts = of_sets(&Known::default());
    let set = typical();
    let bytes = set.to_string().into_bytes();
    let mut other = set;
    other["spec"]["replicas"] = 7.into();
    let other = other.to_string().into_bytes();
    let created = each(2000, || create(&bytes, &facts));
    let updated = each(2000, || update(&other, &bytes, &facts));
    println!("a typical set of {} bytes: {created:?} per creation, {updated:?} per update", bytes.len());
    let before = resident_memory();
    each(100_000, || update(&other, &bytes, &facts));
    println!("memory before {before} and after {} bytes", resident_memory());
    for (name, made) in large_objects::ALL {
        let texts = large_objects::sent(made(large_objects::LARGEST));
        let took = large_objects::reviewed(&texts);
        println!("{name}, {} bytes: {took:?}", texts.0.len());
    }
    println!("memory at the end {} bytes", resident_memory());
}
