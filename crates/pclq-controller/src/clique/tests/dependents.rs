//! The index of the cliques that depend on a base gang.

use std::sync::Arc;

use grove_api_types::v1alpha1::{PodClique, PodCliqueStatus};
use grove_runtime::caches::Delta;
use kube::ResourceExt;

use super::snapshot;
use crate::dependents::DependentsIndex;

fn clique(name: &str, label: (&str, &str), scheduled: i32) -> Arc<PodClique> {
    let mut clique = snapshot("").clique;
    clique.metadata.name = Some(name.to_owned());
    clique.labels_mut().insert(label.0.to_owned(), label.1.to_owned());
    clique.status = Some(PodCliqueStatus { scheduled_replicas: scheduled, ..PodCliqueStatus::default() });
    Arc::new(clique)
}

fn triggered(dependents: &DependentsIndex, old: Option<Arc<PodClique>>, new: Option<Arc<PodClique>>) -> Vec<String> {
    dependents.update(&Delta { old, new }).into_iter().map(|clique| clique.name).collect()
}

const BASE: (&str, &str) = ("grove.io/podgang", "llm-0");
const SCALED: (&str, &str) = ("grove.io/base-podgang", "llm-0");

#[test]
fn scheduled_pods_of_a_base_gang_trigger_its_dependents() {
    let dependents = DependentsIndex::default();
    triggered(&dependents, None, Some(clique("llm-0-g-1-p", SCALED, 0)));
    let (old, new) = (Some(clique("llm-0-a", BASE, 1)), Some(clique("llm-0-a", BASE, 2)));
    assert_eq!(triggered(&dependents, old.clone(), new.clone()), ["llm-0-g-1-p"]);
    assert_eq!(triggered(&dependents, new.clone(), new), [""; 0], "nothing changed");
    assert_eq!(triggered(&dependents, old, None), ["llm-0-g-1-p"], "a deleted clique has no scheduled pods");
}

#[test]
fn a_deleted_clique_is_no_dependent() {
    let dependents = DependentsIndex::default();
    let scaled = Some(clique("llm-0-g-1-p", SCALED, 0));
    triggered(&dependents, None, scaled.clone());
    triggered(&dependents, scaled, None);
    assert_eq!(triggered(&dependents, Some(clique("llm-0-a", BASE, 1)), Some(clique("llm-0-a", BASE, 2))), [""; 0]);
}
