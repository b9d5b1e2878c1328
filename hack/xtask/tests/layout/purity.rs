//! Pure modules do no I/O, read no clock and have no client. All of grove-api-types is pure.
//!
//! Clippy cannot check this: its lists of disallowed methods are for whole crates.

use super::{source::Source, tree};

/// The pure layers of a reconciler.
const LAYERS: [&str; 4] = ["observed", "desired", "plan", "status"];
/// The pure modules of grove-process and grove-controller.
const LIBRARY_MODULES: [&str; 3] = ["plan", "conditions", "rbac"];
/// Words that pure code does not contain.
const IMPURE: [&str; 7] = ["async", ".await", "Client", "Api<", "Api::", "tokio", "now("];

fn is_pure(source: &Source) -> bool {
    match source.krate() {
        Some("grove-api-types") => true,
        Some(krate @ ("grove-process" | "grove-controller")) => {
            source.within(krate).is_some_and(|path| LIBRARY_MODULES.contains(&first_stem(path)))
        }
        Some(krate) => {
            source.within(krate).is_some_and(|path| path.split('/').any(|part| LAYERS.contains(&stem(part))))
        }
        None => false,
    }
}

fn stem(part: &str) -> &str {
    part.strip_suffix(".rs").unwrap_or(part)
}

fn first_stem(path: &str) -> &str {
    stem(path.split('/').next().unwrap_or_default())
}

fn impurities(source: &Source) -> Vec<String> {
    if !is_pure(source) {
        return Vec::new();
    }
    let code = source.shipped_code();
    let found = |word: &str| code.lines_with(word).into_iter().map(|line| (line, word.to_owned())).collect::<Vec<_>>();
    let message = |(line, word): (usize, String)| format!("{}:{line}: `{word}` in a pure module", source.path);
    IMPURE.iter().flat_map(|word| found(word)).map(message).collect()
}

#[test]
fn pure_modules_do_no_io() {
    let sources = tree::sources();
    tree::assert_none(&sources.iter().flat_map(impurities).collect::<Vec<_>>());
    // A rule about layers that do not exist would always pass.
    for layer in LAYERS {
        let file = format!("/{layer}.rs");
        assert!(
            sources.iter().any(|source| is_pure(source) && source.path.ends_with(&file)),
            "there is no layer {layer}"
        );
    }
}

#[test]
fn io_in_a_pure_module_is_found() {
    let lines = [
        ("async fn read() {}", "async"),
        ("let pods = pods.await;", ".await"),
        ("fn plan(client: &Client) {}", "Client"),
        ("fn plan(api: Api<Pod>) {}", "Api<"),
        ("let api = Api::all(x);", "Api::"),
        ("use tokio::time;", "tokio"),
        ("let now = Timestamp::now();", "now("),
    ];
    let files = [
        "crates/pclq-controller/src/clique/observed.rs",
        "crates/pclq-controller/src/clique/desired.rs",
        "crates/pclq-controller/src/clique/desired/pod.rs",
        "crates/pclq-controller/src/clique/plan/scale.rs",
        "crates/pcs-controller/src/set/status.rs",
        "crates/grove-api-types/src/v1alpha1/pod_clique.rs",
        "crates/grove-controller/src/plan.rs",
        "crates/grove-process/src/rbac.rs",
    ];
    for (line, word) in lines {
        for file in files {
            let planted = Source::new(file, &format!("//! A module without async.\nfn a() {{\n    {line}\n}}\n"));
            let found = impurities(&planted);
            assert!(
                found.iter().any(|violation| violation.contains(&format!("`{word}`"))),
                "{file}: {line}: {found:?}"
            );
        }
    }
}

#[test]
fn io_elsewhere_and_words_about_it_are_allowed() {
    let text = "// async is for others\nfn known(runtime_client: &str) { let nowhere = \"tokio\"; }\n";
    tree::assert_none(&impurities(&Source::new("crates/pcs-controller/src/set/plan.rs", text)));
    tree::assert_none(&impurities(&Source::new("crates/pcs-controller/src/set/observe.rs", "async fn observe() {}\n")));
    tree::assert_none(&impurities(&Source::new(
        "crates/grove-controller/src/executor/status.rs",
        "async fn publish() {}\n",
    )));
}
