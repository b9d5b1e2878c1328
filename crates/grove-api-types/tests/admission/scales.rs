//! What the scale subresource lets pass.

use grove_api_types::admission::{Scaled, Verdict, validate_scale};
use grove_api_types::core::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_test_support::rows::{Changes, Known, ScaleRow, changed, object, scales};
use serde_json::{Value, json};

use crate::known::of_sets;

fn judged(row: &ScaleRow) -> Verdict {
    let facts = of_sets(&Known::default());
    let changes: Changes = [("/spec/replicas".to_owned(), json!(row.from))].into();
    let set: PodCliqueSet = serde_json::from_value(changed(&object("set"), &changes)).expect("a set");
    let metadata = json!({ "name": row.name.as_deref().unwrap_or("serve-0-model"), "namespace": "team" });
    let object = |spec: Value| json!({ "metadata": metadata, "spec": spec });
    match row.of.as_str() {
        "set" => validate_scale(Scaled::Set(&set), row.to, &facts),
        "group" => {
            let cliques = [row.clique.as_deref().unwrap_or("worker")];
            let spec = json!({ "replicas": row.from, "minAvailable": row.min_available, "cliqueNames": cliques });
            let group: PodCliqueScalingGroup = serde_json::from_value(object(spec)).expect("a group");
            validate_scale(Scaled::Group(&group, Some(&set)), row.to, &facts)
        }
        "clique" => {
            let spec = json!({ "replicas": row.from, "minAvailable": row.min_available, "podSpec": {} });
            let clique: PodClique = serde_json::from_value(object(spec)).expect("a clique");
            validate_scale(Scaled::Clique(&clique), row.to, &facts)
        }
        other => panic!("nobody scales {other}"),
    }
}

#[test]
fn every_scale_gets_its_answer() {
    let mut wrong = vec![];
    for row in scales() {
        let errors: Vec<_> = judged(&row).errors.iter().map(ToString::to_string).collect();
        if errors != row.refused {
            wrong.push(format!("scale: {} {}\n  refused: {}\n", row.of, row.case, json!(errors)));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.concat());
}
