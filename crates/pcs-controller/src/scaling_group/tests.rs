//! Snapshots of a scaling group, its set and its cliques as YAML; the expected plan or status is text.

use std::collections::BTreeSet;
use std::sync::Arc;

use grove_api_types::admission;
use grove_api_types::expansion::{CurrentScale, OmittedMinima, Revision};
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueScalingGroupStatus, PodCliqueSet};
use grove_controller::children::ObservedChildren;
use grove_controller::executor::ExecutionResult;
use grove_controller::plan::{Plan, Step};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;

use super::desired::CHILD_KINDS;
use super::observed::Observed;
use crate::tests::{GROUPED, yaml};

mod claims;
mod cliques;
mod compute_domains;
mod deletion;
mod native_gangs;
mod recorded_scale;
mod status;
mod update;

const GROUP: &str = "
apiVersion: grove.io/v1alpha1
kind: PodCliqueScalingGroup
metadata:
  name: m-0-g
  namespace: prod
  uid: u-group
  generation: 4
  labels: {app.kubernetes.io/part-of: m, grove.io/podcliqueset-replica-index: '0'}
spec: {replicas: 2, minAvailable: 1, cliqueNames: [p, d]}
";

/// The plan, which does not depend on the time.
fn plan(observed: &Observed) -> Plan {
    super::plan::plan(&expanded(observed), Timestamp::UNIX_EPOCH)
}

/// The status after the plan was executed without errors.
fn status_of(observed: &Observed, now: Timestamp) -> PodCliqueScalingGroupStatus {
    super::status::status(&expanded(observed), &plan(observed), &ExecutionResult::default(), now)
}

/// The snapshot with the replica of the set, which a test may have changed.
fn expanded(observed: &Observed) -> Observed {
    let mut observed = observed.clone();
    let current = observed.revision.as_ref().map(|revision| &revision.template);
    let template = observed.set.as_ref().map(|set| set.spec.template.clone());
    if current != template.as_ref() {
        let revision = template.map(|template| Revision::new(template, OmittedMinima::default()));
        observed.revision = revision.map(Arc::new);
    }
    observed.expanded()
}

/// The group with this many replicas, with the gangs of all of them and without cliques.
fn new(replicas: i32) -> Observed {
    let set = admission::default::pod_clique_set(&yaml::<PodCliqueSet>(GROUPED));
    let revision = Revision::new(set.spec.template.clone(), OmittedMinima::default());
    let mut group: PodCliqueScalingGroup = yaml(GROUP);
    group.spec.replicas = replicas;
    let gangs = (0..replicas - 1).map(|number| format!("m-0-g-{number}")).chain(["m-0".to_owned()]);
    let observed = Observed::new(&group, Some((set, revision)), ObservedChildren::default());
    resized(Observed { active_gangs: gangs.collect::<BTreeSet<_>>(), ..observed })
}

/// The snapshot with the current scale of the group.
fn resized(observed: Observed) -> Observed {
    let recorded = super::recorded_scale::of_missing(&observed.group, &observed.children);
    let cliques = observed.children.of_kind::<PodClique>().map(AsRef::as_ref);
    let current_scale = CurrentScale::of([&observed.group], []).with_recorded(recorded).with_minima_of(cliques);
    Observed { current_scale, ..observed }
}

/// The snapshot after the plan was executed.
fn executed(mut observed: Observed) -> Observed {
    for step in plan(&observed).steps() {
        let Step::Create(create) = step else { panic!("{step} is not a create") };
        let stored = |meta: &mut ObjectMeta| meta.uid = Some(format!("u-{}", meta.name.clone().unwrap_or_default()));
        assert!(CHILD_KINDS.apply_create(create, &mut observed.children, stored), "a group has no {}", create.target);
    }
    observed
}

fn change(observed: &mut Observed, name: &str, change: impl FnOnce(&mut PodClique)) {
    let clique = observed.children.by_name_mut().get_mut(name).expect("a clique of that name");
    change(Arc::make_mut(clique));
}
