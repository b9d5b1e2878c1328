//! The tables of admission, played through a real API server: every row is asked as it stands there, under the configuration
//! and in the cluster that it takes for granted, and the answer is compared word by word. The admission policy is asked first,
//! alone; then the webhooks in the place of definitions that say nothing; then all of them together.

mod cluster_state;
mod policy_only;
mod relaxed_crds;

use std::collections::BTreeMap;

use cluster_state::Ground;
use e2e::Plane;
use e2e::replicas::Replica;
use policy_only::Changes;
use relaxed_crds::Definitions;
use serde_json::json;

use super::dry_run::{Asked, play};
use grove_test_support::rows::{Known, patches, rows, scales};

#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_enforces_the_admission_rules() {
    let plane = Plane::own_with("admission", &["--config", &configuration_file("first", &Known::default())]).await;
    // What is stored here is to be judged, not to be made real.
    for controller in ["pcs-controller", "pclq-controller"] {
        plane.end(controller).await;
    }
    let client = plane.client().await;
    let ground = Ground::clear(&client).await;
    let definitions = Definitions::without_rules(&client).await;
    let mut asked = Questions::default();
    // What the definitions would answer first, to be asked while they are silent.
    let mut silent = Questions::default();
    let mut changes = Changes::default();
    for (number, row) in rows().iter().enumerate().filter(|(_, row)| row.only_here.is_none()) {
        let questions = ground.prepare(number, row).await;
        changes.keep(row, &questions);
        if !row.unreadable && !row.kubernetes {
            let of_definition = questions.iter().filter(|asked| !asked.definition.is_empty());
            silent.entry(shared(&row.facts)).or_default().extend(of_definition.map(Asked::of_webhook));
        }
        asked.entry(shared(&row.facts)).or_default().extend(questions);
    }
    for (number, row) in scales().iter().enumerate() {
        let question = ground.prepare_scale(number, row).await;
        if !row.definition.is_empty() && !row.kubernetes {
            silent.entry(Known::default()).or_default().push(question.of_webhook());
        }
        asked.entry(Known::default()).or_default().push(question);
    }
    for (number, row) in patches().iter().enumerate().filter(|(_, row)| row.only_here.is_none()) {
        asked.entry(shared(&row.facts)).or_default().push(ground.prepare_patch(number, row).await);
    }
    let mut wrong = changes.judge(&client).await;
    ground.register_again().await;
    let mut server = Replica::take_over(&plane, "webhook-server", &[]).await;
    let count = [&silent, &asked].into_iter().flat_map(BTreeMap::values).map(Vec::len).sum::<usize>();
    silent.retain(|_, questions| !questions.is_empty());
    wrong.extend(play_each(&ground, &mut server, ("silent", silent)).await);
    definitions.restore().await;
    wrong.extend(play_each(&ground, &mut server, ("whole", asked)).await);
    println!("{count} questions");
    assert!(wrong.is_empty(), "{} of {count} answers differ from the table:\n{}", wrong.len(), wrong.join("\n"));
    drop(server);
    plane.down().await;
}

/// Questions by what they take for granted beyond objects of their own: the configuration, and Volcano's queues.
type Questions = BTreeMap<Known, Vec<Asked>>;

/// The answers that differ, each asked under its configuration.
async fn play_each(ground: &Ground, server: &mut Replica, (title, asked): (&str, Questions)) -> Vec<String> {
    let mut wrong = vec![];
    for (at, (known, asked)) in asked.into_iter().enumerate() {
        ground.queues(&known).await;
        server.set("--config", &configuration_file(&format!("{title}-{at}"), &known));
        server.restart().await;
        let differing = play(ground.client(), asked).await;
        wrong.extend(differing.into_iter().map(|wrong| format!("{title}: {wrong}")));
    }
    wrong
}

/// Of what a row knows, what it shares with other rows.
fn shared(known: &Known) -> Known {
    Known { scheduled: false, taken: false, grove: false, referring: vec![], ..known.clone() }
}

/// The schedulers that there are; the first one is always enabled.
const SCHEDULERS: [&str; 4] = ["default-scheduler", "kai-scheduler", "volcano", "lpx-scheduler"];

/// A file with the configuration that rows take for granted, outside of the plane's folder, which is not there yet. JSON is
/// YAML.
fn configuration_file(name: &str, known: &Known) -> String {
    let enabled: Vec<_> =
        SCHEDULERS.iter().filter(|name| !known.without.iter().any(|other| other == *name)).copied().collect();
    let default = known.default_scheduler.as_deref().unwrap_or(SCHEDULERS[0]);
    // Rows that ask for another say so: `onlyHere`.
    let is_possible = enabled.contains(&default) && enabled.contains(&SCHEDULERS[0]);
    assert!(is_possible, "there is no such configuration: {known:?}");
    let profiles: Vec<_> = enabled.iter().map(|name| json!({ "name": name })).collect();
    let levels =
        if known.default_levels { json!([{ "domain": "rack", "key": "example.com/rack" }]) } else { json!([]) };
    let configuration = json!({
        "apiVersion": "operator.config.grove.io/v1alpha1",
        "kind": "OperatorConfiguration",
        "topologyAwareScheduling": { "enabled": !known.topology_off, "levels": levels },
        "network": { "autoMNNVLEnabled": !known.mnnvl_off },
        "scheduler": { "profiles": profiles, "defaultProfileName": default },
    });
    let folder = Plane::shared().dir().join("admission");
    std::fs::create_dir_all(&folder).expect("a folder for the files of this test");
    let file = folder.join(name).with_extension("yaml");
    std::fs::write(&file, configuration.to_string()).expect("the configuration is written");
    file.display().to_string()
}
