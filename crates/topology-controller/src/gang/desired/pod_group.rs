//! The `PodGroup` of a gang in the API of a scheduler.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::marker::PhantomData;

use grove_api_types::ownership::controller_owner_reference;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::{events, labels};
use grove_controller::children::{ChildEvents, ChildKind, DesiredChild};
use grove_controller::plan::Step;
use grove_runtime::rbac::PolicyRule;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use serde_json::json;

use crate::json::merge_patch;
use crate::pod_groups::{ApiType, DesiredPodGroup, GangExpansion, GangOwner, PodGroup, rule};

/// The `PodGroup`s of the gangs of one scheduler.
#[derive(Debug)]
pub(crate) struct PodGroups<A>(PhantomData<fn() -> A>);

impl<A> PodGroups<A> {
    pub(crate) const NEW: Self = Self(PhantomData);
}

impl<A: ApiType> ChildKind for PodGroups<A> {
    type Owner = GangOwner;
    type Object = PodGroup<A>;

    const STAGE: &'static str = "pod-groups";
    const EVENTS: ChildEvents = ChildEvents {
        created_or_updated: None,
        create_or_update_failed: events::POD_GROUP_CREATE_OR_UPDATE_FAILED,
        deleted: None,
    };

    fn rules() -> Vec<PolicyRule> {
        vec![rule::<A>()]
    }

    fn desired<'r, 'a: 'r>(
        expansion: &'r GangExpansion<'a>,
    ) -> impl Iterator<Item = DesiredChild<'r, impl FnOnce() -> PodGroup<A>>> {
        let GangExpansion { gang, scheduler, pod_group } = expansion;
        let pod_group = pod_group.as_ref().filter(|_| *scheduler == A::API.scheduler());
        let desired = pod_group.map(move |group| {
            let desired = DesiredChild::new(group.name.as_str(), move || build::<A>(gang, group));
            match group.blocked_by() {
                None => desired,
                Some(waiting) => desired.blocked_by(move || waiting.clone()),
            }
        });
        desired.into_iter()
    }

    /// Compares the labels and annotations of the gang, and the fields of the desired spec unless the API server denies changes of them.
    /// Other labels, annotations and fields stay.
    fn patch(live: &PodGroup<A>, desired: PodGroup<A>) -> Option<Step> {
        let is_retained = |key: &str| A::API.retained_labels().contains(&key) && live.labels().contains_key(key);
        let labels = desired.labels().iter().filter(|(key, _)| !is_retained(key)).collect::<BTreeMap<_, _>>();
        let mut spec = if A::API.has_immutable_spec() { json!({}) } else { desired.spec.clone() };
        if let Some(spec) = spec.as_object_mut() {
            spec.retain(|field, _| {
                !desired.retained_fields.contains(&field.as_str()) || live.spec.get(field).is_none()
            });
        }
        let live_metadata = json!({ "labels": live.labels(), "annotations": live.annotations() });
        let metadata = json!({ "labels": labels, "annotations": desired.annotations() });
        let compared = json!({ "metadata": metadata, "spec": spec });
        let change = merge_patch(&json!({ "metadata": live_metadata, "spec": live.spec }), &compared);
        change.map(|change| Step::merge_patch_with_optimistic_lock(live, change))
    }
}

/// The entries for the scheduler: each change of this key would be a patch that no scheduler needs.
fn without(entries: Option<&BTreeMap<String, String>>, key: &str) -> Option<BTreeMap<String, String>> {
    let mut entries = entries?.clone();
    entries.remove(key);
    Some(entries)
}

/// The desired `PodGroup`. If its spec is unknown, it is empty, so the live one stays.
fn build<A: ApiType>(gang: &PodGang, desired: &DesiredPodGroup) -> PodGroup<A> {
    let spec = desired.spec.clone().unwrap_or_else(|_| json!({}));
    let metadata = ObjectMeta {
        name: Some(desired.name.clone()),
        namespace: gang.metadata.namespace.clone(),
        labels: without(gang.metadata.labels.as_ref(), labels::GENERATION_HASH),
        annotations: without(gang.metadata.annotations.as_ref(), labels::SCALE).filter(|_| A::API.has_annotations()),
        owner_references: Some(controller_owner_reference(gang)),
        ..ObjectMeta::default()
    };
    PodGroup::new(metadata, spec, A::API.retained_fields(gang))
}
