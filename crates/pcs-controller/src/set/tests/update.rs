//! Updates of a set: which replica gets the new template when. pclq-controller is played by the test.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use expect_test::{Expect, expect};
use grove_api_types::conditions::UPDATE_IN_PROGRESS;
use grove_api_types::expansion::{OmittedMinima, Revision};
use grove_api_types::rolling_update::UpdateBounds;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodClique, PodCliqueStatus, PodCliqueUpdateProgress};
use grove_api_types::{events, labels};
use grove_controller::conditions::find_status_condition;
use grove_controller::executor::ExecutionResult;
use grove_controller::plan::{PatchBody, Plan, Stage, Step};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;
use serde_json::json;

use super::{CHILD_KINDS, Observed, change, executed, new, stored};
use crate::update::SlimRevision;

/// A set of three replicas with two cliques, whose pods have this image.
fn set(image: &str) -> Observed {
    new(&format!(
        "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {{name: s, namespace: prod, uid: u-set}}
spec:
  replicas: 3
  template:
    cliques:
    - {{name: a, spec: {{roleName: a, replicas: 1, podSpec: {{containers: [{{name: c, image: {image}}}]}}}}}}
    - {{name: b, spec: {{roleName: b, replicas: 1, podSpec: {{containers: [{{name: c, image: {image}}}]}}}}}}
"
    ))
}

/// A set in the course of updates. The letters are the images of its templates.
struct Film {
    observed: Observed,
    revisions: BTreeMap<String, Arc<Revision>>,
    now: i64,
    log: String,
}

impl Film {
    /// The set after all pods of its first template are ready.
    fn new() -> Self {
        let mut film = Self { observed: set("A"), revisions: BTreeMap::new(), now: 0, log: String::new() };
        film.remember();
        film.settle();
        film.log.clear();
        film
    }

    fn remember(&mut self) {
        let template = self.observed.set.spec.template.clone();
        let revision = Revision::new(template, OmittedMinima::default());
        let hash = revision.hashes().generation_hash.clone();
        self.observed.revision = Arc::new(revision);
        self.revisions.insert(hash, Arc::clone(&self.observed.revision));
    }

    /// The user writes another template.
    fn write(&mut self, image: &str) {
        let _ = writeln!(self.log, "template {image}");
        self.observed.set.spec.template = set(image).set.spec.template;
        self.remember();
    }

    /// The user writes these bounds and controls.
    fn control(&mut self, controls: &str) {
        let _ = writeln!(self.log, "{controls}");
        let strategy = format!("{{type: RollingRecreate, rollingUpdate: {controls}}}");
        self.observed.set.spec.update_strategy = Some(serde_saphyr::from_str(&strategy).expect("YAML"));
    }

    /// The replicas as the caches show them: the images of their cliques, with `!` if a clique has its turn, and with `~` if its pod is not ready.
    fn state(&self) -> String {
        let clique = |index: usize, name: &str| {
            let Some(clique) = self.observed.children.get::<PodClique>(&format!("s-{index}-{name}")) else {
                return "-".to_owned();
            };
            let image = clique.spec.pod_spec.get("containers").expect("containers")[0]["image"].clone();
            let turn = if clique.annotations().contains_key(labels::UPDATE_TURN) { "!" } else { "" };
            let ready = clique.status.as_ref().map_or(0, |status| status.ready_replicas);
            format!("{}{turn}{}", image.as_str().expect("an image"), if ready > 0 { "" } else { "~" })
        };
        let replica = |index: usize| clique(index, "a") + &clique(index, "b");
        (0..3).map(replica).collect::<Vec<_>>().join(" ")
    }

    /// The plan for the present state.
    fn plan(&self) -> (Observed, Plan) {
        let mut observed = self.observed.clone().expanded();
        let earlier = observed.earlier_revisions();
        observed.assign_revisions(&earlier, &self.revisions);
        let plan = super::super::plan::plan(&observed);
        (observed, plan)
    }

    /// One reconcile of the set.
    fn reconcile(&mut self) {
        self.now += 1;
        let (observed, plan) = self.plan();
        for step in plan.steps() {
            match step {
                Step::Create(create) => {
                    assert!(CHILD_KINDS.apply_create(create, &mut self.observed.children, stored), "{step}");
                }
                Step::Patch(patch) => {
                    let PatchBody::Merge(change) = &patch.change else { panic!("{step}") };
                    self.patch(patch.target.resource.kind.as_str(), &patch.target.name, &change.value());
                }
                other @ (Step::Adopt(_) | Step::Delete(_)) => panic!("{other}"),
            }
        }
        let now = Timestamp::from_second(self.now).expect("a time");
        let status = super::super::status::status(&observed, &plan, &ExecutionResult::default(), now);
        self.observed.set.status = Some(status);
        let _ = writeln!(self.log, "{}{}", self.state(), self.progress());
    }

    /// The status shows that the update has begun, and the first replica has its turn.
    fn begin(&mut self) {
        self.reconcile();
        self.reconcile();
    }

    /// What the status says about the update.
    fn progress(&self) -> String {
        let status = self.observed.set.status.as_ref();
        let Some(progress) = status.and_then(|status| status.update_progress.as_ref()) else { return String::new() };
        let current: Vec<_> = progress.currently_updating.iter().map(|entry| entry.replica_index).collect();
        let ended = if progress.update_ended_at.is_some() { ", ended" } else { "" };
        let condition = status.and_then(|status| find_status_condition(&status.conditions, UPDATE_IN_PROGRESS));
        let reason = condition.map_or("", |condition| condition.reason.as_str());
        let paused = if reason == "Paused" { ", paused" } else { "" };
        format!("  updating {current:?}{ended}{paused}")
    }

    fn patch(&mut self, kind: &str, name: &str, body: &serde_json::Value) {
        match kind {
            "PodClique" => change::<PodClique>(&mut self.observed, name, |clique| merge(clique, body)),
            "PodGang" => change::<PodGang>(&mut self.observed, name, |gang| merge(gang, body)),
            "ControllerRevision" => {}
            other => panic!("a patch of a {other}"),
        }
    }

    /// pclq-controller takes down the pods of all cliques with a turn for another template, or reports that new pods are ready.
    fn pods(&mut self, is_ready: bool) {
        for clique in self.observed.children.by_name_mut::<PodClique>().values_mut() {
            report(Arc::make_mut(clique), is_ready);
        }
    }

    /// Reconciles until nothing changes. All pods become ready.
    fn settle(&mut self) {
        for _ in 0..20 {
            let before = (self.state(), self.progress());
            self.reconcile();
            self.pods(false);
            self.pods(true);
            if before == (self.state(), self.progress()) {
                return;
            }
        }
        panic!("the update does not end:\n{}", self.log);
    }

    #[track_caller]
    fn check(&self, expected: &Expect) {
        expected.assert_eq(&self.log);
    }
}

fn merge<K: serde::Serialize + serde::de::DeserializeOwned>(object: &mut K, patch: &serde_json::Value) {
    let mut value = serde_json::to_value(&*object).expect("JSON");
    json_patch::merge(&mut value, patch);
    *object = serde_json::from_value(value).expect("the object");
}

fn report(clique: &mut PodClique, is_ready: bool) {
    let hash = clique.labels()[labels::TEMPLATE_HASH].clone();
    let generation = clique.annotations()[labels::GENERATION_HASH].clone();
    let mut status = clique.status.clone().unwrap_or_default();
    let is_paused = UpdateBounds::of(clique).expect("the bounds").paused;
    let has_turn = clique.annotations().contains_key(labels::UPDATE_TURN) && !is_paused;
    let is_new = status.current_pod_template_hash.as_ref() == Some(&hash);
    if !is_ready && has_turn && !is_new {
        status.ready_replicas = 0;
        status.update_progress = Some(progress(&generation, &hash, false));
    } else if is_ready && (has_turn || status == PodCliqueStatus::default()) {
        status = PodCliqueStatus {
            ready_replicas: 1,
            current_pod_template_hash: Some(hash.clone()),
            update_progress: Some(progress(&generation, &hash, true)),
            ..status
        };
    }
    clique.status = Some(status);
}

fn progress(generation: &str, hash: &str, has_ended: bool) -> PodCliqueUpdateProgress {
    PodCliqueUpdateProgress {
        update_ended_at: has_ended.then_some(Time(Timestamp::UNIX_EPOCH)),
        pod_clique_set_generation_hash: generation.to_owned(),
        pod_template_hash: hash.to_owned(),
        ..PodCliqueUpdateProgress::default()
    }
}

#[test]
fn one_replica_is_updated_after_the_other() {
    let mut film = Film::new();
    film.write("B");
    film.settle();
    film.check(&expect![[r"
        template B
        AA AA AA  updating []
        B!B! AA AA  updating [0]
        B!B! B!B! AA  updating [1]
        B!B! B!B! B!B!  updating [2]
        B!B! B!B! B!B!  updating [], ended
        BB BB BB  updating [], ended
        BB BB BB  updating [], ended
    "]]);
}

#[test]
fn turns_cause_no_event_unless_they_fail() {
    let mut film = Film::new();
    film.write("B");
    film.reconcile();
    let (_, plan) = film.plan();
    let events: Vec<_> =
        plan.stages.iter().filter(|stage| !stage.steps.is_empty()).map(|stage| &stage.events).collect();
    let of_failure = |reason| Stage::new("", []).with_failure_event(reason).events;
    let [gangs, cliques] =
        [events::POD_GANG_CREATE_OR_UPDATE_FAILED, events::POD_CLIQUE_CREATE_OR_UPDATE_FAILED].map(of_failure);
    assert_eq!(events, [&gangs, &cliques], "{plan}");
}

#[test]
fn the_next_replica_waits_until_the_pods_are_ready() {
    let mut film = Film::new();
    film.write("B");
    film.begin();
    film.pods(false);
    film.reconcile();
    film.reconcile();
    film.pods(true);
    film.reconcile();
    film.check(&expect![[r"
        template B
        AA AA AA  updating []
        B!B! AA AA  updating [0]
        B!~B!~ AA AA  updating [0]
        B!~B!~ AA AA  updating [0]
        B!B! B!B! AA  updating [1]
    "]]);
}

/// B never becomes ready.
#[test]
fn a_correction_replaces_a_blocked_replica_at_once() {
    let mut film = Film::new();
    film.write("B");
    film.begin();
    film.pods(false);
    film.reconcile();
    film.write("C");
    film.settle();
    film.check(&expect![[r"
        template B
        AA AA AA  updating []
        B!B! AA AA  updating [0]
        B!~B!~ AA AA  updating [0]
        template C
        B~B~ AA AA  updating []
        C!~C!~ AA AA  updating [0]
        C!C! C!C! AA  updating [1]
        C!C! C!C! C!C!  updating [2]
        C!C! C!C! C!C!  updating [], ended
        CC CC CC  updating [], ended
        CC CC CC  updating [], ended
    "]]);
}

#[test]
fn a_change_back_ends_when_all_pods_are_of_the_first_template() {
    let mut film = Film::new();
    film.write("B");
    film.begin();
    film.pods(false);
    film.write("A");
    film.begin();
    film.pods(false);
    film.reconcile();
    film.pods(true);
    film.settle();
    film.check(&expect![[r"
        template B
        AA AA AA  updating []
        B!B! AA AA  updating [0]
        template A
        B~B~ AA AA  updating []
        A!~A!~ A!A! A!A!  updating [0]
        A!~A!~ A!A! A!A!  updating [0]
        A!A! A!A! A!A!  updating [], ended
        AA AA AA  updating [], ended
        AA AA AA  updating [], ended
    "]]);
}

#[test]
fn a_deleted_clique_is_created_from_the_revision_of_its_replica() {
    let mut film = Film::new();
    film.write("B");
    film.begin();
    film.observed.children.by_name_mut::<PodClique>().remove("s-2-a");
    film.reconcile();
    film.check(&expect![[r"
        template B
        AA AA AA  updating []
        B!B! AA AA  updating [0]
        B!B! AA A~A  updating [0]
    "]]);
}

/// A plan of the set with these revisions and members of scaling groups: which revisions it deletes.
fn deleted_revisions(revisions: &[&str], member: Option<&str>) -> Vec<String> {
    let mut observed = set("A");
    observed.set.spec.revision_history_limit = Some(1);
    let revision = |(hash, number): (&&str, i64)| {
        let labels = json!({ labels::GENERATION_HASH: hash });
        let revision = json!({ "metadata": { "name": format!("s-{hash}"), "labels": labels }, "revision": number });
        Arc::new(serde_json::from_value::<SlimRevision>(revision).expect("a revision"))
    };
    observed.children.extend(revisions.iter().zip(1..).map(revision));
    assert!(observed.exceeds_history_limit());
    let member = member.map(|hash| {
        json!({ "metadata": { "name": "s-0-g-0-p", "annotations": { labels::GENERATION_HASH: hash } },
            "spec": { "podSpec": {} } })
    });
    observed.members.extend(member.map(|member| Arc::new(serde_json::from_value(member).expect("a clique"))));
    let plan = super::plan(&observed);
    let deletes = plan.steps().filter(|step| matches!(step, Step::Delete(_)));
    deletes.map(|step| step.target().name.clone()).collect()
}

#[test]
fn a_revision_that_a_clique_of_a_scaling_group_names_stays() {
    let revisions = ["first", "second", "third"];
    assert_eq!(deleted_revisions(&revisions, None), ["s-first", "s-second"]);
    assert_eq!(deleted_revisions(&revisions, Some("first")), ["s-second"]);
}

#[test]
fn a_revision_has_the_cause_of_the_change() {
    const CAUSE: &str = "kubernetes.io/change-cause";
    let mut observed = set("A");
    observed.set.annotations_mut().insert(CAUSE.to_owned(), "first".to_owned());
    let revisions = |observed: &Observed| {
        let plan = super::plan(observed);
        let steps = plan.steps().filter(|step| step.target().resource.kind == "ControllerRevision");
        steps.map(ToString::to_string).collect::<Vec<_>>()
    };
    let mut observed = executed(observed);
    assert_eq!(revisions(&observed), [""; 0]);
    observed.set.annotations_mut().insert(CAUSE.to_owned(), "second".to_owned());
    let [patch] = &revisions(&observed)[..] else { panic!("one patch") };
    assert!(patch.ends_with(r#"{"metadata":{"annotations":{"kubernetes.io/change-cause":"second"}}}"#), "{patch}");
    observed.set.annotations_mut().remove(CAUSE);
    assert_eq!(revisions(&observed), [""; 0], "it stays");
}

/// A user has deleted the history.
#[test]
fn a_replica_of_an_unknown_revision_stays_as_it_is_until_its_turn() {
    let mut film = Film::new();
    film.write("B");
    film.begin();
    let current = film.observed.revision.hashes().generation_hash.clone();
    film.revisions.retain(|hash, _| *hash == current);
    film.observed.children.by_name_mut::<PodClique>().remove("s-2-a");
    film.reconcile();
    film.pods(false);
    film.pods(true);
    film.reconcile();
    film.check(&expect![[r"
        template B
        AA AA AA  updating []
        B!B! AA AA  updating [0]
        B!B! AA -A  updating [0]
        B!B! AA B!~B!  updating [2]
    "]]);
}

#[test]
fn replicas_below_the_partition_keep_their_template() {
    let mut film = Film::new();
    film.control("{partition: 2}");
    film.write("B");
    film.settle();
    film.observed.children.by_name_mut::<PodClique>().remove("s-0-a");
    film.settle();
    film.control("{partition: 0}");
    film.settle();
    film.check(&expect![[r"
        {partition: 2}
        template B
        AA AA AA  updating []
        AA AA B!B!  updating [2]
        AA AA B!B!  updating [], ended
        AA AA BB  updating [], ended
        AA AA BB  updating [], ended
        A~A AA BB  updating [], ended
        AA AA BB  updating [], ended
        {partition: 0}
        AA AA BB  updating []
        B!B! AA B!B!  updating [0]
        B!B! B!B! B!B!  updating [1]
        B!B! B!B! B!B!  updating [], ended
        BB BB BB  updating [], ended
        BB BB BB  updating [], ended
    "]]);
}

/// The replica that is being updated falls below the partition, and counts until it is available.
#[test]
fn a_partition_in_the_middle_of_an_update_keeps_the_bounds() {
    let mut film = Film::new();
    film.write("B");
    film.begin();
    film.pods(false);
    film.control("{partition: 1}");
    film.reconcile();
    film.reconcile();
    film.pods(true);
    film.reconcile();
    film.check(&expect![[r"
        template B
        AA AA AA  updating []
        B!B! AA AA  updating [0]
        {partition: 1}
        B!~B!~ AA AA  updating [0]
        B!~B!~ AA AA  updating [0]
        B!B! B!B! AA  updating [1]
    "]]);
}

/// All objects of the first replica are created again, and there is a new one below the partition.
#[test]
fn a_new_replica_below_the_partition_has_the_template_of_the_others() {
    let mut film = Film::new();
    film.control("{partition: 5}");
    film.write("B");
    film.settle();
    film.observed.children.by_name_mut::<PodGang>().remove("s-0");
    film.observed.children.by_name_mut::<PodClique>().retain(|name, _| !name.starts_with("s-0-"));
    film.settle();
    film.check(&expect![[r"
        {partition: 5}
        template B
        AA AA AA  updating []
        AA AA AA  updating [], ended
        AA AA AA  updating [], ended
        A~A~ AA AA  updating [], ended
        AA AA AA  updating [], ended
    "]]);
}

#[test]
fn a_paused_update_replaces_nothing() {
    let mut film = Film::new();
    film.control("{paused: true}");
    film.write("B");
    film.settle();
    film.control("{paused: false}");
    film.reconcile();
    film.control("{paused: true}");
    film.settle();
    film.control("{paused: false}");
    film.settle();
    film.check(&expect![[r"
        {paused: true}
        template B
        AA AA AA  updating [], paused
        AA AA AA  updating [], paused
        {paused: false}
        B!B! AA AA  updating [0]
        {paused: true}
        B!B! AA AA  updating [0], paused
        B!B! AA AA  updating [0], paused
        {paused: false}
        B!B! AA AA  updating [0]
        B!B! B!B! AA  updating [1]
        B!B! B!B! B!B!  updating [2]
        B!B! B!B! B!B!  updating [], ended
        BB BB BB  updating [], ended
        BB BB BB  updating [], ended
    "]]);
}

#[test]
fn several_replicas_are_updated_at_a_time() {
    let mut film = Film::new();
    film.control("{maxUnavailable: 67%}");
    film.write("B");
    film.begin();
    film.pods(false);
    film.reconcile();
    film.pods(true);
    film.settle();
    film.check(&expect![[r"
        {maxUnavailable: 67%}
        template B
        AA AA AA  updating []
        B!B! B!B! AA  updating [0, 1]
        B!~B!~ B!~B!~ AA  updating [0, 1]
        B!B! B!B! B!B!  updating [2]
        B!B! B!B! B!B!  updating [], ended
        BB BB BB  updating [], ended
        BB BB BB  updating [], ended
    "]]);
}
