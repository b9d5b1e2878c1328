//! Snapshots of a set and its children as YAML; the expected plan is text.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use grove_api_types::admission::default;
use grove_api_types::expansion::{OmittedMinima, Revision};
use grove_api_types::scheduler::Scheduler;
use grove_api_types::unsupported_fields;
use grove_api_types::v1alpha1::{PodCliqueSet, PodCliqueSetStatus};
use grove_controller::children::ObservedChildren;
use grove_controller::executor::ExecutionResult;
use grove_controller::plan::{Plan, Step};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;

use super::desired::CHILD_KINDS;
use super::observed::Observed;
use crate::startup::Identity;
use crate::tests::yaml;
use crate::topology::GangTopologies;

mod annotation_versions;
mod children;
mod claim_annotations;
mod claim_reads;
mod claims;
mod compute_domains;
mod deletion;
mod foreign_metadata;
mod foreign_objects;
mod fuzzed_objects;
mod groups;
mod minima;
mod name_conflicts;
mod native_gangs;
mod packing;
mod quota;
mod recorded_scale;
mod rejections;
mod service;
mod startup;
mod status;
mod topology;
mod topology_changes;
mod update;

const SET: &str = "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: llm, namespace: prod, uid: u-set, generation: 3}
spec:
  replicas: 2
  template:
    cliques:
    - {name: prefill, labels: {team: x}, spec: {roleName: p, replicas: 2, minAvailable: 1, podSpec: {containers: [{name: c}]}}}
    - {name: decode, spec: {roleName: d, replicas: 1, podSpec: {containers: [{name: c}]}}}
";

/// The plan, which does not depend on the time.
fn plan(observed: &Observed) -> Plan {
    super::plan::plan(&expanded(observed))
}

/// The status after the plan was executed with `result`.
fn status_of(observed: &Observed, result: &ExecutionResult, now: Timestamp) -> PodCliqueSetStatus {
    super::status::status(&expanded(observed), &plan(observed), result, now)
}

/// The snapshot with the replicas of the set, which a test may have changed.
fn expanded(observed: &Observed) -> Observed {
    let (template, mut observed) = (&observed.set.spec.template, observed.clone());
    if *template != observed.revision.template {
        observed.revision = Arc::new(Revision::new(template.clone(), OmittedMinima::default()));
    }
    let Identity { account_uid, token, .. } = observed.identity.clone();
    let of_child = || Identity::new(token, &observed.set, &observed.children).account_uid;
    observed.identity.account_uid = account_uid.or_else(of_child);
    let mut observed = observed.expanded();
    if !observed.is_terminating() && observed.exceeded_limit().is_none() {
        observed.assign_revisions(&BTreeMap::new(), &BTreeMap::new());
    }
    observed
}

/// The snapshot of a set without children.
fn new(set: &str) -> Observed {
    let set: PodCliqueSet = yaml(set);
    let with_defaults = default::pod_clique_set(&set);
    let revision = Revision::new(with_defaults.spec.template.clone(), OmittedMinima::default());
    Observed {
        unsupported_fields: unsupported_fields::fields(&set, Scheduler::default(), false),
        ..Observed::new(with_defaults, revision, ObservedChildren::default())
    }
}

/// The snapshot of the default set without children.
fn without_children() -> Observed {
    new(SET)
}

/// The snapshot after the plan was executed, and the next one, which creates the token of the new account.
fn executed(mut observed: Observed) -> Observed {
    for _ in 0..2 {
        for step in plan(&observed).steps() {
            let Step::Create(create) = step else { panic!("{step} is not a create") };
            assert!(CHILD_KINDS.apply_create(create, &mut observed.children, stored), "a set has no {}", create.target);
        }
    }
    observed
}

/// Sets what the API server sets.
fn stored(meta: &mut ObjectMeta) {
    meta.uid = Some(format!("u-{}", meta.name.clone().unwrap_or_default()));
    meta.resource_version = Some("7".to_owned());
    meta.generation = Some(1);
}

fn child<K: Send + Sync + 'static>(observed: &Observed, name: &str) -> Arc<K> {
    Arc::clone(observed.children.get(name).expect("a child of that name"))
}

fn change<K: Clone + Debug + Send + Sync + 'static>(observed: &mut Observed, name: &str, change: impl FnOnce(&mut K)) {
    change(Arc::make_mut(observed.children.by_name_mut().get_mut(name).expect("a child of that name")));
}
