//! Who may write to the API server: the executor, the lease, the certificates. Events have one place of their own,
//! because kube's recorder writes them and no plan contains them.

use super::{source::Source, tree};

/// The files and folders that write: no more than these three.
const WRITERS: [&str; 3] = [
    "crates/grove-controller/src/executor",
    "crates/grove-runtime/src/leader_election",
    "crates/webhook-server/src/certs",
];
/// Where kube's recorder is made and used.
const ANNOUNCER: &str = "crates/grove-controller/src/events";

const WRITES: [&str; 21] = [
    "PatchParams",
    "PostParams",
    "DeleteParams",
    "EvictParams",
    ".create(",
    ".patch(",
    ".patch_status(",
    ".replace_status(",
    ".delete(",
    ".delete_collection(",
    ".create_subresource(",
    ".patch_metadata(",
    ".patch_scale(",
    ".replace_scale(",
    ".evict(",
    "Method::POST",
    ".patch_subresource(",
    "Request::post",
    "Request::put",
    "Request::patch",
    "Request::delete",
];

fn is_at(source: &Source, place: &str) -> bool {
    source.path.strip_prefix(place).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

fn stray_writes(source: &Source) -> Vec<String> {
    if WRITERS.iter().any(|place| is_at(source, place)) { Vec::new() } else { writes(source) }
}

fn writes(source: &Source) -> Vec<String> {
    if source.krate().is_none() {
        return Vec::new();
    }
    let code = source.shipped_code();
    let events: &[&str] = if is_at(source, ANNOUNCER) { &[] } else { &["Recorder::new"] };
    let words = WRITES.iter().chain(events);
    let message = |word: &str, line: usize| format!("{}:{line}: `{word}` writes to the API server", source.path);
    words.flat_map(|word| code.lines_with(word).into_iter().map(move |line| message(word, line))).collect()
}

#[test]
fn only_the_executor_writes() {
    let sources = tree::sources();
    tree::hold(&sources.iter().flat_map(stray_writes).collect::<Vec<_>>());
    // A place that writes nothing would be a hole in the rule.
    for place in WRITERS {
        let writes = sources.iter().any(|source| is_at(source, place) && !writes(source).is_empty());
        assert!(writes, "{place} does not write");
    }
}

#[test]
fn a_write_elsewhere_is_found() {
    let lines = WRITES.iter().chain(&["Recorder::new"]).map(|word| match word.strip_suffix('(') {
        Some(call) => (word, format!("fn a() {{ pods{call}(x) }}")),
        None => (word, format!("fn a() {{ {word}; }}")),
    });
    for (word, line) in lines {
        let planted = Source::new("crates/pcs-controller/src/set.rs", &line);
        tree::turns_red(&stray_writes(&planted), &format!("`{word}`"));
    }
}

#[test]
fn the_writers_and_words_about_writing_are_fine() {
    let text = "fn a() { pods.create(&PostParams::default(), &pod) }";
    tree::hold(&stray_writes(&Source::new("crates/grove-controller/src/executor/steps.rs", text)));
    tree::hold(&stray_writes(&Source::new(
        "crates/pcs-controller/src/set/plan.rs",
        "fn a() { Step::create(&pod) } // .patch(",
    )));
    tree::turns_red(
        &stray_writes(&Source::new("crates/grove-controller/src/events.rs", "fn a() { pods.patch(x) }")),
        ".patch(",
    );
}
