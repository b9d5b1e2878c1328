//! The informers that more than one reconciler of this service reads. The informers of other child kinds follow from the tables
//! of child kinds.

use std::sync::Arc;

use grove_api_types::ownership::{controller_of, is_controlled_by};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use grove_controller::shared_informer_factory::SharedInformerFactory;
use grove_runtime::caches::Cache;
use grove_runtime::runtime::Runtime;
use kube::{Resource, ResourceExt};

/// The caches of `PodCliqueSet`s and of the kinds of Grove below them.
#[derive(Clone)]
pub(crate) struct PcsCaches {
    pub(crate) sets: Cache<PodCliqueSet>,
    pub(crate) groups: Cache<PodCliqueScalingGroup>,
    pub(crate) cliques: Cache<PodClique>,
    pub(crate) gangs: Cache<PodGang>,
    /// The informers of all kinds.
    pub(crate) informers: SharedInformerFactory,
}

impl PcsCaches {
    /// Starts the informers.
    pub(crate) fn start(runtime: &Runtime) -> Self {
        let informers = SharedInformerFactory::new(runtime);
        let (sets, groups) = (informers.cache(), informers.cache());
        Self { sets, groups, cliques: informers.cache(), gangs: informers.cache(), informers }
    }

    /// The set that controls the child, compared by uid. A set that is terminating counts.
    pub(crate) fn set_of<K: Resource>(&self, child: &K) -> Option<Arc<PodCliqueSet>> {
        let owner = controller_of(child.meta())?;
        let set = self.sets.get(&child.namespace()?, &owner.name)?;
        is_controlled_by(child, &*set).then_some(set)
    }
}
