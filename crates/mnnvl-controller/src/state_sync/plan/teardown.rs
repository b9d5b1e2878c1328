//! Stops a terminating domain, in the order of NVIDIA's driver: no new pod gets a claim, the daemons end, the nodes are free for other
//! domains, and then the objects are released one after the other. Each release waits until the previous objects no longer exist.

use grove_controller::plan::{Plan, Stage, Step};

use crate::state_sync::objects::{ClaimTarget, SlimNode, delete, release};
use crate::state_sync::observed::Observed;

/// The next steps. The watch events of the deleted objects trigger the reconciles that follow.
pub(super) fn plan(observed: &Observed, cliques: Stage) -> Plan {
    let workload = observed.claim_template(ClaimTarget::Workload);
    let daemon = observed.claim_template(ClaimTarget::Daemon);
    let daemon_set = observed.daemon_set.as_deref();
    let plan = Plan::new()
        .stage(cliques)
        .stage(stage("claim-template", [workload.and_then(delete)]))
        .stage(stage("daemons", [daemon_set.and_then(delete), daemon.and_then(delete)]))
        .stage(stage("nodes", observed.nodes.iter().map(|node| SlimNode::remove_label(node))))
        .stage(stage("release-claim-template", [workload.and_then(release)]));
    if workload.is_some() {
        return plan;
    }
    let plan = plan.stage(stage("release-daemons", [daemon_set.and_then(release), daemon.and_then(release)]));
    if daemon_set.is_some() || daemon.is_some() {
        return plan;
    }
    plan.stage(stage("release-domain", [release(&observed.domain)]))
}

fn stage(name: &'static str, steps: impl IntoIterator<Item = Option<Step>>) -> Stage {
    Stage::new(name, steps.into_iter().flatten())
}
