//! Takes the snapshot of a domain from the caches. It sends no requests.

use std::sync::Arc;

use grove_api_types::compute_domain::daemon_pod::DaemonPodObject;
use grove_runtime::caches::{Cache, Index};
use kube::{Resource, ResourceExt};

use super::StateSyncContext;
use super::domain::SyncedDomain;
use super::informers::CLIQUES_BY_DOMAIN;
use super::objects::{ClaimTarget, by_domain};
use super::observed::Observed;

/// The snapshot of `domain`. Only objects in the namespace of the daemons count, and the template of the pods that use the domain: a user may
/// create others with the same labels.
pub(super) fn observe(ctx: &StateSyncContext, domain: &SyncedDomain) -> Observed {
    let uid = domain.uid().unwrap_or_default();
    let (caches, namespace) = (&ctx.caches, ctx.settings.namespace.as_str());
    let pods = in_namespace(&caches.pods, &by_domain(), &uid, namespace);
    let daemon_templates = in_namespace(&caches.claim_templates, &by_domain(), &uid, namespace).into_iter();
    let workload_templates =
        in_namespace(&caches.claim_templates, &by_domain(), &uid, &domain.namespace().unwrap_or_default());
    let template = &domain.spec.channel.resource_claim_template.name;
    let daemon_templates = daemon_templates.filter(|it| it.is_for(ClaimTarget::Daemon));
    let workload_templates =
        workload_templates.into_iter().filter(|it| it.is_for(ClaimTarget::Workload) && it.name_any() == *template);
    Observed {
        domain: domain.clone(),
        cliques: in_namespace(&caches.cliques, &CLIQUES_BY_DOMAIN, &uid, namespace),
        pods: pods.iter().filter_map(|pod| DaemonPodObject::daemon_pod(pod)).collect(),
        daemon_set: in_namespace(&caches.daemon_sets, &by_domain(), &uid, namespace).into_iter().next(),
        claim_templates: daemon_templates.chain(workload_templates).collect(),
        nodes: caches.nodes.by_index(&by_domain(), &uid),
        other_manager: None,
        settings: Arc::clone(&ctx.settings),
    }
}

fn in_namespace<K: Resource<DynamicType = ()>>(
    cache: &Cache<K>,
    index: &Index<K>,
    uid: &str,
    namespace: &str,
) -> Vec<Arc<K>> {
    let mut objects = cache.by_index(index, uid);
    objects.retain(|object| object.meta().namespace.as_deref() == Some(namespace));
    objects
}
