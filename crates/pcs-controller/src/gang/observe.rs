//! Takes the snapshot of a gang and its cliques from the caches. It sends no requests.

use grove_api_types::deletion::is_terminating;
use grove_api_types::scheduler_v1alpha1::PodGang;
use kube::ResourceExt;

use super::observed::{GangOwner, Observed};
use crate::children::by_name;
use crate::context::Context;

/// The snapshot of `gang`.
pub(super) fn observe(ctx: &Context<GangOwner>, gang: &PodGang) -> Observed {
    let namespace = gang.namespace().unwrap_or_default();
    let groups = gang.spec.podgroups.iter();
    let cliques = groups.filter_map(|group| ctx.caches.cliques.get(&namespace, &group.name));
    let has_active_set = ctx.caches.set_of(gang).is_some_and(|set| !is_terminating(&*set));
    Observed { gang: gang.clone(), cliques: by_name(cliques), has_active_set }
}
