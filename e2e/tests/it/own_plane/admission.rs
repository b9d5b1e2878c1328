//! The tables of admission, played through a real API server: every row is asked as it stands there, under the configuration
//! and in the cluster that it takes for granted, and the answer is compared word by word. The admission policy is
//! asked first, alone.

mod alone;
mod definitions;
mod ground;

use std::collections::BTreeMap;

use alone::Changes;
use definitions::Definitions;
use e2e::Plane;
use e2e::replicas::Replica;
use ground::Ground;
use serde_json::json;

use super::ask::{Asked, play};
use crate::rows::{Known, patches, rows, scales};

#[tokio::test(flavor = "multi_thread")]
async fn the_rules_hold_at_the_api_server() {
    let plane = Plane::own_with("admission", &["--config", &configuration_file("first", &Known::default())]).await;
    // What is stored here is to be judged, not to be made real.
    for controller in ["pcs-controller", "pclq-controller"] {
        plane.end(controller).await;
    }
    let client = plane.client().await;
    let ground = Ground::clear(&client).await;
    let definitions = Definitions::without_rules(&client).await;
    // What the rows take for granted beyond objects of their own: the configuration, and Volcano's queues.
    let mut asked: BTreeMap<Known, Vec<Asked>> = BTreeMap::new();
    let mut changes = Changes::default();
    for (number, row) in rows().iter().enumerate().filter(|(_, row)| row.only_here.is_none() && is_valid(&row.facts)) {
        let questions = ground.prepare(number, row).await;
        changes.keep(row, &questions);
        asked.entry(shared(&row.facts)).or_default().extend(questions);
    }
    for (number, row) in scales().iter().enumerate() {
        asked.entry(Known::default()).or_default().push(ground.prepare_scale(number, row).await);
    }
    for (number, row) in patches().iter().enumerate().filter(|(_, row)| row.only_here.is_none()) {
        asked.entry(shared(&row.facts)).or_default().push(ground.prepare_patch(number, row).await);
    }
    definitions.restore().await;
    let mut wrong = changes.judge(&client).await;
    ground.register_again().await;
    let mut server = Replica::take_over(&plane, "webhook-server", &[]).await;
    let mut count = 0;
    for (at, (known, asked)) in asked.into_iter().enumerate() {
        ground.queues(&known).await;
        server.set("--config", &configuration_file(&at.to_string(), &known));
        server.restart().await;
        count += asked.len();
        wrong.extend(play(&client, asked).await);
    }
    println!("{count} questions");
    assert!(wrong.is_empty(), "{} of {count} answers differ from the table:\n{}", wrong.len(), wrong.join("\n"));
    drop(server);
    plane.down().await;
}

/// Whether there can be such a configuration: the default scheduler is one that is enabled.
fn is_valid(known: &Known) -> bool {
    known.default_scheduler.as_ref().is_none_or(|default| !known.without.contains(default))
}

/// Of what a row knows, what it shares with other rows.
fn shared(known: &Known) -> Known {
    Known { scheduled: false, taken: false, grove: false, referring: vec![], ..known.clone() }
}

/// The schedulers that there are.
const SCHEDULERS: [&str; 4] = ["default-scheduler", "kai-scheduler", "volcano", "lpx-scheduler"];

/// A file with the configuration that rows take for granted, outside of the plane's folder, which is not there yet. JSON is
/// YAML.
fn configuration_file(name: &str, known: &Known) -> String {
    let enabled: Vec<_> =
        SCHEDULERS.iter().filter(|name| !known.without.iter().any(|other| other == *name)).copied().collect();
    let default = known.default_scheduler.as_deref().filter(|name| enabled.contains(name));
    let profiles: Vec<_> = enabled.iter().map(|name| json!({ "name": name })).collect();
    let levels =
        if known.default_levels { json!([{ "domain": "rack", "key": "example.com/rack" }]) } else { json!([]) };
    let configuration = json!({
        "apiVersion": "operator.config.grove.io/v1alpha1",
        "kind": "OperatorConfiguration",
        "topologyAwareScheduling": { "enabled": !known.topology_off, "levels": levels },
        "network": { "autoMNNVLEnabled": !known.mnnvl_off },
        "scheduler": { "profiles": profiles, "defaultProfileName": default.unwrap_or("default-scheduler") },
    });
    let folder = Plane::shared().dir().join("admission");
    std::fs::create_dir_all(&folder).expect("a folder for the files of this test");
    let file = folder.join(name).with_extension("yaml");
    std::fs::write(&file, configuration.to_string()).expect("the configuration is written");
    file.display().to_string()
}
