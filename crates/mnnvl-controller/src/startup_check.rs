//! The check at the start of the process: with automatic MNNVL, the API server must serve compute domains.

use grove_api_types::compute_domain::{CRD, GROUP, VERSION};
use grove_runtime::api_error::ApiError;
use grove_runtime::backoff::Backoff;
use grove_runtime::client::{REQUEST_TIMEOUT, with_timeout};
use grove_runtime::process::MissingPrerequisite;
use grove_runtime::runtime::Runtime;
use kube::Client;
use tokio::time::sleep;

/// The exit code of the Go operator for the same case.
const EXIT_CODE: u8 = 7;

/// Waits until the API server answers, and returns whether the process was stopped before.
///
/// # Errors
/// [`MissingPrerequisite`] if the API server does not serve compute domains and the configuration enables automatic MNNVL.
pub(crate) async fn run(runtime: &Runtime) -> anyhow::Result<bool> {
    if !runtime.config().network.auto_mnnvl_enabled {
        return Ok(false);
    }
    let (client, mut backoff) = (runtime.client(), Backoff::for_watches());
    loop {
        match is_served(&client).await {
            Ok(true) => return Ok(false),
            Ok(false) => return Err(missing_crd().into()),
            Err(error) => tracing::warn!(%error, "cannot read which kinds the API server serves"),
        }
        tokio::select! {
            () = runtime.shutdown().cancelled() => return Ok(true),
            () = sleep(backoff.next_delay()) => {}
        }
    }
}

/// Whether the API server serves compute domains.
async fn is_served(client: &Client) -> Result<bool, ApiError> {
    let version = [GROUP, VERSION].join("/");
    let resources = with_timeout(REQUEST_TIMEOUT, client.list_api_group_resources(&version)).await;
    match resources.map_err(|error| ApiError::from(&error)) {
        Ok(list) => Ok(list.resources.iter().any(|resource| resource.kind == "ComputeDomain")),
        Err(error) if error.code == 404 => Ok(false),
        Err(error) => Err(error),
    }
}

fn missing_crd() -> MissingPrerequisite {
    let message = format!(
        "network.autoMNNVLEnabled is true, and the API server does not serve {CRD}; install NVIDIA's DRA driver with this CRD, or set \
         network.autoMNNVLEnabled to false"
    );
    MissingPrerequisite { message, exit_code: EXIT_CODE }
}

#[cfg(test)]
mod tests {
    use grove_api_types::configuration::OperatorConfiguration;
    use grove_runtime::client::Clients;
    use grove_test_support::mock_api_server::{self, MockResponse, RecordedRequest};
    use serde_json::json;

    use super::*;

    /// A runtime. Its API server serves these kinds of the group, or answers with an error.
    fn runtime(enabled: bool, answer: Result<&'static [&'static str], u16>) -> Runtime {
        let (client, _) = mock_api_server::client(move |request: &RecordedRequest| {
            assert_eq!(request.path, "/apis/resource.nvidia.com/v1beta1");
            let resource = |kind: &&str| json!({ "name": "x", "singularName": "x", "kind": kind, "namespaced": true, "verbs": [] });
            match answer {
                Ok(kinds) => MockResponse::ok(json!({ "groupVersion": "resource.nvidia.com/v1beta1",
                    "resources": kinds.iter().map(resource).collect::<Vec<_>>() })),
                Err(code) => MockResponse::error(code, "InternalError"),
            }
        });
        let mut config = OperatorConfiguration::default();
        config.network.auto_mnnvl_enabled = enabled;
        Runtime::from_clients("test", Clients { requests: client.clone(), watches: client }, config).expect("a runtime")
    }

    #[tokio::test]
    async fn only_an_enabled_feature_needs_the_kind() {
        let error = run(&runtime(true, Err(404))).await.expect_err("the group is not served");
        let missing = error.downcast_ref::<MissingPrerequisite>().expect("a missing prerequisite");
        assert_eq!(missing.exit_code, 7);
        assert!(missing.message.contains("computedomains.resource.nvidia.com"), "{}", missing.message);
        assert!(run(&runtime(true, Ok(&["Other"]))).await.is_err());
        assert!(!run(&runtime(true, Ok(&["Other", "ComputeDomain"]))).await.expect("the kind is served"));
        assert!(!run(&runtime(false, Err(404))).await.expect("the feature is disabled"));
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_does_not_end_the_process() {
        let runtime = runtime(true, Err(503));
        let stop = async {
            sleep(std::time::Duration::from_mins(5)).await;
            runtime.shutdown().cancel();
        };
        let (is_stopped, ()) = tokio::join!(run(&runtime), stop);
        assert!(is_stopped.expect("no error"));
    }
}
