//! Takes the snapshot of a gang and its pods from the caches.

use std::sync::Arc;

use grove_api_types::deletion::is_terminating;
use grove_api_types::labels;
use grove_api_types::scheduler_v1alpha1::{GangPodGroup, PodGang};
use kube::ResourceExt;

use super::Context;
use super::observed::{Member, Observed};
use crate::gangs::desired_pods;
use crate::pod;

/// The snapshot of the gang.
pub(super) fn observe(ctx: &Context, gang: &Arc<PodGang>) -> Observed {
    let members = gang.spec.podgroups.iter().map(|group| member(ctx, gang, group)).collect();
    Observed { gang: Arc::clone(gang), members }
}

fn member(ctx: &Context, gang: &PodGang, group: &GangPodGroup) -> Option<Member> {
    let (namespace, name) = (gang.metadata.namespace.as_deref().unwrap_or_default(), gang.metadata.name.as_ref());
    let clique = ctx.cliques.get(namespace, &group.name)?;
    if is_terminating(&*clique) || clique.labels().get(labels::POD_GANG) != name {
        return None;
    }
    let mut pods = ctx.pods.owned_by(namespace, clique.metadata.uid.as_deref().unwrap_or_default());
    pods.retain(|pod| pod.is_live());
    pods.sort_by_cached_key(|pod| (pod::index(pod), pod.name_any()));
    let pods = pods.into_iter().map(|pod| pod.name_any()).collect();
    Some(Member { desired: desired_pods(&clique), pods })
}
