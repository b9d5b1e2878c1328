//! Measures the duration of defaulting and validation. It runs on demand, because the durations depend on the machine.

use std::hint::black_box;
use std::time::{Duration, Instant};

use grove_api_types::admission::{Facts, default_pod_clique_set, validate_create, validate_update};
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_test_support::fuzz::resident_memory;
use grove_test_support::rows::RowFacts;
use serde_json::Value;

use super::facts::set_facts;
use super::large_objects;

/// A set as the Dynamo operator writes it for a model that spans nodes.
fn typical() -> Value {
    serde_saphyr::from_str(include_str!("examples/multinode.yaml")).expect("YAML")
}

/// The work for one update: parse the JSON for the defaulting webhook, set the defaults, parse the typed objects, validate.
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

/// The mean duration of a call.
fn mean(times: u32, call: impl Fn() -> usize) -> Duration {
    let started = Instant::now();
    for _ in 0..times {
        black_box(call());
    }
    started.elapsed() / times
}

#[test]
#[ignore = "measures; run with --ignored --nocapture"]
fn durations_of_the_rules() {
    let facts = set_facts(&RowFacts::default());
    let set = typical();
    let bytes = set.to_string().into_bytes();
    let mut other = set;
    other["spec"]["replicas"] = 7.into();
    let other = other.to_string().into_bytes();
    let created = mean(2000, || create(&bytes, &facts));
    let updated = mean(2000, || update(&other, &bytes, &facts));
    println!("a typical set of {} bytes: {created:?} per create, {updated:?} per update", bytes.len());
    let before = resident_memory();
    mean(100_000, || update(&other, &bytes, &facts));
    println!("memory before {before} and after {} bytes", resident_memory());
    for (name, generate) in large_objects::ALL {
        let request = large_objects::request(generate(large_objects::LARGEST));
        let duration = large_objects::review_time(&request);
        println!("{name}, {} bytes: {duration:?}", request.0.len());
    }
    println!("memory at the end {} bytes", resident_memory());
}
