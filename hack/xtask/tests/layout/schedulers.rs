//! Only the file of a scheduler, and the tables with one row per scheduler, name a scheduler other than the default one. So everything about a
//! scheduler is in its files, and the other code treats all schedulers alike. Each scheduler has its end-to-end tests, and is on its page.

use super::{documents::test_names, source::Source, tree};
use grove_api_types::scheduler::{GangSupport, Scheduler};
use std::{collections::BTreeSet, fs};

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
const PAGE: &str = "docs/topology-controller.md";
const CONFIGURATION_PAGE: &str = "docs/configuration.md";
/// The begin of the row with the names of all schedulers.
const PROFILES: &str = "| `scheduler.profiles[].name`";
const COMPONENTS: &str = "deploy/components";
const END_TO_END_TESTS: &str = "e2e/tests/it/";

/// The first words of the names of the schedulers other than the default one. Identifiers and labels begin with them, too.
fn first_words() -> impl Iterator<Item = &'static str> {
    let others = Scheduler::ALL.into_iter().filter(|(_, scheduler)| *scheduler != Scheduler::default());
    others.map(|(name, _)| first_word(name))
}

fn first_word(name: &str) -> &str {
    name.split('-').next().unwrap_or(name)
}

/// Whether the text has an identifier, a label or a name of a scheduler: `Kai`, `kai_queue`, `KaiScheduler`, `kai.scheduler/queue`.
fn names_scheduler(text: &str) -> bool {
    text.split(|letter: char| !letter.is_ascii_alphanumeric()).any(|word| {
        let lower = word.to_ascii_lowercase();
        first_words().any(|name| {
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

/// The end-to-end tests that are missing for these schedulers.
fn missing_tests(schedulers: &[&str], tests: &BTreeSet<String>) -> Vec<String> {
    let expected = schedulers.iter().map(|name| format!("gangs_get_the_pod_groups_of_{}", first_word(name)));
    expected.filter(|test| !tests.contains(test)).map(|test| format!("there is no test {test}")).collect()
}

#[test]
fn each_scheduler_with_pod_groups_of_its_own_has_an_end_to_end_test() {
    let has_own = |scheduler: &Scheduler| scheduler.gang_support() == GangSupport::OwnPodGroups;
    let with_own = Scheduler::ALL.into_iter().filter(|(_, scheduler)| has_own(scheduler)).map(|(name, _)| name);
    let with_own: Vec<&str> = with_own.collect();
    tree::assert_none(&missing_tests(&with_own, &test_names(&tree::sources())));
    tree::assert_one(&missing_tests(&["other-scheduler"], &test_names(&tree::sources())), "pod_groups_of_other");
}

/// The components that no end-to-end test names.
fn components_without_test(components: &[String], sources: &[Source]) -> Vec<String> {
    let tests: Vec<&Source> = sources.iter().filter(|source| source.path.starts_with(END_TO_END_TESTS)).collect();
    let is_named = |component: &str| {
        let (literal, folder) = (format!("\"{component}\""), format!("components/{component}"));
        tests.iter().any(|source| source.text.contains(&literal) || source.text.contains(&folder))
    };
    let unnamed = components.iter().filter(|component| !is_named(component));
    unnamed.map(|component| format!("{COMPONENTS}/{component}: no end-to-end test applies it")).collect()
}

fn components() -> Vec<String> {
    let folders = fs::read_dir(tree::root().join(COMPONENTS)).into_iter().flatten().flatten();
    folders.filter_map(|folder| folder.file_name().into_string().ok()).collect()
}

#[test]
fn each_component_has_an_end_to_end_test() {
    let components = components();
    assert!(components.len() > 3, "{components:?}");
    tree::assert_none(&components_without_test(&components, &tree::sources()));
    let other = Source::new("e2e/tests/it/deployment.rs", "const A: &str = \"volcano\";");
    tree::assert_none(&components_without_test(&["volcano".to_owned()], std::slice::from_ref(&other)));
    tree::assert_one(&components_without_test(&["kai-scheduler".to_owned()], &[other]), "kai-scheduler");
}

/// The schedulers without a row in the table at the beginning of the page.
fn undescribed(page: &str) -> Vec<String> {
    let rows: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let missing = Scheduler::ALL.into_iter().filter(|(name, _)| !rows.contains(name));
    missing.map(|(name, _)| format!("{PAGE}: the table has no row for {name}")).collect()
}

#[test]
fn the_page_of_topology_controller_describes_each_scheduler() {
    let page = fs::read_to_string(tree::root().join(PAGE)).unwrap();
    tree::assert_none(&undescribed(&page));
    tree::assert_one(&undescribed(&page.replace("| `volcano`", "| volcano")), "no row for volcano");
}

/// What a scheduler lacks besides its code: its name in the row of the configuration, and its component if it has `PodGroup`s.
fn not_installable(configuration: &str, components: &[String]) -> Vec<String> {
    let row = configuration.lines().find(|line| line.starts_with(PROFILES)).unwrap_or_default();
    let mut missing = Vec::new();
    for (name, scheduler) in Scheduler::ALL {
        if !row.contains(&format!("`{name}`")) {
            missing.push(format!("{CONFIGURATION_PAGE}: {PROFILES} does not name {name}"));
        }
        if scheduler.gang_support() != GangSupport::None && !components.iter().any(|component| component == name) {
            missing.push(format!("{COMPONENTS} has no component {name}"));
        }
    }
    missing
}

#[test]
fn each_scheduler_has_its_component_and_its_name_in_the_configuration() {
    let page = fs::read_to_string(tree::root().join(CONFIGURATION_PAGE)).unwrap();
    let components = components();
    tree::assert_none(&not_installable(&page, &components));
    let without_lpx = page.replace("`lpx-scheduler`", "");
    tree::assert_one(&not_installable(&without_lpx, &components), "lpx-scheduler");
    let others: Vec<_> = components.into_iter().filter(|component| component != "volcano").collect();
    tree::assert_one(&not_installable(&page, &others), "component volcano");
}
