//! Only the file of a scheduler, and the tables with one row per scheduler, name a scheduler other than the default one. So everything about a
//! scheduler is in its files, and the other code treats all schedulers alike.

use super::{source::Source, tree};

/// The names as the first word of an identifier, of a label or of a scheduler name.
const SCHEDULERS: [&str; 3] = ["kai", "volcano", "lpx"];
/// The files of the schedulers.
const FOLDERS: [&str; 4] = [
    "crates/grove-api-types/src/scheduler/",
    "crates/topology-controller/src/pod_groups/",
    "crates/topology-controller/src/scheduler_topologies/",
    "crates/webhook-server/src/queues/",
];
/// The enum, and the tables with one row per scheduler.
const TABLES: [&str; 5] = [
    "crates/grove-api-types/src/scheduler.rs",
    "crates/topology-controller/src/pod_groups.rs",
    "crates/topology-controller/src/scheduler_topologies.rs",
    "crates/topology-controller/src/gang/desired.rs",
    "crates/webhook-server/src/queues.rs",
];
/// The configuration.
const CONFIGURATION: &str = "crates/grove-api-types/src/configuration";
const TEST_SUPPORT: &str = "grove-test-support";

/// Whether the text has an identifier, a label or a name of a scheduler: `Kai`, `kai_queue`, `KaiScheduler`, `kai.scheduler/queue`.
fn names_scheduler(text: &str) -> bool {
    text.split(|letter: char| !letter.is_ascii_alphanumeric()).any(|word| {
        let lower = word.to_ascii_lowercase();
        SCHEDULERS.iter().any(|name| {
            let rest = lower.strip_prefix(name).map(|_| &word[name.len()..]);
            rest.is_some_and(|rest| rest.chars().next().is_none_or(|next| !next.is_ascii_lowercase()))
        })
    })
}

fn stray_names(source: &Source) -> Vec<String> {
    let is_allowed = FOLDERS.iter().any(|folder| source.path.starts_with(folder))
        || TABLES.contains(&source.path.as_str())
        || source.path.starts_with(CONFIGURATION);
    if is_allowed || source.krate().is_none_or(|krate| krate == TEST_SUPPORT) {
        return Vec::new();
    }
    let code = source.shipped_code();
    let lines = code.text.lines().enumerate().map(|(at, line)| (at + 1, line));
    let fragments = code.literals.iter().chain(&code.comments).map(|fragment| (fragment.line, &*fragment.text));
    let named = lines.chain(fragments).filter(|(_, text)| names_scheduler(text));
    named.map(|(line, text)| format!("{}:{line}: names a scheduler: {}", source.path, text.trim())).collect()
}

#[test]
fn only_the_files_of_a_scheduler_name_it() {
    let sources = tree::sources();
    tree::assert_none(&sources.iter().flat_map(stray_names).collect::<Vec<_>>());
    for place in FOLDERS.into_iter().chain(TABLES) {
        let has_name = |source: &Source| source.path.starts_with(place) && names_scheduler(&source.text);
        assert!(sources.iter().any(has_name), "{place} names no scheduler, so it needs no exception");
    }
}

#[test]
fn a_scheduler_that_is_named_elsewhere_is_found() {
    let service = |text: &str| stray_names(&Source::new("crates/pcs-controller/src/set.rs", text));
    for text in [
        "if a == Scheduler::Kai {}",
        "const A: &str = \"kai.scheduler/queue\";",
        "// Volcano needs a queue.",
        "fn lpx_name() {}",
    ] {
        tree::assert_one(&service(text), "crates/pcs-controller/src/set.rs:1");
    }
    tree::assert_none(&service(
        "fn a() { let kaiser = volcanoes(); } // the scheduler\n#[cfg(test)]\nmod tests {\n    fn kai() {}\n}\n",
    ));
}
