//! Takes the snapshot of a domain from the caches. It sends no requests.

use grove_api_types::compute_domain::daemon_pod::DaemonPodObject;
use kube::ResourceExt;

use super::StateSyncContext;
use super::domain::SyncedDomain;
use super::informers::{CLIQUES_BY_DOMAIN, PODS_BY_DOMAIN};
use super::observed::Observed;

/// The snapshot of `domain`. Only objects in the namespace of the daemons count: a user may create others with the same labels.
pub(super) fn observe(ctx: &StateSyncContext, domain: &SyncedDomain) -> Observed {
    let uid = domain.uid().unwrap_or_default();
    let is_in_namespace = |namespace: &Option<String>| namespace.as_deref() == Some(&ctx.namespace);
    let pods = ctx.pods.by_index(&PODS_BY_DOMAIN, &uid);
    let pods = pods.iter().filter(|pod| is_in_namespace(&pod.metadata.namespace));
    let cliques = ctx.cliques.by_index(&CLIQUES_BY_DOMAIN, &uid).into_iter();
    Observed {
        domain: domain.clone(),
        cliques: cliques.filter(|clique| is_in_namespace(&clique.metadata.namespace)).collect(),
        pods: pods.filter_map(|pod| DaemonPodObject::daemon_pod(pod)).collect(),
        namespace: ctx.namespace.clone(),
        mirrors_nodes: ctx.mirrors_nodes,
    }
}
