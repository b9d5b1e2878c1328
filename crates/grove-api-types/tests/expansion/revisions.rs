//! Replicas that are built from different revisions, and the minima that existing cliques retain.

use std::sync::Arc;

use grove_api_types::expansion::{Assignment, CurrentScale, OmittedMinima, Revision, SetReplica, expand};
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
fn each_replica_has_the_cliques_and_the_hashes_of_its_revision() {
    let mut assignment = Assignment::of_all(revision("{name: a, spec: {replicas: 2}}", OmittedMinima::default()));
    let earlier = Arc::new(revision("{name: b, labels: {a: b}, spec: {replicas: 5}}", OmittedMinima::default()));
    assignment.others.insert(1, Arc::clone(&earlier));
    let replicas = expand(&PodCliqueSetName::new("s"), 3, &assignment, &CurrentScale::default());
    assert_eq!(replicas.iter().map(cliques_of).collect::<Vec<_>>(), [[("s-0-a", 2)], [("s-1-b", 5)], [("s-2-a", 2)]]);
    let hashes: Vec<_> = replicas.iter().map(|replica| &replica.revision.hashes().generation_hash).collect();
    assert_eq!(hashes[1], &earlier.hashes().generation_hash);
    assert_eq!(hashes[0], hashes[2]);
    assert_ne!(hashes[0], hashes[1]);
}

/// The minima of the clique in the expansion, if the template omits or contains them and a clique with other ones exists.
#[test]
fn an_existing_clique_retains_the_minima_that_its_template_omits() {
    let minima = |omitted: OmittedMinima, existing: &[PodClique]| {
        let scaled = "{name: a, spec: {replicas: 4, autoScalingConfig: {maxReplicas: 6}}}";
        let scale = CurrentScale::of([], existing).with_minima_of(existing);
        let assignment = Assignment::of_all(revision(scaled, omitted));
        let replicas = expand(&PodCliqueSetName::new("s"), 1, &assignment, &scale);
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
