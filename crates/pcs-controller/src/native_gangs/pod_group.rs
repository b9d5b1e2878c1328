//! A `PodGroup` of the workload API. pcs-controller reads only whether the API server serves the kind, and topology-controller manages the
//! objects.

use std::borrow::Cow;

use grove_api_types::pod_group::GROUP;
use grove_controller::workload_api;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::NamespaceResourceScope;
use serde::Deserialize;

/// The metadata of a `PodGroup`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct SlimPodGroup {
    #[serde(default)]
    metadata: ObjectMeta,
}

/// Changes the version of the workload API. See [`InformerOptions::with_other_version`](grove_runtime::caches::InformerOptions).
pub(super) fn use_other_version() -> String {
    workload_api::use_other_version();
    SlimPodGroup::url_path(&(), None)
}

impl Resource for SlimPodGroup {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "PodGroup".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        workload_api::version().name().into()
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
