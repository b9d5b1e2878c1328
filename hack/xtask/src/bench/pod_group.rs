//! The `PodGroup` of the workload API of Kubernetes 1.36. The Kubernetes types that this crate uses are of a newer version without it.

use grove_api_types::pod_group;
use kube::Resource;
use kube::core::{NamespaceResourceScope, ObjectMeta};
use serde::Deserialize;
use std::borrow::Cow;

/// A `PodGroup` of which only the metadata is read.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct PodGroup {
    metadata: ObjectMeta,
}

impl Resource for PodGroup {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "PodGroup".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        pod_group::GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        pod_group::ApiVersion::V1Alpha2.name().into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "podgroups".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
