//! The tables of admission, played through a real API server: every row is asked as it stands there, under the configuration
//! and in the cluster that it takes for granted, and the answer is compared word by word.

mod ask;
mod ground;

use std::collections::BTreeMap;

use ask::{Asked, Said};
use e2e::replicas::Replica;
use e2e::rows::{self, Facts, Row};
use e2e::{Plane, world::LIMIT};
use futures::{StreamExt, stream};
use ground::Ground;
use kube::Client;
use serde::Deserialize;

/// The files of the tables about objects.
const FILES: [&str; 9] = [
    "cliques.yaml",
    "groups.yaml",
    "names.yaml",
    "pods.yaml",
    "sharing.yaml",
    "topology.yaml",
    "mnnvl.yaml",
    "update.yaml",
    "topologies.yaml",
];
/// The definitions let nothing be larger.
const MOST: i32 = 100_000;
/// Rows that are asked at a time.
const AT_ONCE: usize = 8;

/// A row about a scale.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Scale {
    case: String,
    of: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    clique: Option<String>,
    from: i32,
    to: i32,
    #[serde(default)]
    min_available: Option<i32>,
    #[serde(default)]
    refused: Vec<String>,
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rules_hold_at_the_api_server() {
    let first = configuration_file("first", &Facts::default().configuration());
    let plane = Plane::own_with("admission", &["--config", &first]).await;
    // What is stored here is to be judged, not to be made real.
    for controller in ["pcs-controller", "pclq-controller"] {
        plane.end(controller).await;
    }
    let client = plane.client().await;
    let ground = Ground::clear(&client).await;
    let mut questions: BTreeMap<String, Vec<Asked>> = BTreeMap::new();
    let mut left_out = Vec::new();
    for (number, row) in rows::rows::<Row>(&FILES).into_iter().enumerate() {
        if !row.facts.can_be_configured() || is_leaving(&row) {
            left_out.push(format!("{}: {}", row.rule, row.case));
            continue;
        }
        let of_row = ground.prepare(number, &row).await;
        questions.entry(row.facts.configuration()).or_default().extend(of_row);
    }
    for (number, scale) in rows::rows::<Scale>(&["scales.yaml"]).into_iter().enumerate() {
        if scale.from > MOST {
            left_out.push(format!("scale: {}", scale.case));
            continue;
        }
        let configuration = Facts::default().configuration();
        questions.entry(configuration).or_default().push(ground.prepare_scale(number, &scale).await);
    }
    ground.register_again().await;
    let mut server = Replica::take_over(&plane, "webhook-server", &[]).await;
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (at, (configuration, asked)) in questions.into_iter().enumerate() {
        server.set("--config", &configuration_file(&at.to_string(), &configuration));
        server.restart().await;
        count += asked.len();
        wrong.extend(play(&client, asked).await);
    }
    println!("{count} questions; rows that no client can ask: {left_out:#?}");
    assert!(wrong.is_empty(), "{} of {count} answers differ from the table:\n{}", wrong.len(), wrong.join("\n"));
    drop(server);
    plane.down().await;
}

/// Only the API server itself marks an object as leaving.
fn is_leaving(row: &Row) -> bool {
    row.change.keys().chain(row.before.keys()).any(|pointer| pointer.contains("deletionTimestamp"))
}

/// The answers that are not those of the table. The caches of the webhook server may be a moment behind what was stored, so
/// it is asked until it answers as expected.
async fn play(client: &Client, asked: Vec<Asked>) -> Vec<String> {
    let playing = stream::iter(asked).map(|question| async move {
        let mut said = Said::default();
        let asking = async {
            loop {
                said = question.ask(client).await;
                if question.is_answered_by(&said) {
                    return;
                }
                let _ = tokio::time::timeout(ask::AGAIN, std::future::pending::<()>()).await;
            }
        };
        match tokio::time::timeout(LIMIT / 10, asking).await {
            Ok(()) => None,
            Err(_) => Some(question.complaint(&said)),
        }
    });
    playing.buffer_unordered(AT_ONCE).filter_map(async |wrong| wrong).collect().await
}

/// A file with the configuration, outside of the plane's folder, which is not there yet.
fn configuration_file(name: &str, text: &str) -> String {
    let folder = Plane::shared().dir().join("admission");
    std::fs::create_dir_all(&folder).expect("a folder for the files of this test");
    let file = folder.join(name).with_extension("yaml");
    std::fs::write(&file, text).expect("the configuration is written");
    file.display().to_string()
}
