//! `demo --native-gangs`: the default scheduler binds the pods of a gang together, or none of them.

use super::Demo;
use super::readiness::is_ready;
use crate::nodes;
use anyhow::Result;
use grove_dev_harness::live_objects::LiveObjects;

/// The set of the example of this name: four workers that need a node each, and a launcher.
pub(super) const SET: &str = "training";
const PODS: usize = 5;
/// The nodes that the gang needs.
const NODES: u32 = 4;
/// One node too few.
pub(super) const NODES_AT_FIRST: u32 = NODES - 1;

impl Demo<'_> {
    /// Shows a gang that does not fit, and then fits.
    pub(super) async fn play_gang(&mut self) -> Result<()> {
        self.deploy_a_gang_that_does_not_fit().await?;
        self.add_a_node().await?;
        self.delete_set(SET, "Delete the set.").await
    }

    async fn deploy_a_gang_that_does_not_fit(&mut self) -> Result<()> {
        self.begin_step(&format!(
            "Apply a set whose gang needs {NODES} nodes. The cluster has {NODES_AT_FIRST}: the scheduler binds none of the pods."
        ));
        self.apply_example(SET).await?;
        self.wait_for("the scheduler reports that the gang does not fit, and no pod has a node", |objects| {
            objects.pods.len() == PODS && !has_bound_pod(objects) && report_of_scheduler(objects).is_some()
        })
        .await?;
        let report = report_of_scheduler(&self.objects).unwrap_or_default();
        println!("   condition GangScheduling of the PodGang: {report}");
        Ok(())
    }

    async fn add_a_node(&mut self) -> Result<()> {
        self.begin_step("Add a node: the whole gang fits, and the scheduler binds all its pods.");
        self.cluster.kubectl.apply(&nodes::manifests(NODES)).await?;
        self.wait_for("all pods are Ready", |objects| is_ready(objects, SET)).await
    }
}

fn has_bound_pod(objects: &LiveObjects) -> bool {
    objects.pods.values().any(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()))
}

/// The message of a gang that the scheduler could not schedule.
fn report_of_scheduler(objects: &LiveObjects) -> Option<&str> {
    let statuses = objects.gangs.values().filter_map(|gang| gang.status.as_ref());
    let mut conditions = statuses.flat_map(|status| &status.conditions);
    let is_report = |message: &str| message.contains("Unschedulable");
    let condition = conditions.find(|condition| condition.type_ == "GangScheduling" && is_report(&condition.message));
    condition.map(|condition| condition.message.as_str())
}
