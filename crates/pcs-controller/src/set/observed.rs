//! What is known about a set and its children: plain data, and questions about it.

use std::collections::BTreeMap;

use grove_api_types::admission::default;
use grove_api_types::deletion::is_terminating;
use grove_api_types::expansion::{CurrentScale, object_count};
use grove_api_types::names::{PodCliqueScalingGroupName, PodCliqueSetName};
use grove_api_types::scheduler::Scheduler;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::unsupported_fields;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_runtime::namesake::{Claims, Namesake};
use grove_runtime::refusals::Standing;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;

use crate::children::ByName;
use crate::children::autoscaler::Autoscaler;

/// A set and the children it controls, as the caches have them.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The set, with our defaults applied.
    pub set: PodCliqueSet,
    /// Fields that its user wrote and that no service acts on.
    pub(crate) ignored: Vec<String>,
    /// Who schedules its pods if it does not say.
    pub(crate) default_scheduler: Scheduler,
    /// Its cliques that belong to no scaling group.
    pub(crate) cliques: ByName<PodClique>,
    /// Its scaling groups.
    pub(crate) groups: ByName<PodCliqueScalingGroup>,
    /// Its gangs.
    pub(crate) gangs: ByName<PodGang>,
    /// Its Services.
    pub(crate) services: ByName<Service>,
    /// Its autoscalers.
    pub(crate) autoscalers: ByName<Autoscaler>,
    /// Scaling groups that lost their owner and are its own by their labels. They are adopted, and until then as large and
    /// as good as they are.
    pub(crate) released: ByName<PodCliqueScalingGroup>,
    /// Objects that have the name of a child and that it does not control.
    pub(crate) taken: Vec<Namesake>,
    /// Children that were refused and are not asked for now.
    pub(crate) refused: Standing,
}

impl Observed {
    /// A set of which no child was seen: what is planned for it is all that it implies.
    pub fn childless(set: &PodCliqueSet) -> Self {
        Self {
            set: default::pod_clique_set(set),
            ignored: unsupported_fields::fields(set),
            default_scheduler: Scheduler::default(),
            cliques: ByName::new(),
            groups: ByName::new(),
            gangs: ByName::new(),
            services: ByName::new(),
            autoscalers: ByName::new(),
            released: ByName::new(),
            taken: Vec::new(),
            refused: Standing::default(),
        }
    }

    /// Whether the set is not expanded, because no memory would hold what it implies.
    pub(crate) fn is_too_large(&self) -> bool {
        let groups = self.groups.values().chain(self.released.values()).map(|group| group.spec.replicas);
        let cliques = self.cliques.values().map(|clique| clique.spec.replicas);
        let (clique, group) = (cliques.max().unwrap_or(0), groups.max().unwrap_or(0));
        object_count::may_be_too_large(&self.set, clique, group) && object_count::is_too_large(&self.set, &self.live())
    }

    /// Whether the set is being deleted.
    pub fn is_leaving(&self) -> bool {
        is_terminating(&self.set)
    }

    /// The name of the set.
    pub fn name(&self) -> PodCliqueSetName {
        PodCliqueSetName::new(self.set.name_any())
    }

    /// What it makes of the names that others have. `ours` are the labels that every child has.
    pub(crate) fn claims<'a>(&'a self, ours: &'a BTreeMap<String, String>) -> Claims<'a, PodCliqueSet> {
        Claims { owner: &self.set, taken: &self.taken, labels: ours }
    }

    /// The scaling group of this name, unless it is missing or being deleted.
    pub(crate) fn group(&self, name: &PodCliqueScalingGroupName) -> Option<&PodCliqueScalingGroup> {
        let group = self.groups.get(name.as_str()).or_else(|| self.released.get(name.as_str()))?;
        (!is_terminating(&**group)).then_some(group)
    }

    /// How large the cliques and scaling groups are that exist.
    pub(crate) fn live(&self) -> CurrentScale {
        let groups = self.groups.values().chain(self.released.values()).map(AsRef::as_ref);
        CurrentScale::of(groups, self.cliques.values().map(AsRef::as_ref))
    }
}
