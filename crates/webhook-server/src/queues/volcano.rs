//! Volcano: its queues are cluster-scoped objects.

use std::borrow::Cow;

use grove_api_types::scheduler::Scheduler;
use kube::Resource;
use kube::core::ObjectMeta;
use serde::Deserialize;

/// The scheduler.
pub(crate) const SCHEDULER: Scheduler = Scheduler::Volcano;
const GROUP: &str = "scheduling.volcano.sh";
const PLURAL: &str = "queues";

/// A queue: the fields that the rules read.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Queue {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    status: QueueStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct QueueStatus {
    #[serde(default)]
    state: String,
}

impl Queue {
    /// Whether the queue accepts jobs. Without a status it counts as open.
    pub(crate) fn is_open(&self) -> bool {
        ["", "Open"].contains(&self.status.state.as_str())
    }
}

impl Resource for Queue {
    type DynamicType = ();
    type Scope = kube::core::ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Queue".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1beta1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        PLURAL.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
