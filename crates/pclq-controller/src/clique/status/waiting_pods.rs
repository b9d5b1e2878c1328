//! The pods that wait for the scheduler, and why: a part of the message of the condition `Available`.

use grove_api_types::mnnvl::has_domain_claim;
use grove_api_types::names::PodClaimName;
use grove_api_types::pod_group::PodGroupRef;
use grove_api_types::text::{join_names, shortened};
use grove_controller::slim_pod::SlimPod;

use crate::clique::observed::Observed;

/// The message has this many names; it only counts the others.
const MAX_NAMED: usize = 3;
/// The message has this many characters of the scheduler's message.
const MAX_REASON: usize = 300;
/// In the scheduler's message if no node can allocate all claims of the pod.
const NO_DEVICE: &str = "cannot allocate all claims";

/// Which pods wait for the scheduler, and what is known about the reason: the minimum of their `PodGroup`, what the scheduler reports about the
/// first pod with a report, which is named first, that a node has one IMEX channel if the scheduler finds no device for a pod with a
/// compute domain, and that the template of the domain is missing. `None` if no reason is known.
pub(super) fn message(observed: &Observed) -> Option<String> {
    let mut waiting: Vec<_> = observed.waiting_pods().collect();
    waiting.sort_by_key(|pod| (pod.unschedulable_message().is_none(), &pod.metadata.name));
    let first = waiting.first()?;
    let reasons = [pod_group(observed, first), report(first), channel(observed, first), domain(observed)];
    let reasons: Vec<_> = reasons.into_iter().flatten().collect();
    let names: Vec<_> = waiting.iter().filter_map(|pod| pod.metadata.name.as_deref()).collect();
    (!reasons.is_empty()).then(|| format!("not scheduled: {}: {}", join_names(&names, MAX_NAMED), reasons.join("; ")))
}

/// The `PodGroup` of the pod, with its minimum if it is the current one of the gang.
fn pod_group(observed: &Observed, pod: &SlimPod) -> Option<String> {
    let name = pod.pod_group()?;
    let of_gang = observed.gang.object.as_deref().and_then(|gang| PodGroupRef::of_gang(gang).ok().flatten());
    Some(match of_gang.filter(|group| group.name == name) {
        Some(group) => {
            let minimum = group.spec.min_count.max(1);
            format!("PodGroup {name} demands {minimum} pods")
        }
        None => format!("PodGroup {name} is not the current one of the gang"),
    })
}

/// What the scheduler reports about the pod.
fn report(pod: &SlimPod) -> Option<String> {
    let message = shortened(pod.unschedulable_message()?, MAX_REASON);
    Some(format!("the scheduler reports: {message}"))
}

/// Why no device is available for a pod with a compute domain.
fn channel(observed: &Observed, pod: &SlimPod) -> Option<String> {
    pod.unschedulable_message().filter(|message| message.contains(NO_DEVICE))?;
    let claim = PodClaimName::of_compute_domain();
    has_domain_claim(&observed.clique.spec.pod_spec)
        .then(|| format!("a node has one IMEX channel, so it runs one pod with the claim {claim}"))
}

/// Why the claims of a compute domain are not created.
fn domain(observed: &Observed) -> Option<String> {
    let name = observed.missing_domain_template.as_ref()?;
    Some(format!(
        "ResourceClaimTemplate {name} does not exist; NVIDIA's driver creates it with the next ComputeDomain, after the last pod that uses a \
         deleted one has ended"
    ))
}
