//! A `PodGang`: the pods that are scheduled together.

use std::collections::BTreeMap;

use grove_api_types::expansion::{Clique, Gang};
use grove_api_types::labels::{self, Component};
use grove_api_types::names::PodCliqueSetName;
use grove_api_types::scheduler::Scheduler;
use grove_api_types::scheduler_v1alpha1::{PodGang, PodGangSpec, PodGroup};
use grove_api_types::v1alpha1::PodCliqueSet;
use kube::ResourceExt;

use crate::children::desired::{self, metadata};

/// The desired gang of `set`, for the scheduler that its template names, otherwise for `default_scheduler`. It has no pod
/// references, because pclq-controller writes them.
pub(crate) fn pod_gang(set: &PodCliqueSet, gang: &Gang<'_, '_>, default_scheduler: Scheduler) -> PodGang {
    let own = desired::labels(
        &PodCliqueSetName::new(set.name_any()),
        Component::PodGang,
        [(labels::SCHEDULER_NAME, scheduler(set).unwrap_or(default_scheduler).name())],
    );
    let mut labels = user_entries(set.metadata.labels.as_ref());
    labels.extend(own);
    let annotations = user_entries(set.metadata.annotations.as_ref());
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

/// The scheduler of the set's pods: the first one that a clique names, if Grove knows it.
fn scheduler(set: &PodCliqueSet) -> Option<Scheduler> {
    let cliques = set.spec.template.cliques.iter();
    let mut names = cliques.filter_map(|clique| clique.spec.pod_spec.string("schedulerName"));
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

/// The labels or annotations of the set that schedulers may read: all except Grove's and kubectl's last applied configuration.
fn user_entries(of_set: Option<&BTreeMap<String, String>>) -> BTreeMap<String, String> {
    let is_user_key = |key: &str| !key.starts_with(labels::GROVE_PREFIX) && key != labels::LAST_APPLIED;
    of_set.into_iter().flatten().filter(|(key, _)| is_user_key(key)).map(|(k, v)| (k.clone(), v.clone())).collect()
}
