//! A film: what the user does, and the state of the cluster after each round in which everybody acts once, as Markdown.

use std::fmt::Write as _;

use grove_api_types::conditions::UPDATE_IN_PROGRESS;
use grove_api_types::labels;
use grove_api_types::v1alpha1::PodClique;
use grove_controller::conditions::find_status_condition;
use grove_controller::slim_pod::SlimPod;
use kube::ResourceExt;

use crate::model::{Actor, Model, VERSION};

/// A film that does not settle within this many rounds shows an update that never ends.
const MOST_ROUNDS: usize = 100;

/// How to read the table.
pub const LEGEND: &str = "Each row is the state after a round in which each reconciler acts once, and then each kubelet. A letter is a pod: the version of its \
                          template, in lower case while it is not ready, and `-` for a missing pod. `!` marks a PodClique that has its turn.\n";

/// A cluster, and what happened in it.
#[derive(Clone, Debug)]
pub struct Film {
    /// The cluster.
    pub model: Model,
    text: String,
}

impl Film {
    /// A film about this set, after all its pods are ready.
    ///
    /// # Errors
    /// If the manifest is no set, or the set does not settle.
    pub fn new(title: &str, manifest: &str) -> Result<Self, String> {
        let mut model = Model::new(manifest)?;
        model.settle(MOST_ROUNDS).ok_or("the set does not settle")?;
        let text = format!("# {title}\n\n{LEGEND}\n| what happens | pods | update |\n|---|---|---|\n");
        let mut film = Self { model, text };
        film.row("the set is complete");
        Ok(film)
    }

    /// The user does something.
    pub fn user(&mut self, what: &str, act: impl FnOnce(&mut Model)) {
        act(&mut self.model);
        self.row(&format!("**{what}**"));
    }

    /// Some rounds.
    pub fn rounds(&mut self, count: usize) {
        for _ in 0..count {
            self.round();
        }
    }

    /// Rounds until nobody writes.
    ///
    /// # Errors
    /// The film, if somebody still writes after [`MOST_ROUNDS`].
    pub fn settle(&mut self) -> Result<(), String> {
        for _ in 0..MOST_ROUNDS {
            if self.round() == 0 {
                return Ok(());
            }
        }
        Err(format!("the update does not end:\n{}", self.text))
    }

    /// The film as Markdown.
    pub fn markdown(&self) -> &str {
        &self.text
    }

    /// One round. Returns the number of writes.
    fn round(&mut self) -> usize {
        let before = self.picture();
        let (kubelets, reconcilers): (Vec<_>, Vec<_>) =
            self.model.actors().into_iter().partition(|actor| matches!(actor, Actor::Kubelet(_)));
        let mut writes = 0;
        for actor in reconcilers.iter().chain(&kubelets) {
            writes += self.model.act(actor).len();
        }
        if self.picture() != before {
            self.row("");
        }
        writes
    }

    fn row(&mut self, what: &str) {
        let (pods, update) = self.picture();
        let _ = writeln!(self.text, "| {what} | `{pods}` | {update} |");
    }

    /// The pods of each clique, and what the set reports about its update.
    fn picture(&self) -> (String, String) {
        let cliques: Vec<_> = self.model.cliques().map(|clique| self.clique(clique)).collect();
        (cliques.join(" "), self.update())
    }

    fn clique(&self, clique: &PodClique) -> String {
        let name = clique.name_any();
        let pods = self.model.pods_of(&name);
        let letters: String =
            (0..clique.spec.replicas).map(|index| pods.get(&index).map_or('-', |pod| letter(pod))).collect();
        let turn = if clique.annotations().contains_key(labels::UPDATE_TURN) { "!" } else { "" };
        let short = name.split_once('-').map_or(name.as_str(), |(_, rest)| rest);
        format!("{short}:{letters}{turn}")
    }

    fn update(&self) -> String {
        let Some(status) = &self.model.set().status else { return String::new() };
        let reason = find_status_condition(&status.conditions, UPDATE_IN_PROGRESS).map_or("", |it| it.reason.as_str());
        let updating: Vec<_> = status.update_progress.iter().flat_map(|it| &it.currently_updating).collect();
        let updating: Vec<_> = updating.iter().map(|entry| entry.replica_index.to_string()).collect();
        let of = if updating.is_empty() { String::new() } else { format!(", replica {}", updating.join(" and ")) };
        format!("{reason}{of}")
    }
}

fn letter(pod: &SlimPod) -> char {
    let version = pod.labels().get(VERSION).and_then(|version| version.chars().next()).unwrap_or('?');
    if pod.is_ready() { version.to_ascii_uppercase() } else { version.to_ascii_lowercase() }
}
