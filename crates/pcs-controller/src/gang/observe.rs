//! Takes the snapshot of a gang and its cliques from the caches. It sends no requests.

use grove_api_types::deletion::is_terminating;
use grove_api_types::scheduler_v1alpha1::PodGang;
use kube::ResourceExt;

use super::observed::Observed;
use crate::children::by_name;
use crate::informers::PcsCaches;

/// The snapshot of `gang`.
pub(super) fn observe(caches: &PcsCaches, gang: &PodGang) -> Observed {
    let namespace = gang.namespace().unwrap_or_default();
    let groups = gang.spec.podgroups.iter();
    let cliques = groups.filter_map(|group| caches.cliques.get(&namespace, &group.name));
    let has_active_set = caches.set_of(gang).is_some_and(|set| !is_terminating(&*set));
    Observed { gang: gang.clone(), cliques: by_name(cliques), has_active_set }
}
