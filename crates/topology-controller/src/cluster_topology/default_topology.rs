//! The default topology of the configuration. If the configuration has its levels, Grove creates it whenever it does not exist; the reconciler
//! restores it.

use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt};
use grove_api_types::configuration::TopologyAwareScheduling;
use grove_api_types::labels::{self, GROVE_OPERATOR, MANAGED_BY};
use grove_api_types::v1alpha1::{ClusterTopology, ClusterTopologyLevel, ClusterTopologySpec};
use grove_controller::manager::Manager;
use grove_controller::plan::{Plan, Stage, Step};
use grove_runtime::api_error::error_chain;
use grove_runtime::backoff::Backoff;
use kube::ResourceExt;

use super::context::Context;

/// The default topology that Grove manages; `None` if the configuration has no levels, or disables topology-aware scheduling.
pub(crate) fn managed(configuration: &TopologyAwareScheduling) -> Option<ClusterTopology> {
    if !configuration.manages_default() {
        return None;
    }
    let levels = configuration.levels.iter();
    let level = |level: &grove_api_types::configuration::TopologyLevel| ClusterTopologyLevel {
        domain: level.domain.as_str().to_owned(),
        key: level.key.clone(),
    };
    let mut topology =
        ClusterTopology::new(&configuration.name, ClusterTopologySpec { levels: levels.map(level).collect() });
    topology.metadata.labels = Some(labels::of([(MANAGED_BY, GROVE_OPERATOR)]));
    Some(topology)
}

/// Creates the default topology whenever it does not exist, until the service is stopped. Only the leader does. There is no object that a work
/// queue could contain, so this task waits for the deltas of the topology, for the leadership, and for the retry after a failure.
pub(crate) async fn create_whenever_missing(manager: &Manager, ctx: Arc<Context>) {
    let Some(desired) = managed(&ctx.configuration) else { return };
    let mut deletions = Box::pin(deletions(&ctx, &desired.name_any()));
    let mut leading = Box::pin(manager.leadership().started_leading());
    let mut backoff = Backoff::for_objects();
    loop {
        let is_missing = !ctx.caches.topologies.contains("", &desired.name_any());
        let retry_after = if is_missing && manager.leadership().is_held() {
            create(&ctx, &desired, &mut backoff).await
        } else {
            None
        };
        let retry = async {
            match retry_after {
                Some(delay) => tokio::time::sleep(delay).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(()) = deletions.next() => {}
            Some(()) = leading.next() => {}
            () = retry => {}
            () = manager.shutdown().cancelled() => return,
        }
    }
}

/// Creates the topology. After a failure, returns the delay of the retry: the webhook server may not run yet.
async fn create(ctx: &Context, desired: &ClusterTopology, backoff: &mut Backoff) -> Option<Duration> {
    let plan = Plan::new().stage(Stage::new("default-topology", [Step::create(desired)]));
    match ctx.executor.execute(desired, &plan).await.into_result() {
        Ok(()) => {
            *backoff = Backoff::for_objects();
            None
        }
        Err(error) => {
            let (name, delay) = (desired.name_any(), backoff.next_delay());
            tracing::warn!(name, ?delay, "cannot create the default topology: {}", error_chain(&error));
            Some(delay)
        }
    }
}

/// The deletions of the topology of this name.
fn deletions(ctx: &Context, name: &str) -> impl Stream<Item = ()> + Send + 'static + use<> {
    let name = name.to_owned();
    ctx.caches.topologies.subscribe().filter_map(move |delta| {
        let is_deleted = delta.is_delete() && delta.object().is_some_and(|topology| topology.name_any() == name);
        std::future::ready(is_deleted.then_some(()))
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use grove_api_types::configuration::OperatorConfiguration;
    use serde_json::Value;

    use super::*;

    /// The default topology of a configuration with these settings.
    fn managed_by(settings: &str) -> Option<ClusterTopology> {
        let text = format!(
            "{{apiVersion: operator.config.grove.io/v1alpha1, kind: OperatorConfiguration, \
               topologyAwareScheduling: {{name: racks, {settings}}}}}"
        );
        let file = serde_saphyr::from_str::<Value>(&text).expect("YAML");
        managed(&OperatorConfiguration::read(&file).expect("a configuration").0.topology)
    }

    #[test]
    fn the_created_default_has_the_configured_levels_and_the_label_of_grove() {
        let levels = "levels: [{domain: zone, key: z}, {domain: rack, key: r}]";
        let created = managed_by(&format!("enabled: true, {levels}"));
        expect![[r"
            apiVersion: grove.io/v1alpha1
            kind: ClusterTopology
            metadata:
              labels:
                app.kubernetes.io/managed-by: grove-operator
              name: racks
            spec:
              levels:
              - domain: zone
                key: z
              - domain: rack
                key: r
        "]]
        .assert_eq(&serde_saphyr::to_string(&created).expect("YAML"));
        assert_eq!(managed_by(&format!("enabled: false, {levels}")), None);
        assert_eq!(managed_by("enabled: true"), None, "without levels, an administrator creates the topology");
    }
}
