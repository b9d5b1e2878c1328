//! Updates of the replicas of a scaling group. pclq-controller and the reconciler of the set are played by the test.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use expect_test::{Expect, expect};
use grove_api_types::expansion::{OmittedMinima, Revision};
use grove_api_types::labels;
use grove_api_types::v1alpha1::{PodClique, PodCliqueSetUpdateProgress, PodCliqueStatus, PodCliqueUpdateProgress};
use grove_controller::conditions::{ConditionUpdate, set_status_condition};
use grove_controller::executor::ExecutionResult;
use grove_controller::plan::{PatchBody, Step};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::{Observed, executed, expanded, new};

/// A group of three replicas with the cliques p and d in the course of updates.
struct Film {
    observed: Observed,
    revisions: BTreeMap<String, Arc<Revision>>,
    log: String,
}

impl Film {
    /// The group after all its pods are ready.
    fn new() -> Self {
        let mut film = Self { observed: executed(new(3)), revisions: BTreeMap::new(), log: String::new() };
        film.choose();
        film.pods("pd", true);
        film.observed.set.as_mut().expect("the set").status.get_or_insert_default().current_generation_hash =
            film.observed.target_hash().map(str::to_owned);
        film.reconcile();
        film.reconcile();
        film.log.clear();
        film
    }

    /// The set chooses its current template for the group.
    fn choose(&mut self) {
        let template = self.observed.set.as_ref().expect("the set").spec.template.clone();
        let revision = Arc::new(Revision::new(template, OmittedMinima::default()));
        let hash = revision.hashes().generation_hash.clone();
        self.observed.group.annotations_mut().insert(labels::GENERATION_HASH.to_owned(), hash.clone());
        self.revisions.insert(hash, Arc::clone(&revision));
        self.observed.revision = Some(revision);
    }

    /// The user changes the strategy.
    fn on_delete(&mut self, is_on_delete: bool) {
        let strategy = if is_on_delete { "OnDelete" } else { "RollingRecreate" };
        let _ = writeln!(self.log, "{strategy}");
        let set = self.observed.set.as_mut().expect("the set");
        set.spec.update_strategy = Some(serde_saphyr::from_str(&format!("{{type: {strategy}}}")).expect("YAML"));
    }

    /// The user changes the template of a clique, and the group has its turn.
    fn write(&mut self, clique: &str, team: &str) {
        let _ = writeln!(self.log, "{clique} becomes {team}");
        let set = self.observed.set.as_mut().expect("the set");
        let template = set.spec.template.cliques.iter_mut().find(|template| template.name == clique);
        template.expect("a clique").labels.insert("team".to_owned(), team.to_owned());
        self.choose();
        let hash = self.observed.target_hash().map(str::to_owned);
        let status = self.observed.set.as_mut().expect("the set").status.get_or_insert_default();
        status.current_generation_hash = hash;
        status.update_progress = Some(PodCliqueSetUpdateProgress::default());
    }

    /// The labels of the cliques of each replica, with `!` if a clique has its turn, and with `~` if its pods are not ready.
    fn state(&self) -> String {
        let clique = |index: usize, name: &str| {
            let clique = self.observed.children.get::<PodClique>(&format!("m-0-g-{index}-{name}")).expect("a clique");
            let turn = if clique.annotations().contains_key(labels::UPDATE_TURN) { "!" } else { "" };
            let ready = clique.status.as_ref().map_or(0, |status| status.ready_replicas);
            format!(
                "{}{turn}{}",
                clique.labels().get("team").map_or(name, String::as_str),
                if ready > 0 { "" } else { "~" }
            )
        };
        (0..3).map(|index| clique(index, "p") + &clique(index, "d")).collect::<Vec<_>>().join(" ")
    }

    fn reconcile(&mut self) {
        let mut observed = expanded(&self.observed);
        let before = observed.replica_states();
        let set = observed.set.clone().expect("the set");
        let hash = observed.target_hash().expect("a hash").to_owned();
        let is_open = crate::update::is_open(&set, &hash);
        let mut earlier = observed.earlier_revisions(&before, is_open);
        for (replica, gang, revision) in observed.awaiting_restart(&before, &earlier) {
            let _ = writeln!(self.log, "{gang} should restart");
            earlier.insert(replica, revision);
        }
        observed.assign_revisions((&before, &earlier), is_open, &self.revisions);
        let plan = super::super::plan::plan(&observed, Timestamp::UNIX_EPOCH);
        for step in plan.steps() {
            let Step::Patch(patch) = step else { panic!("{step}") };
            let PatchBody::Merge(change) = &patch.change else { continue };
            super::change(&mut self.observed, &patch.target.name, |clique| {
                let mut value = serde_json::to_value(&*clique).expect("JSON");
                json_patch::merge(&mut value, &change.value());
                *clique = serde_json::from_value(value).expect("a clique");
            });
        }
        let now = Timestamp::from_second(1).expect("a time");
        let status = super::super::status::status(&observed, &plan, &ExecutionResult::default(), now);
        let progress = status.update_progress.as_ref();
        let ended =
            progress.map_or("none", |progress| if progress.update_ended_at.is_some() { "ended" } else { "updating" });
        self.observed.group.status = Some(status);
        let _ = writeln!(self.log, "{}  {ended}", self.state());
    }

    /// pclq-controller reports the update of these cliques: the pods of a clique with a turn are down, or new and ready. Those of another clique stay.
    fn pods(&mut self, cliques: &str, is_ready: bool) {
        for clique in self.observed.children.by_name_mut::<PodClique>().values_mut() {
            let is_of = cliques.contains(clique.name_any().rsplit('-').next().unwrap_or_default());
            let progress = clique.status.as_ref().and_then(|status| status.update_progress.as_ref());
            let is_current = progress.is_some_and(|progress| {
                let generation = clique.annotations().get(labels::GENERATION_HASH);
                Some(&progress.pod_clique_set_generation_hash) == generation && progress.update_ended_at.is_some()
            });
            let has_turn = clique.annotations().contains_key(labels::UPDATE_TURN);
            if is_of && !is_current {
                report(Arc::make_mut(clique), is_ready || !has_turn);
            }
        }
    }

    #[track_caller]
    fn check(&self, expected: &Expect) {
        expected.assert_eq(&self.log);
    }
}

fn report(clique: &mut PodClique, is_ready: bool) {
    let hash = clique.labels()[labels::TEMPLATE_HASH].clone();
    let progress = PodCliqueUpdateProgress {
        update_ended_at: is_ready.then_some(Time(Timestamp::UNIX_EPOCH)),
        pod_clique_set_generation_hash: clique.annotations()[labels::GENERATION_HASH].clone(),
        pod_template_hash: hash.clone(),
        ..PodCliqueUpdateProgress::default()
    };
    let mut status = PodCliqueStatus {
        ready_replicas: if is_ready { clique.spec.replicas } else { 0 },
        current_pod_template_hash: Some(hash),
        update_progress: Some(progress),
        ..PodCliqueStatus::default()
    };
    let scheduled = ConditionUpdate {
        type_: "PodCliqueScheduled",
        status: true.into(),
        reason: "SufficientScheduledPods".to_owned(),
        message: String::new(),
        observed_generation: None,
    };
    set_status_condition(&mut status.conditions, scheduled, Timestamp::UNIX_EPOCH);
    clique.status = Some(status);
}

#[test]
fn one_replica_is_replaced_as_a_whole_after_the_other() {
    let mut film = Film::new();
    film.write("p", "new");
    for _ in 0..4 {
        film.reconcile();
        film.pods("pd", false);
        film.reconcile();
        film.pods("p", true);
        film.reconcile();
        film.pods("pd", true);
    }
    film.reconcile();
    film.check(&expect![[r"
        p becomes new
        px px px  updating
        new!x! px px  updating
        new!x! px px  updating
        new!x! new!x! px  updating
        new!x! new!~x!~ px  updating
        new!x! new!x!~ px  updating
        new!x! new!x! new!x!  updating
        new!x! new!x! new!~x!~  updating
        new!x! new!x! new!x!~  updating
        new!x! new!x! new!x!  ended
        new!x! new!x! new!x!  ended
        new!x! new!x! new!x!  ended
        new!x! new!x! new!x!  ended
    "]]);
}

/// A clique that has never been updated reports no progress. Its pods have the current template already, but they are replaced with the others.
#[test]
fn the_next_replica_waits_for_a_clique_whose_first_update_has_not_begun() {
    let mut film = Film::new();
    for clique in film.observed.children.by_name_mut::<PodClique>().values_mut().map(Arc::make_mut) {
        let generation = clique.annotations().get(labels::GENERATION_HASH).cloned();
        let status = clique.status.as_mut().expect("a status");
        (status.update_progress, status.current_pod_clique_set_generation_hash) = (None, generation);
    }
    film.write("p", "new");
    film.reconcile();
    film.reconcile();
    film.pods("p", false);
    film.pods("p", true);
    film.reconcile();
    film.pods("d", false);
    film.reconcile();
    film.pods("d", true);
    film.reconcile();
    film.check(&expect![[r"
        p becomes new
        px px px  updating
        new!x! px px  updating
        new!x! px px  updating
        new!x!~ px px  updating
        new!x! new!x! px  updating
    "]]);
}

/// The set begins the next incarnation of the gang before the replica gets its turn. The replica has it then also if another one is down.
#[test]
fn a_replica_with_a_pod_group_of_its_own_waits_for_the_next_one() {
    let mut film = Film::new();
    let first = film.observed.target_hash().expect("a hash").to_owned();
    film.observed.gang_revisions = [(1, first.clone()), (2, first)].into();
    film.write("p", "new");
    film.reconcile();
    for replica in 1..3 {
        film.reconcile();
        film.pods("pd", false);
        film.pods("pd", true);
        film.reconcile();
        film.reconcile();
        let current = film.observed.target_hash().expect("a hash").to_owned();
        film.observed.gang_revisions.insert(replica, current);
    }
    film.reconcile();
    film.pods("pd", true);
    film.reconcile();
    film.check(&expect![[r"
        p becomes new
        px px px  updating
        new!x! px px  updating
        m-0-g-0 should restart
        new!x! px px  updating
        m-0-g-0 should restart
        new!x! px px  updating
        new!x! new!x! px  updating
        m-0-g-1 should restart
        new!x! new!x! px  updating
        m-0-g-1 should restart
        new!x! new!x! px  updating
        new!x! new!x! new!x!  updating
        new!x! new!x! new!x!  ended
    "]]);
}

/// The turn of a gang that has restarted is not lost if another replica fails meanwhile.
#[test]
fn a_replica_whose_gang_has_restarted_gets_its_turn() {
    let mut film = Film::new();
    let first = film.observed.target_hash().expect("a hash").to_owned();
    film.write("p", "new");
    let current = film.observed.target_hash().expect("a hash").to_owned();
    film.observed.gang_revisions = [(1, current), (2, first)].into();
    film.reconcile();
    film.reconcile();
    film.check(&expect![[r"
        p becomes new
        px new!x! px  updating
        px new!x! px  updating
    "]]);
}

/// With `OnDelete`, all cliques got the template of `p`, and their pods stayed. The next update replaces them one replica after the other, although
/// it changes only `f`.
#[test]
fn pods_that_the_user_did_not_replace_are_replaced_within_the_bounds() {
    let mut film = Film::new();
    film.on_delete(true);
    film.write("p", "new");
    film.reconcile();
    film.on_delete(false);
    film.write("f", "new");
    film.reconcile();
    film.reconcile();
    film.reconcile();
    film.check(&expect![[r"
        OnDelete
        p becomes new
        newx newx newx  ended
        RollingRecreate
        f becomes new
        newx newx newx  updating
        new!x! newx newx  updating
        new!x! newx newx  updating
    "]]);
}

#[test]
fn a_group_whose_cliques_have_not_changed_replaces_nothing() {
    let mut film = Film::new();
    film.write("f", "new");
    film.reconcile();
    film.pods("pd", true);
    film.reconcile();
    film.check(&expect![[r"
        f becomes new
        px px px  updating
        px px px  ended
    "]]);
}
