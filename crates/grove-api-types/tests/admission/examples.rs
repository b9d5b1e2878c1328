//! Sets as users and operators write them are accepted, and nothing of them changes but what was left out.

use std::fs;
use std::path::Path;

use grove_api_types::admission::{default_pod_clique_set, validate_create};
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_test_support::rows::Known;
use serde_json::{Value, json};

use crate::facts::of_sets;

/// The sets of the folder.
fn sets(folder: &Path) -> Vec<(String, Value)> {
    let files = fs::read_dir(folder).expect("the folder is there").map(|file| file.expect("a file").path());
    let yaml = files.filter(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    let read = |file: &Path| {
        let text = fs::read_to_string(file).expect("the file can be read");
        let value: Value = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        (file.display().to_string(), value)
    };
    yaml.map(|file| read(&file)).filter(|(_, value)| value["kind"] == "PodCliqueSet").collect()
}

/// Whether everything that was sent is there still, as it was; zeros may have become defaults.
fn keeps(stored: &Value, sent: &Value) -> bool {
    match (stored, sent) {
        (Value::Object(stored), Value::Object(sent)) => {
            sent.iter().all(|(key, sent)| stored.get(key).is_some_and(|stored| keeps(stored, sent)))
        }
        (Value::Array(stored), Value::Array(sent)) => {
            stored.len() == sent.len() && stored.iter().zip(sent).all(|(stored, sent)| keeps(stored, sent))
        }
        _ => stored == sent || *sent == json!(0),
    }
}

#[test]
fn sets_as_they_are_written_are_accepted_and_kept() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/admission/examples");
    let folders = [here, root.join("deploy/examples"), root.join("e2e/tests/it/expansion")];
    let mut facts = of_sets(&Known::default());
    // Here racks stand in blocks.
    let levels = facts.topology("grove-topology").expect("the default").levels.clone();
    facts
        .topologies
        .iter_mut()
        .filter(|topology| topology.name == "racks")
        .for_each(|racks| racks.levels = levels.clone());
    let mut seen = 0;
    for (file, sent) in folders.iter().flat_map(|folder| sets(folder)) {
        let patch = default_pod_clique_set(&sent, None, &facts);
        let patch: json_patch::Patch = serde_json::from_value(json!(patch)).expect("a patch");
        let mut stored = sent.clone();
        json_patch::patch(&mut stored, &patch).expect("the patch fits");
        assert!(keeps(&stored, &sent), "{file}: {patch}");
        let set: PodCliqueSet = serde_json::from_value(stored.clone()).expect("a set");
        let result = validate_create(&set, &facts);
        assert!(result.is_accepted(), "{file}: {:?}", result.message());
        let again = default_pod_clique_set(&stored, Some(&stored), &facts);
        assert!(again.is_empty(), "{file}: a round trip changes nothing: {again:?}");
        seen += 1;
    }
    assert!(seen > 6, "{seen}");
}
