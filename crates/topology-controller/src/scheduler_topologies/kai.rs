//! KAI: the `Topology` of `kai.scheduler`. Its levels are immutable.

use grove_api_types::scheduler::Scheduler;
use serde_json::{Value, json};

use super::SchedulerTopologyApi;

/// The topologies of KAI.
#[derive(Debug)]
pub(crate) struct Kai;

impl SchedulerTopologyApi for Kai {
    const SCHEDULER: Scheduler = Scheduler::Kai;
    const GROUP: &'static str = "kai.scheduler";
    const VERSION: &'static str = "v1alpha1";
    const PLURAL: &'static str = "topologies";
    const DISPLAY_NAME: &'static str = "KAI Topology";

    fn spec(node_labels: &[String]) -> Value {
        let levels: Vec<Value> = node_labels.iter().map(|label| json!({ "nodeLabel": label })).collect();
        json!({ "levels": levels })
    }

    fn node_labels(spec: &Value) -> Vec<String> {
        let levels = spec["levels"].as_array().into_iter().flatten();
        levels.map(|level| level["nodeLabel"].as_str().unwrap_or_default().to_owned()).collect()
    }
}
