//! The scaled cliques of a base gang.

use std::sync::Arc;

use grove_api_types::v1alpha1::{PodClique, PodCliqueStatus};
use grove_runtime::caches::{Cache, Delta, InformerOptions, Writer};
use kube::ResourceExt;

use super::snapshot;
use crate::scaled_cliques::{BY_BASE_GANG, scaled_cliques_after_scheduling, scaled_cliques_of};

fn clique(name: &str, label: (&str, &str), scheduled: i32) -> PodClique {
    let mut clique = snapshot("").clique;
    clique.metadata.name = Some(name.to_owned());
    clique.labels_mut().insert(label.0.to_owned(), label.1.to_owned());
    clique.status = Some(PodCliqueStatus { scheduled_replicas: scheduled, ..PodCliqueStatus::default() });
    clique
}

/// The cache of cliques as the service indexes it.
fn cache() -> (Cache<PodClique>, Writer<PodClique>) {
    Cache::with_writer(InformerOptions::default().with_index(BY_BASE_GANG))
}

fn triggered(cliques: &Cache<PodClique>, old: Option<&PodClique>, new: Option<&PodClique>) -> Vec<String> {
    let [old, new] = [old, new].map(|clique| clique.cloned().map(Arc::new));
    scaled_cliques_after_scheduling(cliques, &Delta { old, new }).into_iter().map(|clique| clique.name).collect()
}

const BASE: (&str, &str) = ("grove.io/podgang", "llm-0");
const SCALED: (&str, &str) = ("grove.io/base-podgang", "llm-0");

#[test]
fn scheduled_pods_of_a_base_gang_trigger_its_scaled_cliques() {
    let (cliques, writer) = cache();
    writer.apply(clique("llm-0-g-1-p", SCALED, 0));
    let (old, new) = (clique("llm-0-a", BASE, 1), clique("llm-0-a", BASE, 2));
    assert_eq!(triggered(&cliques, Some(&old), Some(&new)), ["llm-0-g-1-p"]);
    assert_eq!(triggered(&cliques, Some(&new), Some(&new)), [""; 0], "nothing changed");
    assert_eq!(triggered(&cliques, Some(&old), None), ["llm-0-g-1-p"], "a deleted clique has no scheduled pods");
    let mut scaled_to_zero = new.clone();
    scaled_to_zero.spec.replicas = 0;
    assert_eq!(triggered(&cliques, Some(&new), Some(&scaled_to_zero)), ["llm-0-g-1-p"]);
}

#[test]
fn a_deleted_scaled_clique_is_not_triggered() {
    let (cliques, writer) = cache();
    let scaled = clique("llm-0-g-1-p", SCALED, 0);
    writer.apply(scaled.clone());
    writer.delete(scaled);
    let (old, new) = (clique("llm-0-a", BASE, 1), clique("llm-0-a", BASE, 2));
    assert_eq!(triggered(&cliques, Some(&old), Some(&new)), [""; 0]);
}

#[test]
fn a_clique_of_another_namespace_or_of_the_base_gang_is_no_scaled_clique() {
    let (cliques, writer) = cache();
    let mut other = clique("llm-0-g-1-p", SCALED, 0);
    other.metadata.namespace = Some("other".to_owned());
    writer.replace(vec![other, clique("llm-0-a", BASE, 1)]);
    assert_eq!(scaled_cliques_of(&cliques, "prod", "llm-0"), []);
    assert_eq!(scaled_cliques_of(&cliques, "other", "llm-0").len(), 1);
}
