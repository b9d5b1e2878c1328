//! Which cliques hear that a base gang is scheduled.

use std::sync::Arc;

use grove_api_types::v1alpha1::{PodClique, PodCliqueStatus};
use grove_runtime::caches::Delta;
use kube::ResourceExt;

use super::world;
use crate::clique::observe::followers::Followers;

fn clique(name: &str, label: (&str, &str), scheduled: i32) -> Arc<PodClique> {
    let mut clique = world("").clique;
    clique.metadata.name = Some(name.to_owned());
    clique.labels_mut().insert(label.0.to_owned(), label.1.to_owned());
    clique.status = Some(PodCliqueStatus { scheduled_replicas: scheduled, ..PodCliqueStatus::default() });
    Arc::new(clique)
}

fn woken(followers: &Followers, before: Option<Arc<PodClique>>, after: Option<Arc<PodClique>>) -> Vec<String> {
    followers.take(&Delta { old: before, new: after }).into_iter().map(|clique| clique.name).collect()
}

const BASE: (&str, &str) = ("grove.io/podgang", "llm-0");
const SCALED: (&str, &str) = ("grove.io/base-podgang", "llm-0");

#[test]
fn cliques_of_scaled_gangs_hear_when_pods_of_the_base_gang_are_scheduled() {
    let followers = Followers::default();
    woken(&followers, None, Some(clique("llm-0-g-1-p", SCALED, 0)));
    let (before, after) = (Some(clique("llm-0-a", BASE, 1)), Some(clique("llm-0-a", BASE, 2)));
    assert_eq!(woken(&followers, before.clone(), after.clone()), ["llm-0-g-1-p"]);
    assert_eq!(woken(&followers, after.clone(), after), [""; 0], "nothing changed");
    assert_eq!(woken(&followers, before, None), ["llm-0-g-1-p"], "a clique that went has no scheduled pods");
}

#[test]
fn a_clique_that_went_hears_nothing() {
    let followers = Followers::default();
    let scaled = Some(clique("llm-0-g-1-p", SCALED, 0));
    woken(&followers, None, scaled.clone());
    woken(&followers, scaled, None);
    assert_eq!(woken(&followers, Some(clique("llm-0-a", BASE, 1)), Some(clique("llm-0-a", BASE, 2))), [""; 0]);
}
