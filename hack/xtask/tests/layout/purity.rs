//! Pure rooms: what decides does no I/O, asks no clock and knows no client. All of grove-api-types is one such room.

use super::{source::Source, tree};

/// The rooms of a reconciler that only think.
const ROOMS: [&str; 4] = ["observed", "desired", "plan", "status"];
/// The pure modules of grove-runtime and grove-controller.
const RUNTIME_ROOMS: [&str; 3] = ["plan", "conditions", "rbac"];
/// What thinking does without.
const IMPURE: [&str; 7] = ["async", ".await", "Client", "Api<", "Api::", "tokio", "now("];

fn is_pure(source: &Source) -> bool {
    match source.krate() {
        Some("grove-api-types") => true,
        Some(krate @ ("grove-runtime" | "grove-controller")) => {
            source.within(krate).is_some_and(|path| RUNTIME_ROOMS.contains(&first_stem(path)))
        }
        Some(krate) => source.within(krate).is_some_and(|path| path.split('/').any(|part| ROOMS.contains(&stem(part)))),
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
    let message = |(line, word): (usize, String)| format!("{}:{line}: `{word}` in a pure room", source.path);
    IMPURE.iter().flat_map(|word| found(word)).map(message).collect()
}

#[test]
fn pure_rooms_do_no_io() {
    let sources = tree::sources();
    tree::hold(&sources.iter().flat_map(impurities).collect::<Vec<_>>());
    // A rule about rooms that nobody has would always hold.
    for room in ROOMS {
        let file = format!("/{room}.rs");
        assert!(
            sources.iter().any(|source| is_pure(source) && source.path.ends_with(&file)),
            "there is no room {room}"
        );
    }
}

#[test]
fn io_in_a_pure_room_is_found() {
    let lines = [
        ("async fn read() {}", "async"),
        ("let pods = pods.await;", ".await"),
        ("fn plan(client: &Client) {}", "Client"),
        ("fn plan(api: Api<Pod>) {}", "Api<"),
        ("let api = Api::all(x);", "Api::"),
        ("use tokio::time;", "tokio"),
        ("let now = Timestamp::now();", "now("),
    ];
    let rooms = [
        "crates/pclq-controller/src/clique/observed.rs",
        "crates/pclq-controller/src/clique/desired.rs",
        "crates/pclq-controller/src/clique/desired/pod.rs",
        "crates/pclq-controller/src/clique/plan/scale.rs",
        "crates/pcs-controller/src/set/status.rs",
        "crates/grove-api-types/src/v1alpha1/pod_clique.rs",
        "crates/grove-controller/src/plan.rs",
        "crates/grove-runtime/src/rbac.rs",
    ];
    for (line, word) in lines {
        for room in rooms {
            let planted = Source::new(room, &format!("//! A room without async.\nfn a() {{\n    {line}\n}}\n"));
            let found = impurities(&planted);
            assert!(
                found.iter().any(|violation| violation.contains(&format!("`{word}`"))),
                "{room}: {line}: {found:?}"
            );
        }
    }
}

#[test]
fn io_elsewhere_and_words_about_it_are_fine() {
    let text = "// async is for others\nfn known(runtime_client: &str) { let nowhere = \"tokio\"; }\n";
    tree::hold(&impurities(&Source::new("crates/pcs-controller/src/set/plan.rs", text)));
    tree::hold(&impurities(&Source::new("crates/pcs-controller/src/set/observe.rs", "async fn observe() {}\n")));
    tree::hold(&impurities(&Source::new("crates/grove-controller/src/executor/status.rs", "async fn publish() {}\n")));
}
