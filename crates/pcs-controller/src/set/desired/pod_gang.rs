//! A `PodGang`: the pods that are scheduled together.

use std::collections::BTreeMap;

use grove_api_types::events;
use grove_api_types::expansion::{Gang, RecordedScale, SetReplica};
use grove_api_types::labels::{self, Component, GROVE_PREFIX};
use grove_api_types::names::PodCliqueSetName;
use grove_api_types::pod_group::PodGroupRef;
use grove_api_types::scheduler::Scheduler;
use grove_api_types::scheduler_v1alpha1::{GangPodGroup, NamespacedName, PodGang, PodGangSpec};
use grove_controller::children::{ChildEvents, ChildKind, DesiredChild};
use grove_controller::plan::Step;
use grove_controller::predicates;
use grove_runtime::caches::Delta;
use grove_runtime::rbac::{PolicyRule, Verb};
use kube::ResourceExt;

use crate::children::desired::{self, metadata};
use crate::children::drift::{change_with_owners, difference, retain_equal_values, retain_keys};
use crate::set::observed::{SetExpansion, SetOwner};
use crate::topology::{gang_pod_groups, set_constraints};

/// The base gang of each replica, and the scaled gangs of its scaling groups.
pub(crate) struct PodGangs;

impl ChildKind for PodGangs {
    type Owner = SetOwner;
    type Object = PodGang;

    const STAGE: &'static str = "gangs";
    const EVENTS: ChildEvents = ChildEvents {
        created_or_updated: Some(events::POD_GANG_CREATE_OR_UPDATE_SUCCESSFUL),
        create_or_update_failed: events::POD_GANG_CREATE_OR_UPDATE_FAILED,
        deleted: Some((events::POD_GANG_DELETE_SUCCESSFUL, events::POD_GANG_DELETE_FAILED)),
    };

    fn rules() -> Vec<PolicyRule> {
        vec![PolicyRule::for_resource::<PodGang>(&Verb::MANAGE, "create, patch and delete the gangs of each replica")]
    }

    fn desired<'r, 'a: 'r>(
        expansion: &'r SetExpansion<'a>,
    ) -> impl Iterator<Item = DesiredChild<'r, impl FnOnce() -> PodGang>> {
        expansion.replicas.iter().flat_map(move |replica| {
            replica.gangs().into_iter().map(move |gang| {
                let name = gang.name.as_str();
                let build = move || pod_gang(expansion, replica, &gang);
                let desired = DesiredChild::new(name, build).in_failure_domain(replica.index);
                expansion.turns.apply_to(replica.index, desired)
            })
        })
    }

    /// Compares the labels, the annotations, the owner reference, and the whole spec except `podReferences`. Retained are
    /// the pod references, which pclq-controller writes, labels and annotations of Grove that another service has set, and
    /// other owner references. The patch has the observed resource version as its precondition.
    fn patch(live: &PodGang, mut desired: PodGang) -> Option<Step> {
        retain_references(live.spec.podgroups.iter(), &mut desired.spec.podgroups);
        retain_grove_keys(live, &mut desired);
        retain_equal_values(live.annotations(), desired.annotations_mut());
        let change = change_with_owners(live, &desired, difference(live, &desired, |gang| &gang.spec));
        change.map(|change| Step::merge_patch_with_optimistic_lock(live, change))
    }

    /// A change of only the pod references is visible only in the status of the gang.
    fn needs_reconcile(delta: &Delta<PodGang>) -> bool {
        let Delta { old: Some(old), new: Some(new) } = delta else { return predicates::needs_reconcile(delta) };
        without_references(old) != without_references(new)
    }
}

/// The fields of a gang that need a reconcile when they change.
fn without_references(gang: &PodGang) -> impl PartialEq {
    let PodGang { metadata, spec, status: _ } = gang;
    let PodGangSpec {
        podgroups,
        topology_constraint,
        topology_constraint_group_configs,
        priority_class_name,
        reuse_reservation_ref,
    } = spec;
    let groups = podgroups.iter().map(|group| {
        let GangPodGroup { name, pod_references: _, min_replicas, topology_constraint } = group;
        (name, min_replicas, topology_constraint)
    });
    let groups: Vec<_> = groups.collect();
    let constraints = (topology_constraint, topology_constraint_group_configs);
    let of_metadata =
        (&metadata.labels, &metadata.annotations, &metadata.owner_references, &metadata.deletion_timestamp);
    (groups, constraints, priority_class_name, reuse_reservation_ref, of_metadata)
}

/// Retains the references of the live pod groups, by the names of the groups. It reads each live pod group once.
fn retain_references<'a>(live: impl Iterator<Item = &'a GangPodGroup>, desired: &mut [GangPodGroup]) {
    let mut by_name: BTreeMap<&str, &[NamespacedName]> = BTreeMap::new();
    for group in live {
        by_name.entry(&group.name).or_insert(&group.pod_references);
    }
    for group in desired {
        let references = by_name.get(group.name.as_str()).copied().unwrap_or_default();
        group.pod_references = references.to_vec();
    }
}

/// Retains labels and annotations of Grove that another service has set on the gang. Those of its `PodGroup` and of its topology are
/// pcs-controller's; those of its `PodGroup` and its scale stay, too, if a newer pcs-controller has recorded them.
fn retain_grove_keys(live: &PodGang, desired: &mut PodGang) {
    let is_of_later_version = PodGroupRef::of_gang(live).is_err_and(|error| error.is_of_later_version());
    let is_own = |key: &str| match key {
        labels::POD_GROUP | labels::POD_GROUP_SPEC => !is_of_later_version,
        labels::SCALE | labels::TOPOLOGY_NAME => true,
        _ => false,
    };
    let is_grove_key = |key: &str| key.starts_with(GROVE_PREFIX) && !is_own(key);
    retain_keys(live.labels(), desired.labels_mut(), is_grove_key);
    retain_keys(live.annotations(), desired.annotations_mut(), is_grove_key);
    if let Some(record) = live.annotations().get(labels::SCALE)
        && RecordedScale::later_version(record).is_some()
    {
        desired.annotations_mut().insert(labels::SCALE.to_owned(), record.clone());
    }
}

/// The desired gang of a set, for the scheduler that its template names, otherwise for the default scheduler. It has no pod
/// references, because pclq-controller writes them.
fn pod_gang(expansion: &SetExpansion<'_>, replica: &SetReplica, gang: &Gang<'_>) -> PodGang {
    let (set, default_scheduler) = (expansion.set, expansion.default_scheduler);
    let scheduler = Scheduler::of_set(set).unwrap_or(default_scheduler);
    let current = replica.revision.hashes().generation_hash.as_str();
    let revision = expansion.gang_decisions.earlier_revision(gang.name.as_str()).unwrap_or(current);
    let own = [(labels::SCHEDULER_NAME, scheduler.name()), (labels::GENERATION_HASH, revision)];
    let own = desired::labels(&PodCliqueSetName::new(set.name_any()), Component::PodGang, own);
    let mut labels = user_entries(set.metadata.labels.as_ref());
    labels.extend(own);
    let mut annotations = user_entries(set.metadata.annotations.as_ref());
    annotations.extend(labels::of(scheduler.gang_annotations().iter().copied().chain(scheduler.queue_of_cliques(set))));
    annotations
        .extend(expansion.gang_decisions.of_gang(gang.name.as_str()).map(PodGroupRef::annotations).unwrap_or_default());
    annotations.extend(recorded_scale(expansion, replica, gang).map(|scale| (labels::SCALE.to_owned(), scale)));
    let mut metadata = metadata(set, gang.name.as_str(), labels);
    metadata.annotations = (!annotations.is_empty()).then_some(annotations);
    let priority = &replica.revision.template.priority_class_name;
    let spec = PodGangSpec {
        podgroups: gang_pod_groups(gang),
        priority_class_name: (!priority.is_empty()).then(|| priority.clone()),
        ..PodGangSpec::default()
    };
    let mut desired = PodGang { metadata, spec, status: None };
    set_constraints(&mut desired, expansion.topologies, replica, gang);
    desired
}

/// The annotation of a base gang with the scale of its replica; `None` if the scale is that of the template.
fn recorded_scale(expansion: &SetExpansion<'_>, replica: &SetReplica, gang: &Gang<'_>) -> Option<String> {
    if *gang.name != replica.base_gang {
        return None;
    }
    let recorded = RecordedScale::of_replica(replica, expansion.recorded_scale);
    recorded.map(|recorded| recorded.encode())
}

/// The labels or annotations of the set that schedulers may read: all except Grove's and kubectl's last applied configuration.
fn user_entries(of_set: Option<&BTreeMap<String, String>>) -> BTreeMap<String, String> {
    let is_user_key = |key: &str| !key.starts_with(GROVE_PREFIX) && key != labels::LAST_APPLIED;
    of_set.into_iter().flatten().filter(|(key, _)| is_user_key(key)).map(|(k, v)| (k.clone(), v.clone())).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use super::*;

    fn group(number: usize, references: usize) -> GangPodGroup {
        let reference = NamespacedName { namespace: "prod".to_owned(), name: format!("pod-{number}") };
        let pod_references = vec![reference; references];
        GangPodGroup { name: format!("g-{number}"), pod_references, min_replicas: 1, topology_constraint: None }
    }

    #[test]
    fn the_references_of_live_pod_groups_are_retained_by_name_with_one_pass() {
        let live: Vec<_> = (0..1000).map(|number| group(number, 2)).collect();
        let mut desired: Vec<_> = (500..1500).rev().map(|number| group(number, 0)).collect();
        let reads = Cell::new(0);
        retain_references(live.iter().inspect(|_| reads.set(reads.get() + 1)), &mut desired);
        assert_eq!(reads.get(), 1000);
        let expected = (500..1500).rev().map(|number| group(number, if number < 1000 { 2 } else { 0 }));
        assert_eq!(desired, expected.collect::<Vec<_>>());
    }

    #[test]
    fn a_change_of_only_the_pod_references_needs_no_reconcile() {
        let gang = |groups: &[GangPodGroup]| {
            let spec = PodGangSpec { podgroups: groups.to_vec(), ..PodGangSpec::default() };
            Some(Arc::new(PodGang::new("llm-0", spec)))
        };
        let needs_reconcile = |new: &[GangPodGroup]| {
            PodGangs::needs_reconcile(&Delta { old: gang(&[group(0, 0), group(1, 0)]), new: gang(new) })
        };
        assert!(!needs_reconcile(&[group(0, 0), group(1, 1)]));
        assert!(needs_reconcile(&[group(1, 0), group(0, 0)]), "another order");
        assert!(needs_reconcile(&[group(0, 0), GangPodGroup { min_replicas: 2, ..group(1, 0) }]), "another minimum");
    }
}
