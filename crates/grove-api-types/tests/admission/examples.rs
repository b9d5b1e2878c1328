//! The examples are valid. The webhook sets only fields that they omit.

use std::fs;
use std::path::Path;

use grove_api_types::admission::{default_pod_clique_set, validate_cluster_topology_create, validate_create};
use grove_api_types::configuration::TopologyDomain;
use grove_api_types::topology::Topology;
use grove_api_types::v1alpha1::{ClusterTopology, PodCliqueSet};
use grove_test_support::rows::RowFacts;
use serde_json::{Value, json};

use super::facts::{set_facts, topology_facts};

/// The sets in the files of a folder.
fn sets(folder: &Path) -> Vec<(String, Value)> {
    let files = fs::read_dir(folder).expect("the folder exists").map(|file| file.expect("a file").path());
    let yaml = files.filter(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    let read = |file: &Path| {
        let text = fs::read_to_string(file).expect("the file can be read");
        let value: Value = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        (file.display().to_string(), value)
    };
    yaml.map(|file| read(&file)).filter(|(_, value)| value["kind"] == "PodCliqueSet").collect()
}

/// Whether the stored object contains all sent fields with their values. A default may replace a 0.
fn contains(stored: &Value, sent: &Value) -> bool {
    match (stored, sent) {
        (Value::Object(stored), Value::Object(sent)) => {
            sent.iter().all(|(key, sent)| stored.get(key).is_some_and(|stored| contains(stored, sent)))
        }
        (Value::Array(stored), Value::Array(sent)) => {
            stored.len() == sent.len() && stored.iter().zip(sent).all(|(stored, sent)| contains(stored, sent))
        }
        _ => stored == sent || *sent == json!(0),
    }
}

#[test]
fn example_sets_are_valid_and_keep_their_fields() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let own_examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/admission/examples");
    let folders = [own_examples, root.join("deploy/examples"), root.join("e2e/tests/it/expansion")];
    let mut facts = set_facts(&RowFacts::default());
    // The examples use the level `block`, which the topology `racks` of the rows does not have.
    let mut topologies = facts.topologies.iter();
    let levels = topologies.find(|it| it.name == "grove-topology").expect("the default").levels.clone();
    facts
        .topologies
        .iter_mut()
        .filter(|topology| topology.name == "racks")
        .for_each(|racks| racks.levels = levels.clone());
    facts.topologies.push(Topology::from(&example_topology()));
    let mut seen = 0;
    for (file, sent) in folders.iter().flat_map(|folder| sets(folder)) {
        let patch = default_pod_clique_set(&sent, None, &facts);
        let patch: json_patch::Patch = serde_json::from_value(json!(patch)).expect("a patch");
        let mut stored = sent.clone();
        json_patch::patch(&mut stored, &patch).expect("the patch fits");
        assert!(contains(&stored, &sent), "{file}: {patch}");
        let set: PodCliqueSet = serde_json::from_value(stored.clone()).expect("a set");
        let result = validate_create(&set, &facts);
        assert!(result.is_accepted(), "{file}: {:?}", result.message());
        let second_patch = default_pod_clique_set(&stored, Some(&stored), &facts);
        assert!(second_patch.is_empty(), "{file}: the second defaulting changes nothing: {second_patch:?}");
        seen += 1;
    }
    assert!(seen > 6, "{seen}");
}

fn example_topology() -> ClusterTopology {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/examples/cluster-topology.yaml");
    let text = fs::read_to_string(path).expect("the example");
    serde_saphyr::from_str(&text).expect("a topology")
}

#[test]
fn the_example_of_a_topology_is_valid_and_has_each_domain() {
    let topology = example_topology();
    let domains: Vec<&str> = topology.spec.levels.iter().map(|level| level.domain.as_str()).collect();
    assert_eq!(domains, TopologyDomain::ALL.map(|(name, _)| name));
    let result = validate_cluster_topology_create(&topology, &topology_facts(&RowFacts::default()));
    assert!(result.is_accepted(), "{:?}", result.message());
}
