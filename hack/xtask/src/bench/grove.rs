//! The life of one set in the hands of the services: deployed, scaled in, scaled out, deleted.

use super::Round;
use super::measure::Meter;
use super::samples::{Phase, Place, Samples, Who};
use super::tally::{Counts, Tally};
use super::workload::{NAMESPACE, PODS_PER_REPLICA, SET, set};
use crate::args::Wish;
use crate::plane::Plane;
use anyhow::Result;
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_runtime::client::Clients;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

/// Measures with services that were just started, and stops them again.
pub(super) async fn run(plane: &mut Plane, clients: &Clients, round: Round, samples: &mut Samples) -> Result<()> {
    plane.stop_controllers().await?;
    plane.resume_services(&Wish::default()).await?;
    let tally = Tally::begin(clients).await?;
    tally.until_empty().await?;
    let life = Life { plane, tally, round, api: Api::namespaced(clients.requests.clone(), NAMESPACE) };
    plane.while_alive(life.lived(samples)).await?;
    plane.stop_controllers().await
}

struct Life<'a> {
    plane: &'a Plane,
    tally: Tally,
    round: Round,
    api: Api<PodCliqueSet>,
}

impl Life<'_> {
    async fn lived(&self, samples: &mut Samples) -> Result<()> {
        let all = self.round.replicas;
        self.deploy(samples).await?;
        self.scale_in(all / 2, samples).await?;
        self.scale_out(all, samples).await?;
        self.delete(samples).await
    }

    fn begin(&self, phase: Phase) -> Result<Meter> {
        Meter::begin(self.plane, &self.tally, Place { round: self.round, who: Who::Grove, phase })
    }

    async fn deploy(&self, samples: &mut Samples) -> Result<()> {
        let set = set(self.round.replicas)?;
        let meter = self.begin(Phase::Deploy)?;
        self.api.create(&PostParams::default(), &set).await?;
        self.grown(meter, samples).await
    }

    async fn scale_in(&self, replicas: u32, samples: &mut Samples) -> Result<()> {
        let meter = self.begin(Phase::ScaleIn)?;
        self.scale(replicas).await?;
        let pods = replicas * PODS_PER_REPLICA;
        let gone = self.tally.until("the pods are gone", |counts| counts.pods == pods).await?;
        meter.reached(samples, "pods gone", gone);
        let exact = |counts: &Counts| [counts.services, counts.gangs, counts.cliques] == [replicas; 3];
        let gone = self.tally.until("all is gone", |counts| counts.pods == pods && exact(counts)).await?;
        meter.reached(samples, "all gone", gone);
        meter.end(&self.tally, samples).await
    }

    async fn scale_out(&self, replicas: u32, samples: &mut Samples) -> Result<()> {
        let meter = self.begin(Phase::ScaleOut)?;
        self.scale(replicas).await?;
        self.grown(meter, samples).await
    }

    /// Until everything is there, and everything that has a status says so.
    async fn grown(&self, meter: Meter, samples: &mut Samples) -> Result<()> {
        let replicas = self.round.replicas;
        let pods = replicas * PODS_PER_REPLICA;
        let created = self.tally.until("all pods are created", |counts| counts.pods == pods).await?;
        meter.reached(samples, "created", created);
        let ready = self.tally.until("all pods are ready", |counts| counts.pods_ready == pods).await?;
        meter.reached(samples, "ready", ready);
        let is_available = |counts: &Counts| counts.sets_available == 1 && counts.pods_ready == pods;
        let available = self.tally.until("the set is available", is_available).await?;
        meter.reached(samples, "available", available);
        let is_told = |counts: &Counts| counts.gangs_running == replicas && counts.cliques_ready == replicas;
        let told = self.tally.until("cliques and gangs say so", is_told).await?;
        meter.reached(samples, "told", told);
        meter.end(&self.tally, samples).await
    }

    async fn delete(&self, samples: &mut Samples) -> Result<()> {
        let meter = self.begin(Phase::Delete)?;
        self.api.delete(SET, &DeleteParams::background()).await?;
        meter.reached(samples, "gone", self.tally.until_empty().await?);
        meter.end(&self.tally, samples).await
    }

    async fn scale(&self, replicas: u32) -> Result<()> {
        let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
        self.api.patch(SET, &PatchParams::default(), &patch).await?;
        Ok(())
    }
}
