//! The baseline: a plain kube client creates and deletes the objects that the services create, with the controllers stopped.

use super::Round;
use super::object_counts::ObjectCounts;
use super::phase_meter::PhaseMeter;
use super::recorded_objects::{KindObjects, RecordedObjects, Uids, set_owner_uids};
use super::samples::{Phase, SampleKey, Samples, Variant};
use super::workload::{NAMESPACE, Workload};
use crate::dev_cluster::DevCluster;
use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use grove_api_types::v1alpha1::PodCliqueSet;
use kube::api::{ApiResource, DeleteParams, DynamicObject, PostParams, Preconditions};
use kube::{Api, Client, Resource, ResourceExt};

/// Requests in flight, as many as the executor of the services sends.
const IN_FLIGHT: usize = 32;

/// Measures one round with the controllers stopped.
pub(super) async fn run(
    cluster: &mut DevCluster,
    client: &Client,
    round: Round,
    recorded: &RecordedObjects,
    samples: &mut Samples,
) -> Result<()> {
    cluster.stop_controllers().await?;
    let workload = samples.workload;
    let counts = ObjectCounts::start(client, workload).await;
    counts.wait_until_empty().await?;
    let baseline = Baseline { cluster, counts, workload, round, client: client.clone() };
    cluster.while_alive(baseline.measure(recorded, samples)).await
}

struct Baseline<'a> {
    cluster: &'a DevCluster,
    counts: ObjectCounts,
    workload: Workload,
    round: Round,
    client: Client,
}

impl Baseline<'_> {
    async fn measure(&self, recorded: &RecordedObjects, samples: &mut Samples) -> Result<()> {
        let replicas = self.round.replicas;
        let (deployed, surplus) = recorded.clone().split_at(replicas);
        let created = self.deploy(deployed, samples).await?;
        if !surplus.is_empty() {
            let surplus = self.double(surplus, &uids(&created), samples).await?;
            delete(surplus).await?;
            self.counts.wait_until_surplus_is_deleted(replicas).await?;
        }
        let meter = self.meter(Phase::Delete)?;
        delete(created).await?;
        meter.reached(samples, "all deleted", self.counts.wait_until_empty().await?);
        meter.finish(&self.counts, samples).await
    }

    /// Creates all objects, and returns them in the order of their creation.
    async fn deploy(&self, recorded: RecordedObjects, samples: &mut Samples) -> Result<Vec<StoredObject>> {
        let RecordedObjects { children, grandchildren } = recorded;
        let set = self.workload.set(self.round.replicas)?;
        let meter = self.meter(Phase::Deploy)?;
        let sets = KindObjects {
            resource: ApiResource::erase::<PodCliqueSet>(&()),
            objects: vec![serde_json::from_value(serde_json::to_value(set)?)?],
        };
        let mut created = Vec::new();
        for stage in [vec![sets], children, grandchildren] {
            created.extend(create(&self.client, stage, &uids(&created)).await?);
        }
        self.measure_growth(self.round.replicas, meter, samples).await?;
        Ok(created)
    }

    /// Creates the objects of further replicas, as many as there are. Returns them in the order of their creation.
    async fn double(&self, surplus: RecordedObjects, uids: &Uids, samples: &mut Samples) -> Result<Vec<StoredObject>> {
        let RecordedObjects { children, grandchildren } = surplus;
        let meter = self.meter(Phase::Double)?;
        let mut created = create(&self.client, children, uids).await?;
        let mut uids = uids.clone();
        uids.extend(self::uids(&created));
        created.extend(create(&self.client, grandchildren, &uids).await?);
        self.measure_growth(2 * self.round.replicas, meter, samples).await?;
        Ok(created)
    }

    /// Measures until all pods of this many replicas are Ready.
    async fn measure_growth(&self, replicas: u32, mut meter: PhaseMeter, samples: &mut Samples) -> Result<()> {
        let wanted = replicas * self.workload.pods_per_replica();
        let exist = self.counts.wait_for("all pods exist", |counts| counts.pods == wanted).await?;
        meter.reached(samples, "created", exist);
        let ready = self.counts.wait_for("all pods are Ready", |counts| counts.pods_ready == wanted).await?;
        meter.pods_ready(samples, ready);
        meter.finish(&self.counts, samples).await
    }

    fn meter(&self, phase: Phase) -> Result<PhaseMeter> {
        PhaseMeter::start(
            self.cluster,
            &self.counts,
            SampleKey { round: self.round, variant: Variant::Baseline, phase },
        )
    }
}

/// Creates the objects of some kinds. Their owners exist and have these uids. The returned objects have no order.
pub(super) async fn create(client: &Client, kinds: Vec<KindObjects>, uids: &Uids) -> Result<Vec<StoredObject>> {
    let mut requests = Vec::new();
    for KindObjects { resource, objects } in kinds {
        let api = Api::<DynamicObject>::namespaced_with(client.clone(), NAMESPACE, &resource);
        for mut object in objects {
            set_owner_uids(&mut object, uids)?;
            let (api, kind) = (api.clone(), resource.kind.clone());
            requests.push(async move { StoredObject::new(api, kind, object).await });
        }
    }
    stream::iter(requests).buffer_unordered(IN_FLIGHT).try_collect().await
}

/// An object that the API server has stored.
pub(super) struct StoredObject {
    api: Api<DynamicObject>,
    kind: String,
    name: String,
    uid: String,
}

impl StoredObject {
    async fn new(api: Api<DynamicObject>, kind: String, object: DynamicObject) -> Result<Self> {
        let name = object.name_any();
        let stored = api.create(&PostParams::default(), &object).await;
        let stored = stored.with_context(|| format!("the API server rejected {kind} {name}"))?;
        let uid = stored.meta().uid.clone().context("a stored object has no uid")?;
        Ok(Self { api, kind, name, uid })
    }

    /// The garbage collector deletes dependents in the background, but there are none: owners are deleted last.
    async fn delete(self) -> Result<()> {
        let Self { api, kind, name, uid } = self;
        let preconditions = Preconditions { uid: Some(uid), resource_version: None };
        let deleted = api.delete(&name, &DeleteParams::background().preconditions(preconditions)).await;
        deleted.with_context(|| format!("the API server rejected the deletion of {kind} {name}"))?;
        Ok(())
    }
}

/// Deletes the objects in the opposite order of their creation.
pub(super) async fn delete(created: Vec<StoredObject>) -> Result<()> {
    stream::iter(created.into_iter().rev().map(StoredObject::delete)).buffer_unordered(IN_FLIGHT).try_collect().await
}

fn uids(created: &[StoredObject]) -> Uids {
    created.iter().map(|created| ((created.kind.clone(), created.name.clone()), created.uid.clone())).collect()
}
