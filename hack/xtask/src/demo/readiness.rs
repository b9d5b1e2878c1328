//! Whether a set has everything that its spec requests. Reads only what the API shows, as a user would.

use grove_api_types::deletion::is_terminating;
use grove_api_types::scheduler_v1alpha1::PodGangPhase;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup};
use grove_dev_harness::live_objects::{self, LiveObjects, owned_by};
use kube::Resource;

/// Whether the set of this name is available, has exactly the requested scaling groups, cliques and pods, all pods are Ready
/// and not terminating, and all gangs run.
pub(crate) fn is_ready(objects: &LiveObjects, set: &str) -> bool {
    let Some(set) = objects.sets.get(set) else { return false };
    let template = &set.spec.template;
    let grouped: usize = template.pod_clique_scaling_groups.iter().map(|group| group.clique_names.len()).sum();
    let replicas = size(set.spec.replicas);
    let groups = owned_by(&objects.groups, set);
    let gangs = owned_by(&objects.gangs, set);
    let is_running = |phase| phase == Some(PodGangPhase::Running);
    live_objects::is_available(set)
        && has_ready_cliques(objects, set, replicas * template.cliques.len().saturating_sub(grouped))
        && groups.len() == replicas * template.pod_clique_scaling_groups.len()
        && groups.iter().all(|group| is_group_ready(objects, group))
        && gangs.len() >= replicas
        && gangs.iter().all(|gang| is_running(gang.status.as_ref().map(|status| status.phase)))
}

fn is_group_ready(objects: &LiveObjects, group: &PodCliqueScalingGroup) -> bool {
    has_ready_cliques(objects, group, size(group.spec.replicas) * group.spec.clique_names.len())
}

/// Whether the owner has this many cliques, all of them ready.
fn has_ready_cliques(objects: &LiveObjects, owner: &impl Resource, count: usize) -> bool {
    let cliques = owned_by(&objects.cliques, owner);
    cliques.len() == count && cliques.iter().all(|clique| is_clique_ready(objects, clique))
}

fn is_clique_ready(objects: &LiveObjects, clique: &PodClique) -> bool {
    let pods = owned_by(&objects.pods, clique);
    let ready = clique.status.as_ref().map_or(0, |status| status.ready_replicas);
    pods.len() == size(clique.spec.replicas)
        && ready == clique.spec.replicas
        && pods.iter().all(|pod| !is_terminating(*pod) && live_objects::is_ready(pod))
}

fn size(replicas: i32) -> usize {
    usize::try_from(replicas).unwrap_or_default()
}
