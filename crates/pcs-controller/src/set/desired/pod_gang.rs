//! A `PodGang`: which pods are scheduled together.

use std::collections::BTreeMap;

use grove_api_types::expansion::{Clique, Gang};
use grove_api_types::labels::{self, Component};
use grove_api_types::names::PodCliqueSetName;
use grove_api_types::scheduler::Scheduler;
use grove_api_types::scheduler_v1alpha1::{PodGang, PodGangSpec, PodGroup};
use grove_api_types::v1alpha1::PodCliqueSet;
use kube::ResourceExt;

use crate::children::desired::{self, metadata};

/// A gang of `set`, for the scheduler that it names, or `otherwise`; without references to pods: those are pclq-controller's.
pub(crate) fn pod_gang(set: &PodCliqueSet, gang: &Gang<'_, '_>, otherwise: Scheduler) -> PodGang {
    let own = desired::labels(
        &PodCliqueSetName::new(set.name_any()),
        Component::PodGang,
        [(labels::SCHEDULER_NAME, scheduler(set).unwrap_or(otherwise).name())],
    );
    let mut labels = of_others(set.metadata.labels.as_ref());
    labels.extend(own);
    let annotations = of_others(set.metadata.annotations.as_ref());
    let mut metadata = metadata(set, gang.name.as_str(), labels);
    metadata.annotations = (!annotations.is_empty()).then_some(annotations);
    let priority = &set.spec.template.priority_class_name;
    let spec = PodGangSpec {
        podgroups: gang.cliques.iter().map(|clique| pod_group(clique)).collect(),
        priority_class_name: (!priority.is_empty()).then(|| priority.clone()),
        ..PodGangSpec::default()
    };
    PodGang { metadata, spec, status: None }
}

/// Who schedules the pods of the set: the first scheduler that a clique names, if it is one that Grove knows.
fn scheduler(set: &PodCliqueSet) -> Option<Scheduler> {
    let cliques = set.spec.template.cliques.iter();
    let mut names = cliques.filter_map(|clique| clique.spec.pod_spec.text("schedulerName"));
    names.find(|name| !name.is_empty()).and_then(Scheduler::named)
}

fn pod_group(clique: &Clique<'_>) -> PodGroup {
    let spec = &clique.template.spec;
    PodGroup {
        name: clique.name.to_string(),
        pod_references: Vec::new(),
        min_replicas: spec.min_available.unwrap_or(spec.replicas),
        topology_constraint: None,
    }
}

/// Labels or annotations of the set that schedulers may want to see: not Grove's own, and not kubectl's memory.
fn of_others(of_set: Option<&BTreeMap<String, String>>) -> BTreeMap<String, String> {
    let of_others = |key: &str| !key.starts_with(labels::GROVE_PREFIX) && key != labels::LAST_APPLIED;
    of_set.into_iter().flatten().filter(|(key, _)| of_others(key)).map(|(k, v)| (k.clone(), v.clone())).collect()
}
