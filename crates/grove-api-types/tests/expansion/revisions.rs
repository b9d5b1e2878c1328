//! Replicas that are built from different revisions, and the minima that existing cliques retain.

use std::sync::Arc;

use grove_api_types::expansion::{CurrentScale, OmittedMinima, Revision, SetReplica, expand};
use grove_api_types::names::PodCliqueSetName;
use grove_api_types::v1alpha1::{PodClique, PodCliqueSetTemplateSpec};
use serde_json::json;

use super::{set, yaml};

fn revision(cliques: &str, omitted: OmittedMinima) -> Revision {
    Revision::new(template(cliques), omitted)
}

fn template(cliques: &str) -> PodCliqueSetTemplateSpec {
    set("s", &format!("{{replicas: 3, template: {{cliques: [{cliques}]}}}}")).spec.template
}

fn cliques_of(replica: &SetReplica) -> Vec<(&str, i32)> {
    replica.cliques.iter().map(|clique| (clique.name.as_str(), clique.replicas)).collect()
}

#[test]
fn a_replica_has_the_pods_of_its_revision_and_all_other_fields_of_the_current_template() {
    let current = Arc::new(revision("{name: a, labels: {a: new}, spec: {replicas: 2}}", OmittedMinima::default()));
    let mut earlier = template("{name: a, labels: {a: old}, spec: {replicas: 5}}");
    earlier.cliques[0].spec.pod_spec.insert("nodeName", Some("old"));
    let earlier = Arc::new(current.with_pods_of(&earlier));
    let replicas = expand(&PodCliqueSetName::new("s"), 3, &current, &CurrentScale::default());
    let replica = replicas[1].clone().built_from(&earlier);
    assert_eq!(cliques_of(&replica), [("s-1-a", 2)]);
    let template = &replica.cliques[0].template;
    assert_eq!((template.labels["a"].as_str(), template.spec.replicas), ("old", 2));
    assert_eq!(template.spec.pod_spec.get("nodeName").unwrap(), "old");
    assert_ne!(replica.revision.hashes().generation_hash, replicas[0].revision.hashes().generation_hash);
}

/// The minima of the clique in the expansion, if the template omits or contains them and a clique with other ones exists.
#[test]
fn an_existing_clique_retains_the_minima_that_its_template_omits() {
    let minima = |omitted: OmittedMinima, existing: &[PodClique]| {
        let scaled = "{name: a, spec: {replicas: 4, autoScalingConfig: {maxReplicas: 6}}}";
        let scale = CurrentScale::of([], existing).with_minima_of(existing);
        let replicas = expand(&PodCliqueSetName::new("s"), 1, &Arc::new(revision(scaled, omitted)), &scale);
        (replicas[0].cliques[0].min_available, replicas[0].cliques[0].min_replicas)
    };
    let omitted = || {
        let omits =
            json!({ "name": "a", "spec": { "replicas": 4, "podSpec": {}, "autoScalingConfig": { "maxReplicas": 6 } } });
        OmittedMinima::of(&yaml(&json!({ "cliques": [omits] }).to_string()))
    };
    let existing = |deleted: &str, max: i32| -> PodClique {
        yaml(&format!(
            "{{metadata: {{name: s-0-a{deleted}}}, spec: {{roleName: r, replicas: 2, minAvailable: 2, podSpec: {{}}, \
             autoScalingConfig: {{minReplicas: {max}, maxReplicas: 9}}}}}}"
        ))
    };
    assert_eq!(minima(omitted(), &[]), (4, Some(4)));
    assert_eq!(minima(omitted(), &[existing("", 3)]), (2, Some(3)));
    assert_eq!(minima(omitted(), &[existing("", 8)]), (2, Some(6)), "at most `maxReplicas` of the template");
    assert_eq!(minima(OmittedMinima::default(), &[existing("", 3)]), (4, Some(4)), "the template has minima");
    let deleted = existing(", deletionTimestamp: '2026-01-01T00:00:00Z'", 3);
    assert_eq!(minima(omitted(), &[deleted]), (4, Some(4)));
}
