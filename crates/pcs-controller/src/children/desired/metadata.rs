//! The name, labels and owner reference of a child.

use std::collections::BTreeMap;

use grove_api_types::labels::{self, Component};
use grove_api_types::names::PodCliqueSetName;
use grove_api_types::ownership::controller_owner_reference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};

/// The metadata of a child in the namespace of its owner, with a controller reference to the owner.
pub(crate) fn metadata<Owner>(owner: &Owner, name: &str, labels: BTreeMap<String, String>) -> ObjectMeta
where
    Owner: Resource<DynamicType = ()>,
{
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: owner.namespace(),
        labels: Some(labels),
        owner_references: Some(controller_owner_reference(owner)),
        ..ObjectMeta::default()
    }
}

/// The labels that every child of a set carries, and `own`.
pub(crate) fn labels<'a>(
    set: &PodCliqueSetName,
    component: Component,
    own: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> BTreeMap<String, String> {
    let mut all = labels::base(set);
    all.insert(labels::COMPONENT.to_owned(), component.value().to_owned());
    all.extend(labels::of(own));
    all
}
