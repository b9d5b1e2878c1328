//! The measure of things: the very objects that the services would create, created and deleted by their own executor in
//! one go, with the controllers stopped.

use super::Round;
use super::measure::Meter;
use super::samples::{Phase, Place, Samples, Who};
use super::tally::Tally;
use super::workload::{NAMESPACE, PODS_PER_REPLICA, set};
use crate::plane::Plane;
use anyhow::{Context, Result, bail};
use grove_api_types::v1alpha1::{PodClique, PodCliqueSet};
use grove_controller::events::EventBroadcaster;
use grove_controller::executor::{ExecutionResult, Executor};
use grove_controller::plan::{Create, Delete, Plan, Stage, Step, Target};
use grove_runtime::client::Clients;
use grove_runtime::metrics::Metrics;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::PostParams;
use pclq_controller::clique as pclq;
use pcs_controller::set as pcs;

/// Measures with the controllers stopped.
pub(super) async fn run(plane: &mut Plane, clients: &Clients, round: Round, samples: &mut Samples) -> Result<()> {
    plane.stop_controllers().await?;
    let tally = Tally::begin(clients).await?;
    tally.until_empty().await?;
    let executor = Executor::new(clients.requests.clone(), EventBroadcaster::discarding(), Metrics::new()?);
    let hand = Hand { plane, tally, round, executor, sets: Api::namespaced(clients.requests.clone(), NAMESPACE) };
    plane.while_alive(hand.lived(samples)).await
}

struct Hand<'a> {
    plane: &'a Plane,
    tally: Tally,
    round: Round,
    executor: Executor,
    sets: Api<PodCliqueSet>,
}

impl Hand<'_> {
    async fn lived(&self, samples: &mut Samples) -> Result<()> {
        let set = set(self.round.replicas)?;
        let meter = self.begin(Phase::Deploy)?;
        let set = self.sets.create(&PostParams::default(), &set).await?;
        let implied = creates(&children(&set));
        let parents = self.execute(&set, implied.clone()).await?;
        let pods = cliques(&implied, &parents)?.into_iter().flat_map(pods).collect();
        self.execute(&set, pods).await?;
        let wanted = self.round.replicas * PODS_PER_REPLICA;
        let created = self.tally.until("all pods are created", |counts| counts.pods == wanted).await?;
        meter.reached(samples, "created", created);
        let ready = self.tally.until("all pods are ready", |counts| counts.pods_ready == wanted).await?;
        meter.reached(samples, "ready", ready);
        meter.end(&self.tally, samples).await?;

        let meter = self.begin(Phase::Delete)?;
        self.execute(&set, self.deletes(&set, parents)).await?;
        meter.reached(samples, "gone", self.tally.until_empty().await?);
        meter.end(&self.tally, samples).await
    }

    fn begin(&self, phase: Phase) -> Result<Meter> {
        Meter::begin(self.plane, &self.tally, Place { round: self.round, who: Who::Bare, phase })
    }

    async fn execute(&self, set: &PodCliqueSet, steps: Vec<Step>) -> Result<ExecutionResult> {
        let done = self.executor.execute(set, &Plan::new().stage(Stage::new("bare", steps))).await;
        if let Some(failure) = done.failures().next() {
            bail!("the API server refused: {failure}");
        }
        Ok(done)
    }

    /// Children before their owners, so that there is nothing that the garbage collector would have to do.
    fn deletes(&self, set: &PodCliqueSet, parents: ExecutionResult) -> Vec<Step> {
        let pods = self.tally.pods();
        let pods = pods.iter().map(|pod| Step::delete(&**pod));
        let mut parents: Vec<Target> = parents.steps.into_iter().map(|outcome| outcome.target).collect();
        parents.reverse();
        pods.chain(parents.into_iter().map(|target| Step::Delete(Delete { target })))
            .chain([Step::delete(set)])
            .collect()
    }
}

/// What pcs-controller would do about a set without children.
fn children(set: &PodCliqueSet) -> Plan {
    pcs::plan::plan(&pcs::observed::Observed::without_children(set), Timestamp::UNIX_EPOCH)
}

fn creates(plan: &Plan) -> Vec<Step> {
    plan.steps().filter(|step| step.verb() == "create").cloned().collect()
}

/// The cliques among the steps, with the uids that the API server gave them.
fn cliques(steps: &[Step], done: &ExecutionResult) -> Result<Vec<PodClique>> {
    let mut cliques = Vec::new();
    for (step, outcome) in steps.iter().zip(&done.steps) {
        let Step::Create(Create { target, object }) = step else { continue };
        if target.resource.kind == "PodClique" {
            let mut clique: PodClique = serde_json::from_str(object.text()).context("not a PodClique")?;
            clique.metadata.uid.clone_from(&outcome.target.uid);
            cliques.push(clique);
        }
    }
    Ok(cliques)
}

/// What pclq-controller would create for a clique without pods.
fn pods(clique: PodClique) -> Vec<Step> {
    creates(&pclq::plan::plan(&pclq::observed::Observed::without_children(clique), Timestamp::UNIX_EPOCH))
}
