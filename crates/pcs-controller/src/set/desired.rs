//! The children a set should have: one builder per kind, each returns the object and knows nothing of what exists.

use std::collections::BTreeMap;

use grove_api_types::core::PodCliqueSet;
use grove_api_types::labels::{self, Component};
use grove_api_types::names::PodCliqueSetName;
use grove_api_types::ownership::controlled_by;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

mod headless_service;
mod pod_clique;
mod pod_gang;

pub(crate) use headless_service::headless_service;
pub(crate) use pod_clique::pod_clique;
pub(crate) use pod_gang::pod_gang;

/// The metadata of a child: its name, beside the set, controlled by it.
fn metadata(set: &PodCliqueSet, name: &str, labels: BTreeMap<String, String>) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: set.namespace(),
        labels: Some(labels),
        owner_references: Some(controlled_by(set)),
        ..ObjectMeta::default()
    }
}

/// The labels every child of a replica carries, and the child's own.
fn child_labels<'a>(
    set: &PodCliqueSet,
    component: Component,
    own: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> BTreeMap<String, String> {
    let mut labels = labels::base(&PodCliqueSetName::new(set.name_any()));
    labels.insert(labels::COMPONENT.to_owned(), component.value().to_owned());
    labels.extend(labels::of(own));
    labels
}
