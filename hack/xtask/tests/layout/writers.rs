//! Which files may call the methods that `crates/clippy.toml` disallows: writes to the API server, the clock, and environment
//! variables. Clippy finds the calls; this rule limits the files that except themselves from the lint.

use super::{source::Source, tree};

/// The files and folders with exceptions.
const EXCEPTIONS: [(&str, &str); 12] = [
    ("crates/grove-controller/src/executor", "writes the steps of plans"),
    ("crates/grove-controller/src/events", "writes events"),
    ("crates/grove-runtime/src/leader_election", "writes the Lease"),
    ("crates/compute-domain-daemon/src/api", "writes the entry and the pod of a daemon"),
    ("crates/webhook-server/src/certs", "writes certificates and CA bundles"),
    ("crates/webhook-server/src/template_review", "asks what a user may do"),
    ("crates/grove-runtime/src/caches/reflector", "reads lists and watches as JSON"),
    ("crates/grove-runtime/src/live_list", "reads lists as JSON"),
    ("crates/pcs-controller/src/native_gangs/live_reads", "sends a dry run"),
    ("crates/grove-runtime/src/clock", "reads the clock"),
    ("crates/grove-process/src/telemetry", "reads the variables of OpenTelemetry"),
    ("crates/grove-test-support/src/fuzz", "reads the flags of fuzz tests from variables"),
];

const LINT: &str = "clippy::disallowed_methods";

fn is_at(source: &Source, place: &str) -> bool {
    source.path.strip_prefix(place).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

fn exceptions(source: &Source) -> Vec<usize> {
    if source.krate().is_none() { Vec::new() } else { source.shipped_code().lines_with(LINT) }
}

fn stray_exceptions(source: &Source) -> Vec<String> {
    if EXCEPTIONS.iter().any(|(place, _)| is_at(source, place)) {
        return Vec::new();
    }
    let message = |line: usize| format!("{}:{line}: an exception from {LINT}", source.path);
    exceptions(source).into_iter().map(message).collect()
}

#[test]
fn only_the_listed_writers_are_exempt_from_the_lint() {
    let sources = tree::sources();
    tree::assert_none(&sources.iter().flat_map(stray_exceptions).collect::<Vec<_>>());
    // An entry without an exception would be a hole in the rule.
    for (place, purpose) in EXCEPTIONS {
        let has_exception = sources.iter().any(|source| is_at(source, place) && !exceptions(source).is_empty());
        assert!(has_exception, "{place} {purpose}, but has no exception");
    }
}

#[test]
fn an_exception_elsewhere_is_found() {
    for attribute in ["#![allow(clippy::disallowed_methods)]", "#[expect(clippy::disallowed_methods, reason = \"r\")]"]
    {
        let planted = Source::new("crates/pcs-controller/src/set.rs", &format!("{attribute}\nfn a() {{}}\n"));
        tree::assert_one(&stray_exceptions(&planted), "set.rs:1");
    }
    let test =
        "#[cfg(test)]\nmod tests {\n    #[expect(clippy::disallowed_methods, reason = \"r\")]\n    fn a() {}\n}\n";
    tree::assert_none(&stray_exceptions(&Source::new("crates/pcs-controller/src/set.rs", test)));
}

/// Clippy ignores entries of clippy.toml that name no method, so each kind of write is checked to be listed.
#[test]
fn clippy_disallows_every_way_to_write() {
    let file = std::fs::read_to_string(tree::root().join("crates/clippy.toml")).unwrap();
    for method in ["create", "delete", "delete_collection", "entry", "evict", "patch", "patch_scale", "patch_status"] {
        assert!(file.contains(&format!("\"kube::Api::{method}\"")), "kube::Api::{method} is allowed");
    }
    for method in ["replace", "replace_scale", "replace_status", "patch_subresource", "create_subresource"] {
        assert!(file.contains(&format!("\"kube::Api::{method}\"")), "kube::Api::{method} is allowed");
    }
    for method in ["request", "request_status", "request_stream", "request_text", "send"] {
        assert!(file.contains(&format!("\"kube::Client::{method}\"")), "kube::Client::{method} is allowed");
    }
}
