//! The check at the start of the service: a default topology that the configuration requires and that an administrator creates must exist.

use std::fmt::Debug;

use grove_api_types::configuration::TopologyAwareScheduling;
use grove_api_types::v1alpha1::{ClusterTopology, ClusterTopologyBinding};
use grove_runtime::api_error::ApiError;
use grove_runtime::client::{REQUEST_TIMEOUT, with_timeout};
use grove_runtime::process::MissingPrerequisite;
use kube::core::ClusterResourceScope;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

/// The exit code if the configuration has the section `topology`: ENOENT, which the design of this section demands. It is also the exit code
/// for an invalid configuration.
const ENOENT: u8 = 2;
/// The exit code otherwise. The Go operator has the same one for topologies that it cannot set up.
const EXIT_CODE: u8 = 3;

/// Reads the default topology from the API server if the configuration requires one and has no levels.
///
/// # Errors
/// [`MissingPrerequisite`] if it does not exist; otherwise the error of the request.
pub(crate) async fn check(client: &Client, configuration: &TopologyAwareScheduling) -> anyhow::Result<()> {
    let TopologyAwareScheduling { enabled, name, levels, requires_default, has_alias } = configuration;
    if *enabled && !requires_default && levels.is_empty() {
        tracing::info!(name, "no default topology is configured; sets that name no topology refer to this name");
    }
    if !requires_default || exists::<ClusterTopology>(client, name).await? {
        return Ok(());
    }
    if exists::<ClusterTopologyBinding>(client, name).await? {
        return Ok(());
    }
    let message = format!(
        "the default topology does not exist: create a ClusterTopology with the name {name}, or configure \
         topologyAwareScheduling.levels, so that Grove creates it, or remove topologyAwareScheduling.name and topology"
    );
    Err(MissingPrerequisite { message, exit_code: if *has_alias { ENOENT } else { EXIT_CODE } }.into())
}

/// Whether the API server has the object. Only its metadata is decoded.
async fn exists<K>(client: &Client, name: &str) -> Result<bool, ApiError>
where
    K: Resource<DynamicType = (), Scope = ClusterResourceScope> + Clone + DeserializeOwned + Debug,
{
    let objects = Api::<K>::all(client.clone());
    let object = with_timeout(REQUEST_TIMEOUT, objects.get_metadata_opt(name)).await;
    object.map(|object| object.is_some()).map_err(|error| ApiError::from(&error))
}

#[cfg(test)]
mod tests {
    use grove_api_types::configuration::OperatorConfiguration;
    use grove_test_support::mock_api_server::{self, MockResponse, RecordedRequest};
    use serde_json::{Value, json};

    use super::*;

    /// The result, if the API server has an object at this path.
    async fn check_with(configuration: &str, existing: &'static str) -> Result<(), (u8, String)> {
        let text =
            format!("apiVersion: operator.config.grove.io/v1alpha1\nkind: OperatorConfiguration\n{configuration}");
        let configuration = OperatorConfiguration::read(&serde_saphyr::from_str::<Value>(&text).expect("YAML"))
            .expect("a configuration")
            .0
            .topology;
        let (client, _) = mock_api_server::client(move |request: &RecordedRequest| {
            if request.path.ends_with(existing) {
                MockResponse::ok(json!({ "spec": "cannot be decoded" }))
            } else {
                MockResponse::error(404, "NotFound")
            }
        });
        check(&client, &configuration).await.map_err(|error| {
            let missing = error.downcast_ref::<MissingPrerequisite>().expect("a missing prerequisite");
            (missing.exit_code, missing.message.clone())
        })
    }

    #[tokio::test]
    async fn only_a_requested_default_without_levels_must_exist() {
        let none = "/nothing";
        for configuration in [
            "topologyAwareScheduling: {enabled: true}",
            "topologyAwareScheduling: {enabled: true, name: racks, levels: [{domain: rack, key: r}]}",
            "topologyAwareScheduling: {name: racks}",
            "topology: {enabled: false, name: racks}",
        ] {
            assert_eq!(check_with(configuration, none).await, Ok(()), "{configuration}");
        }
        for (configuration, expected) in [
            ("topologyAwareScheduling: {enabled: true, name: racks}", 3),
            ("topology: {enabled: true, name: racks}", 2),
            ("topology: {enabled: true}\ntopologyAwareScheduling: {name: racks}", 2),
        ] {
            let (exit_code, error) = check_with(configuration, none).await.expect_err("a missing topology");
            assert_eq!(exit_code, expected, "{configuration}");
            assert!(error.contains("create a ClusterTopology with the name racks"), "{error}");
            assert_eq!(check_with(configuration, "clustertopologies/racks").await, Ok(()));
            assert_eq!(check_with(configuration, "clustertopologybindings/racks").await, Ok(()));
        }
        assert!(check_with("topology: {enabled: true}", none).await.is_err(), "the name has a default");
    }
}
