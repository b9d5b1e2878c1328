//! What is known about a clique, its pods and its gang: plain data, and questions about it.

use std::sync::Arc;

use grove_api_types::deletion::is_terminating;
use grove_api_types::labels;
use grove_api_types::names::{PodCliqueName, PodCliqueSetName, PodGangName};
use grove_api_types::scheduler::Scheduler;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::PodClique;
use grove_controller::slim::SlimPod;
use kube::ResourceExt;

use crate::memory::Recollection;

/// A clique, its pods as the caches have them, and what was learned about names.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The clique, with our defaults applied.
    pub clique: PodClique,
    /// The pods it controls, sorted by name.
    pub pods: Vec<Arc<SlimPod>>,
    /// Pods that nobody controls and that carry the labels of this clique, unless they are leaving.
    pub unowned: Vec<Arc<SlimPod>>,
    /// The last pod of each index that was seen to disappear.
    pub departed: Vec<Arc<SlimPod>>,
    /// The gang its pods are scheduled with.
    pub gang: Option<Arc<PodGang>>,
    /// The gang that must be scheduled before; absent when the clique belongs to a base gang itself.
    pub base_gang: Option<BaseGang>,
    /// Whether cliques of scaled gangs wait until its gang is scheduled.
    pub is_awaited: bool,
    /// What this process remembers of its own creates.
    pub remembered: Recollection,
    /// Whether the cluster refused it pods the last time.
    pub is_starved: bool,
    /// Who schedules its pods if it does not say.
    pub default_scheduler: Scheduler,
}

/// A base gang, as far as its being scheduled goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseGang {
    /// Its name.
    pub name: PodGangName,
    /// Its groups; absent when the gang does not exist.
    pub groups: Option<Vec<BaseGroup>>,
}

/// One group of a base gang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseGroup {
    /// The name of the group and of its clique.
    pub name: String,
    /// How many of its pods the gang needs.
    pub min_replicas: i32,
    /// How many are scheduled, as the clique says.
    pub scheduled: i32,
}

/// Where a clique stands in its set, as its labels say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lineage {
    /// The set.
    pub set: PodCliqueSetName,
    /// The replica of the set.
    pub replica: i32,
    /// The gang of its pods.
    pub gang: PodGangName,
}

impl Observed {
    /// A clique of which no pod was seen: what is planned for it is all that it implies.
    pub fn childless(clique: PodClique) -> Self {
        let (pods, unowned, departed, remembered) = <_>::default();
        Self {
            clique,
            pods,
            unowned,
            departed,
            gang: None,
            base_gang: None,
            is_awaited: false,
            remembered,
            is_starved: false,
            default_scheduler: Scheduler::default(),
        }
    }

    /// Whether the clique is being deleted.
    pub fn is_leaving(&self) -> bool {
        is_terminating(&self.clique)
    }

    /// The name of the clique.
    pub fn name(&self) -> PodCliqueName {
        PodCliqueName::new(self.clique.name_any())
    }

    /// The uid of the clique.
    pub fn uid(&self) -> &str {
        self.clique.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Pods that neither leave nor have ended. One that lost its owner is still there and has its index.
    pub fn live(&self) -> impl Iterator<Item = &SlimPod> {
        self.pods.iter().chain(&self.unowned).map(Arc::as_ref).filter(|pod| pod.is_live())
    }

    /// Whether the clique controls the pod.
    pub fn owns(&self, pod: &SlimPod) -> bool {
        self.unowned.iter().all(|unowned| unowned.metadata.uid != pod.metadata.uid)
    }

    /// Every pod ever heard of: those that are there, and the last one gone of each index.
    pub fn ever_seen(&self) -> impl Iterator<Item = &SlimPod> {
        self.pods.iter().chain(&self.unowned).chain(&self.departed).map(Arc::as_ref)
    }

    /// Why pods of the clique must not be scheduled yet, if so.
    pub fn held_back(&self) -> Option<String> {
        let BaseGang { name, groups } = self.base_gang.as_ref()?;
        let Some(groups) = groups else {
            return Some(format!("PodGang {name} must be scheduled first and does not exist"));
        };
        let lacking = groups.iter().find(|group| group.scheduled < group.min_replicas)?;
        let BaseGroup { name: clique, min_replicas, scheduled } = lacking;
        Some(format!(
            "PodGang {name} must be scheduled first: {clique} has {scheduled} of {min_replicas} pods scheduled"
        ))
    }

    /// Where the clique stands, or the first label that it lacks.
    pub fn lineage(&self) -> Result<Lineage, &'static str> {
        lineage(&self.clique)
    }
}

/// Where `clique` stands, or the first label that it lacks or that makes no sense.
pub fn lineage(clique: &PodClique) -> Result<Lineage, &'static str> {
    let label = |key| clique.labels().get(key).filter(|value| !value.is_empty()).ok_or(key);
    Ok(Lineage {
        set: PodCliqueSetName::new(label(labels::PART_OF)?),
        replica: label(labels::SET_REPLICA)?.parse().map_err(|_| labels::SET_REPLICA)?,
        gang: PodGangName::new(label(labels::POD_GANG)?),
    })
}

/// The index of a pod within its clique: the end of its hostname, which cannot change, else its label.
pub fn index(pod: &SlimPod) -> Option<i32> {
    let hosted = pod.spec.hostname.as_deref().and_then(|host| host.rsplit_once('-')).map(|(_, index)| index);
    let labelled = || pod.labels().get(labels::POD_INDEX).map(String::as_str);
    hosted.and_then(parse).or_else(|| labelled().and_then(parse))
}

fn parse(index: &str) -> Option<i32> {
    index.parse().ok().filter(|index| *index >= 0)
}
