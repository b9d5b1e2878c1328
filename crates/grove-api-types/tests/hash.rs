//! The fields that a hash depends on, and those that it does not.

use grove_api_types::v1alpha1::PodCliqueSet;
use grove_api_types::{admission, hash};
use serde_json::{Value, json};

const SET: &str = "
metadata: {name: llm}
spec:
  replicas: 1
  template:
    priorityClassName: high
    cliques:
    - name: a
      labels: {team: x}
      spec: {roleName: a, replicas: 2, podSpec: {containers: [{name: c, image: i}]}}
    - name: b
      spec: {roleName: b, replicas: 2, podSpec: {containers: [{name: c, image: j}]}}
";

fn hashes(change: impl FnOnce(&mut Value)) -> (String, String) {
    let mut value: Value = serde_saphyr::from_str(SET).expect("YAML");
    value["apiVersion"] = json!("grove.io/v1alpha1");
    value["kind"] = json!("PodCliqueSet");
    change(&mut value);
    let set: PodCliqueSet = serde_json::from_value(value).expect("a set");
    let set = admission::default::pod_clique_set(&set);
    let template = &set.spec.template;
    let first = template.cliques.iter().find(|clique| clique.name == "a").expect("clique a");
    (hash::pod_template(first, &template.priority_class_name), hash::generation(template))
}

fn clique(value: &mut Value) -> &mut Value {
    &mut value["spec"]["template"]["cliques"][0]
}

#[test]
fn a_hash_begins_with_the_version_of_the_algorithm() {
    let (pods, generation) = hashes(|_| ());
    assert_eq!((pods.len(), generation.len()), (17, 17));
    assert!(pods.starts_with('1') && generation.starts_with('1'));
}

#[test]
fn both_hashes_change_with_the_pod_template() {
    let before = hashes(|_| ());
    let changes: [fn(&mut Value); 4] = [
        |set| clique(set)["labels"]["team"] = json!("y"),
        |set| clique(set)["annotations"] = json!({"a": "b"}),
        |set| clique(set)["spec"]["podSpec"]["containers"][0]["image"] = json!("k"),
        |set| set["spec"]["template"]["priorityClassName"] = json!("low"),
    ];
    for change in changes {
        let after = hashes(change);
        assert!(after.0 != before.0 && after.1 != before.1);
    }
}

#[test]
fn neither_hash_changes_with_other_fields() {
    let before = hashes(|_| ());
    let changes: [fn(&mut Value); 10] = [
        |set| set["spec"]["template"]["cliqueStartupType"] = json!("CliqueStartupTypeInOrder"),
        |set| set["spec"]["template"]["podCliqueScalingGroups"] = json!([{"name": "g", "cliqueNames": ["b"]}]),
        |set| clique(set)["topologyConstraint"] = json!({"packDomain": "rack"}),
        |set| clique(set)["spec"]["startsAfter"] = json!(["b"]),
        |set| clique(set)["spec"]["autoScalingConfig"] = json!({"maxReplicas": 9}),
        |set| clique(set)["spec"]["replicas"] = json!(5),
        |set| clique(set)["spec"]["roleName"] = json!("other"),
        |set| set["spec"]["replicas"] = json!(7),
        |set| clique(set)["spec"]["podSpec"]["hostname"] = Value::Null,
        |set| clique(set)["spec"]["podSpec"]["restartPolicy"] = json!("Always"),
    ];
    for change in changes {
        assert_eq!(hashes(change), before);
    }
}

#[test]
fn the_hash_depends_on_the_order_of_containers_and_not_of_cliques() {
    let before = hashes(|_| ());
    let swapped = hashes(|set| set["spec"]["template"]["cliques"].as_array_mut().expect("cliques").reverse());
    assert_eq!(swapped, before);
    let two = json!([{"name": "c"}, {"name": "d"}]);
    let in_order = hashes(|set| clique(set)["spec"]["podSpec"]["containers"] = two.clone());
    let reversed = hashes(|set| clique(set)["spec"]["podSpec"]["containers"] = json!([two[1], two[0]]));
    assert_ne!(in_order, reversed);
}
