//! The `ComputeDomain` of one replica, or of one MNNVL group in one replica.

use std::collections::BTreeMap;

use grove_api_types::compute_domain::{
    ComputeDomain, ComputeDomainChannel, ComputeDomainSpec, ResourceClaimTemplateReference,
};
use grove_api_types::labels::{self, Component};
use grove_api_types::mnnvl::RequiredDomain;
use grove_api_types::names::PodCliqueSetName;
use grove_api_types::ownership::{controller_of, controller_owner_reference};
use grove_api_types::v1alpha1::PodCliqueSet;
use grove_api_types::{events, finalizers};
use grove_controller::children::{ChildEvents, ChildKind, DesiredChild};
use grove_controller::plan::{Adopt, EventNotes, Step, Target};
use grove_runtime::rbac::{PolicyRule, Verb};
use k8s_openapi::Resource as _;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::ResourceExt;
use kube::core::ApiResource;
use serde_json::json;

use crate::lost_owner::has_finalizer;
use crate::set_owner::{SetExpansion, SetOwner};

/// The domains of all replicas.
pub(crate) struct ComputeDomains;

impl ChildKind for ComputeDomains {
    type Owner = SetOwner;
    type Object = ComputeDomain;

    const STAGE: &'static str = "compute-domains";
    const EVENTS: ChildEvents = ChildEvents {
        created_or_updated: Some(events::COMPUTE_DOMAIN_CREATED),
        create_or_update_failed: events::COMPUTE_DOMAIN_FAILED,
        deleted: None,
    };
    const EVENT_NOTES: EventNotes = EventNotes::OfCreates { replica_label: labels::SET_REPLICA };

    fn rules() -> Vec<PolicyRule> {
        let reason = "create and restore the domains of each replica, and delete those that no pod uses";
        vec![PolicyRule::for_resource::<ComputeDomain>(&Verb::MANAGE, reason)]
    }

    fn desired<'r, 'a: 'r>(
        expansion: &'r SetExpansion<'a>,
    ) -> impl Iterator<Item = DesiredChild<'r, impl FnOnce() -> ComputeDomain>> {
        expansion.domains.iter().map(move |required| {
            let build = move || compute_domain(expansion, required);
            let desired = DesiredChild::new(required.name.as_str(), build).in_failure_domain(required.replica);
            match &expansion.unavailable {
                Some(waiting) => desired.blocked_by(|| waiting.clone()),
                None => desired,
            }
        })
    }

    /// The reconciler of domains deletes them, when their last pod has ended.
    fn is_deletable(_live: &ComputeDomain, _expansion: &SetExpansion<'_>) -> bool {
        false
    }

    /// Restores the labels, the references to set and namespace, and the finalizer. Labels and finalizers of others stay. The spec is immutable.
    fn patch(live: &ComputeDomain, desired: ComputeDomain) -> Option<Step> {
        if controller_of(&live.metadata).is_none() {
            return adopt(live, &desired);
        }
        let mut metadata = serde_json::Map::new();
        let differs = |(key, value): &(&String, &String)| live.labels().get(*key) != Some(*value);
        let labels: BTreeMap<_, _> = desired.labels().iter().filter(differs).collect();
        if !labels.is_empty() {
            metadata.insert("labels".to_owned(), json!(labels));
        }
        if !has_finalizer(live) {
            let finalizers = live.finalizers().iter().map(String::as_str).chain([finalizers::COMPUTE_DOMAIN]);
            metadata.insert("finalizers".to_owned(), json!(finalizers.collect::<Vec<_>>()));
        }
        let ours = desired.owner_references();
        if !ours.iter().all(|ours| live.owner_references().contains(ours)) {
            let others = live.owner_references().iter().filter(|other| ours.iter().all(|ours| ours.uid != other.uid));
            metadata.insert("ownerReferences".to_owned(), json!(others.chain(ours).collect::<Vec<_>>()));
        }
        let change = json!({ "metadata": metadata });
        (!metadata.is_empty()).then(|| Step::merge_patch_with_optimistic_lock(live, change))
    }
}

/// Restores the reference to the set. The executor checks that the set is not terminating: an orphan deletion removes the reference, too.
fn adopt(live: &ComputeDomain, desired: &ComputeDomain) -> Option<Step> {
    let reference = desired.owner_references().first()?;
    let owner = Target {
        resource: ApiResource::erase::<PodCliqueSet>(&()),
        namespace: live.namespace(),
        name: reference.name.clone(),
        uid: Some(reference.uid.clone()),
    };
    Some(Step::Adopt(Adopt { target: Target::of(live), owner, reference: vec![reference.clone()] }))
}

/// The spec of the domain.
fn spec(required: &RequiredDomain<'_>) -> ComputeDomainSpec {
    let resource_claim_template = ResourceClaimTemplateReference { name: required.name.to_string() };
    ComputeDomainSpec { num_nodes: 0, channel: ComputeDomainChannel { resource_claim_template } }
}

/// The references to the set and to the namespace. The one to the set does not block a foreground deletion of the set. If the set is
/// deleted, Kubernetes' garbage collector only removes this reference, because the domain has another owner that exists. Otherwise it would
/// delete the domain while the pods still run.
fn owner_references(set: &PodCliqueSet, namespace_uid: Option<&str>) -> Vec<OwnerReference> {
    let not_blocking = |reference| OwnerReference { block_owner_deletion: Some(false), ..reference };
    let namespace = set.namespace().zip(namespace_uid).map(|(name, uid)| OwnerReference {
        api_version: Namespace::API_VERSION.to_owned(),
        kind: Namespace::KIND.to_owned(),
        name,
        uid: uid.to_owned(),
        ..OwnerReference::default()
    });
    controller_owner_reference(set).into_iter().map(not_blocking).chain(namespace).collect()
}

/// The desired domain. Its finalizer is in the create request, so no domain exists without it.
fn compute_domain(
    SetExpansion { set, namespace_uid, .. }: &SetExpansion<'_>,
    required: &RequiredDomain<'_>,
) -> ComputeDomain {
    let RequiredDomain { name, replica, group } = required;
    let index = replica.to_string();
    let mut labels = labels::base(&PodCliqueSetName::new(set.name_any()));
    labels.extend(labels::of([
        (labels::NAME, name.as_str()),
        (labels::COMPONENT, Component::ComputeDomain.value()),
        (labels::SET_REPLICA, index.as_str()),
    ]));
    labels.extend(labels::of(group.iter().map(|group| (labels::MNNVL_GROUP, *group))));
    let metadata = ObjectMeta {
        name: Some(name.to_string()),
        namespace: set.namespace(),
        labels: Some(labels),
        finalizers: Some(vec![finalizers::COMPUTE_DOMAIN.to_owned()]),
        owner_references: Some(owner_references(set, namespace_uid.as_deref())),
        ..ObjectMeta::default()
    };
    ComputeDomain { metadata, spec: spec(required) }
}
