//! One round with the services: they deploy a set, scale it in, scale it out and delete it.

use super::Round;
use super::object_counts::{Counts, ObjectCounts};
use super::phase_meter::PhaseMeter;
use super::recorded_objects::RecordedObjects;
use super::samples::{Phase, SampleKey, Samples, Variant};
use super::workload::{NAMESPACE, SET, Workload};
use crate::dev_cluster::DevCluster;
use anyhow::Result;
use grove_api_types::v1alpha1::PodCliqueSet;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

/// Measures one round with freshly started services; with `double`, also the scaling to twice the size.
pub(super) async fn run(
    cluster: &mut DevCluster,
    client: &Client,
    round: Round,
    double: bool,
    samples: &mut Samples,
) -> Result<()> {
    let grove = start(cluster, client, samples.workload, round).await?;
    let phases = async {
        grove.deploy(samples).await?;
        grove.scale_in(round.replicas / 2, samples).await?;
        grove.scale_out(round.replicas, samples).await?;
        if double {
            grove.double(samples).await?;
        }
        grove.delete(samples).await
    };
    grove.cluster.while_alive(phases).await?;
    cluster.stop_controllers().await
}

/// Lets the services deploy and delete a set, without measuring, and records the objects that they create. This also warms up
/// the API server: a server that has just started closes watches until it has sized their buffers.
pub(super) async fn record(
    cluster: &mut DevCluster,
    client: &Client,
    workload: Workload,
    replicas: u32,
) -> Result<RecordedObjects> {
    let mut discarded = Samples::default();
    let grove = start(cluster, client, workload, Round { replicas, repetition: 0 }).await?;
    let phases = async {
        grove.deploy(&mut discarded).await?;
        let recorded = Box::pin(RecordedObjects::read(client, workload.has_pod_groups())).await?;
        workload.required_key().map_or(Ok(()), |key| recorded.check_packed(key))?;
        grove.delete(&mut discarded).await?;
        Ok(recorded)
    };
    let recorded = grove.cluster.while_alive(phases).await?;
    cluster.stop_controllers().await?;
    Ok(recorded)
}

async fn start<'a>(
    cluster: &'a mut DevCluster,
    client: &Client,
    workload: Workload,
    round: Round,
) -> Result<Grove<'a>> {
    cluster.stop_controllers().await?;
    cluster.resume_services(&workload.up_args()).await?;
    let counts = ObjectCounts::start(client, workload).await;
    counts.wait_until_empty().await?;
    Ok(Grove { cluster, counts, workload, round, sets: Api::namespaced(client.clone(), NAMESPACE) })
}

struct Grove<'a> {
    cluster: &'a DevCluster,
    counts: ObjectCounts,
    workload: Workload,
    round: Round,
    sets: Api<PodCliqueSet>,
}

impl Grove<'_> {
    fn meter(&self, phase: Phase) -> Result<PhaseMeter> {
        PhaseMeter::start(self.cluster, &self.counts, SampleKey { round: self.round, variant: Variant::Grove, phase })
    }

    async fn deploy(&self, samples: &mut Samples) -> Result<()> {
        let set = self.workload.set(self.round.replicas)?;
        let meter = self.meter(Phase::Deploy)?;
        self.sets.create(&PostParams::default(), &set).await?;
        self.measure_growth(self.round.replicas, meter, samples).await
    }

    async fn scale_in(&self, replicas: u32, samples: &mut Samples) -> Result<()> {
        let meter = self.meter(Phase::ScaleIn)?;
        self.scale(replicas).await?;
        let pods = replicas * self.workload.pods_per_replica();
        let deleted = self.counts.wait_for("the surplus pods are deleted", |counts| counts.pods == pods).await?;
        meter.reached(samples, "pods deleted", deleted);
        let deleted = self.counts.wait_until_surplus_is_deleted(replicas).await?;
        meter.reached(samples, "all deleted", deleted);
        meter.finish(&self.counts, samples).await
    }

    async fn scale_out(&self, replicas: u32, samples: &mut Samples) -> Result<()> {
        let meter = self.meter(Phase::ScaleOut)?;
        self.scale(replicas).await?;
        self.measure_growth(replicas, meter, samples).await
    }

    /// Scales to twice the size, and then back without measuring that.
    async fn double(&self, samples: &mut Samples) -> Result<()> {
        let replicas = self.round.replicas;
        let meter = self.meter(Phase::Double)?;
        self.scale(2 * replicas).await?;
        self.measure_growth(2 * replicas, meter, samples).await?;
        self.scale_in(replicas, &mut Samples::default()).await
    }

    /// Measures until all objects exist and every status is current.
    async fn measure_growth(&self, replicas: u32, mut meter: PhaseMeter, samples: &mut Samples) -> Result<()> {
        let pods = replicas * self.workload.pods_per_replica();
        let created = self.counts.wait_for("all pods exist", |counts| counts.pods == pods).await?;
        meter.reached(samples, "created", created);
        let ready = self.counts.wait_for("all pods are Ready", |counts| counts.pods_ready == pods).await?;
        meter.pods_ready(samples, ready);
        let is_available = |counts: &Counts| counts.sets_available == 1 && counts.pods_ready == pods;
        let available = self.counts.wait_for("the set is Available", is_available).await?;
        meter.status_current(samples, "Available", available);
        let is_current = |counts: &Counts| {
            is_available(counts) && counts.gangs_running == replicas && counts.cliques_ready == replicas
        };
        let current = self.counts.wait_for("every status is current", is_current).await?;
        meter.status_current(samples, "all statuses", current);
        meter.finish(&self.counts, samples).await
    }

    async fn delete(&self, samples: &mut Samples) -> Result<()> {
        let meter = self.meter(Phase::Delete)?;
        self.sets.delete(SET, &DeleteParams::background()).await?;
        meter.reached(samples, "all deleted", self.counts.wait_until_empty().await?);
        meter.finish(&self.counts, samples).await
    }

    async fn scale(&self, replicas: u32) -> Result<()> {
        let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
        self.sets.patch(SET, &PatchParams::default(), &patch).await?;
        Ok(())
    }
}
