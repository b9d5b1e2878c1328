//! Snapshots of a set and its children as YAML; the expected plan is text.

use std::sync::Arc;

use grove_api_types::admission::default;
use grove_api_types::scheduler::Scheduler;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::unsupported_fields;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet, PodCliqueSetStatus};
use grove_controller::create_backoff::BackedOffCreates;
use grove_controller::executor::ExecutionResult;
use grove_controller::expectations::PendingCreates;
use grove_controller::plan::{Create, Manifest, Plan, Step};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::jiff::Timestamp;
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::observed::Observed;
use crate::children::ByName;
use crate::children::autoscaler::Autoscaler;

mod children;
mod foreign_metadata;
mod groups;
mod name_conflicts;
mod rejections;
mod service;
mod status;

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

fn yaml<K: DeserializeOwned>(text: &str) -> K {
    let value: Value = serde_saphyr::from_str(text).expect("YAML");
    serde_json::from_value(value).expect("an object of the kind")
}

/// The plan, which does not depend on the time.
fn plan(observed: &Observed) -> Plan {
    super::plan::plan(observed, Timestamp::UNIX_EPOCH)
}

/// The status after the plan was executed with `result`.
fn status_of(observed: &Observed, result: &ExecutionResult, now: Timestamp) -> PodCliqueSetStatus {
    super::status::status(observed, &plan(observed), result, now)
}

/// The snapshot of a set without children.
fn new(set: &str) -> Observed {
    let set: PodCliqueSet = yaml(set);
    Observed {
        set: default::pod_clique_set(&set),
        unsupported_fields: unsupported_fields::fields(&set),
        default_scheduler: Scheduler::default(),
        cliques: ByName::new(),
        groups: ByName::new(),
        gangs: ByName::new(),
        services: ByName::new(),
        autoscalers: ByName::new(),
        adoptable_groups: ByName::new(),
        name_conflicts: Vec::new(),
        backed_off: BackedOffCreates::default(),
        pending_creates: PendingCreates::default(),
    }
}

/// The snapshot of the default set without children.
fn without_children() -> Observed {
    new(SET)
}

/// The snapshot after the plan was executed.
fn executed(mut observed: Observed) -> Observed {
    let plan = plan(&observed);
    for step in plan.stages.iter().flat_map(|stage| &stage.steps) {
        let Step::Create(Create { target, object }) = step else { panic!("{step} is not a create") };
        match target.resource.kind.as_str() {
            "PodClique" => insert(&mut observed.cliques, stored::<PodClique>(object)),
            "PodCliqueScalingGroup" => insert(&mut observed.groups, stored::<PodCliqueScalingGroup>(object)),
            "HorizontalPodAutoscaler" => insert(&mut observed.autoscalers, stored::<Autoscaler>(object)),
            "PodGang" => insert(&mut observed.gangs, stored::<PodGang>(object)),
            "Service" => insert(&mut observed.services, stored::<Service>(object)),
            other => panic!("a set has no {other}"),
        }
    }
    observed
}

fn stored<K: Resource + DeserializeOwned>(object: &Manifest) -> K {
    let mut object: K = serde_json::from_str(object.text()).expect("a created object is valid");
    let meta = object.meta_mut();
    meta.uid = Some(format!("u-{}", meta.name.clone().unwrap_or_default()));
    meta.resource_version = Some("7".to_owned());
    meta.generation = Some(1);
    object
}

fn insert<K: Resource>(objects: &mut ByName<K>, object: K) {
    objects.insert(object.name_any(), Arc::new(object));
}

fn change<K: Clone>(objects: &mut ByName<K>, name: &str, change: impl FnOnce(&mut K)) {
    change(Arc::make_mut(objects.get_mut(name).expect("a child of that name")));
}
