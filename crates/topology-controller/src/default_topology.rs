//! The default topology of the configuration. If the configuration has its levels, Grove creates it whenever it does not exist, as both kinds:
//! sets use the `ClusterTopology`, and other programs may read only bindings. The reconcilers restore both.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use grove_api_types::conditions::READY;
use grove_api_types::configuration::TopologyAwareScheduling;
use grove_api_types::events;
use grove_api_types::labels::{self, GROVE_OPERATOR, MANAGED_BY};
use grove_api_types::topology::{Level, Topology};
use grove_api_types::v1alpha1::{
    ClusterTopology, ClusterTopologyBinding, ClusterTopologyBindingSpec, ClusterTopologyLevel, ClusterTopologySpec,
    TopologyBindingLevel,
};
use grove_controller::conditions::find_status_condition;
use grove_controller::executor::Executor;
use grove_controller::manager::Manager;
use grove_controller::plan::{Plan, Stage, Step, Waiting, WarningEvent};
use grove_runtime::api_error::error_chain;
use grove_runtime::backoff::Backoff;
use grove_runtime::caches::{Cache, Delta};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Resource, ResourceExt};
use serde_json::{Map, Value, json};

use crate::informers::TopologyCaches;

/// The default topology that Grove manages; `None` if the configuration has no levels, or disables topology-aware scheduling.
pub(crate) fn managed(configuration: &TopologyAwareScheduling) -> Option<ClusterTopology> {
    if !configuration.manages_default() {
        return None;
    }
    let level = |Level { domain, key }: Level| ClusterTopologyLevel { domain, key };
    let levels = configured_levels(configuration).into_iter().map(level).collect();
    let mut topology = ClusterTopology::new(&configuration.name, ClusterTopologySpec { levels });
    topology.metadata.labels = Some(labels::of([(MANAGED_BY, GROVE_OPERATOR)]));
    Some(topology)
}

/// The configured levels.
pub(crate) fn configured_levels(configuration: &TopologyAwareScheduling) -> Vec<Level> {
    configuration.levels.iter().map(Level::from).collect()
}

/// These levels in a binding.
pub(crate) fn binding_levels(levels: Vec<Level>) -> Vec<TopologyBindingLevel> {
    levels.into_iter().map(|Level { domain, key }| TopologyBindingLevel { domain, key }).collect()
}

/// The binding of a managed default topology.
fn binding_of(topology: &ClusterTopology) -> ClusterTopologyBinding {
    let levels = binding_levels(Topology::from(topology).levels);
    let spec = ClusterTopologyBindingSpec { levels, ..ClusterTopologyBindingSpec::default() };
    let mut binding = ClusterTopologyBinding::new(&topology.name_any(), spec);
    binding.metadata.labels = Some(labels::of([(MANAGED_BY, GROVE_OPERATOR)]));
    binding
}

/// Creates the kinds of the default topology that do not exist. The binding has the levels of the live `ClusterTopology`, which may have to
/// retain other levels than the configuration. If only a binding with other levels exists, sets use its levels, so a `ClusterTopology` is not
/// created: the binding reports it.
fn creates(
    desired: &ClusterTopology,
    topology: Option<&ClusterTopology>,
    binding: Option<&ClusterTopologyBinding>,
) -> Plan {
    let live = topology.unwrap_or(desired);
    let has_other_levels = binding.is_some_and(|it| Topology::from(it).levels != Topology::from(desired).levels);
    let of_topology = (topology.is_none() && !has_other_levels).then(|| Step::create(desired));
    let of_binding = binding.is_none().then(|| Step::create(&binding_of(live)));
    Plan::new().stage(Stage::new("default-topology", of_topology)).stage(Stage::new("default-binding", of_binding))
}

/// Creates the default topology whenever it does not exist, until the service is stopped. Only the leader does. There is no object that a work
/// queue could contain, so this task waits for the deltas of the topology, for the leadership, and for the retry after a failure.
pub(crate) async fn create_whenever_missing(manager: &Manager, caches: TopologyCaches) {
    let Some(desired) = managed(&manager.config().topology) else { return };
    let (name, executor) = (desired.name_any(), manager.executor());
    let mut changes = Box::pin(stream::select(changes(&caches.topologies, &name), changes(&caches.bindings, &name)));
    let mut leading = Box::pin(manager.leadership().started_leading());
    let mut backoff = Backoff::for_objects();
    loop {
        let (topology, binding) = (caches.topologies.get("", &name), caches.bindings.get("", &name));
        let plan = creates(&desired, topology.as_deref(), binding.as_deref());
        let retry_after = if !plan.is_empty() && manager.leadership().is_held() {
            create(executor, (&desired, &plan), &mut backoff).await
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
            Some(()) = changes.next() => {}
            Some(()) = leading.next() => {}
            () = retry => {}
            () = manager.shutdown().cancelled() => return,
        }
    }
}

/// Executes the creates. After a failure, returns the delay of the retry: the webhook server may not run yet.
async fn create(
    executor: &Executor,
    (desired, plan): (&ClusterTopology, &Plan),
    backoff: &mut Backoff,
) -> Option<Duration> {
    match executor.execute(desired, plan).await.into_result() {
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

/// The deletions of the topology of this name, and the changes of its levels.
fn changes<K>(cache: &Cache<K>, name: &str) -> impl Stream<Item = ()> + Send + 'static + use<K>
where
    K: Resource + Debug + Send + Sync + 'static,
    Topology: for<'a> From<&'a K>,
{
    let name = name.to_owned();
    cache.subscribe().filter_map(move |delta| {
        let concerns_name = delta.old.as_ref().is_some_and(|old| old.name_any() == name);
        std::future::ready((concerns_name && has_other_levels(&delta)).then_some(()))
    })
}

/// Whether the levels of the topology changed, or it was created or deleted.
pub(crate) fn has_other_levels<K>(delta: &Delta<K>) -> bool
where
    Topology: for<'a> From<&'a K>,
{
    let levels = |object: &Option<Arc<K>>| object.as_ref().map(|object| Topology::from(&**object).levels);
    levels(&delta.old) != levels(&delta.new)
}

/// The stage that restores the label of the managed default and its levels, unless they are `None`, and that removes the label from a topology
/// that is no longer managed.
pub(crate) fn restoration<K>(live: &K, is_managed: bool, levels: Option<Value>) -> Stage
where
    K: Resource<DynamicType = ()>,
{
    let has_label = live.labels().get(MANAGED_BY).is_some_and(|manager| manager == GROVE_OPERATOR);
    let mut change = Map::new();
    if is_managed != has_label {
        let label = if is_managed { json!(GROVE_OPERATOR) } else { Value::Null };
        change.insert("metadata".to_owned(), json!({ "labels": { MANAGED_BY: label } }));
    }
    let success = if is_managed && !has_label {
        Some((events::DEFAULT_TOPOLOGY_ADOPTED, "Adopted"))
    } else {
        levels.as_ref().map(|_| (events::DEFAULT_TOPOLOGY_UPDATED, "Updated"))
    };
    if let Some(levels) = levels {
        change.insert("spec".to_owned(), json!({ "levels": levels }));
    }
    let patch = Some(change).filter(|change| !change.is_empty());
    let patch = patch.map(|change| Step::merge_patch_with_optimistic_lock(live, Value::Object(change)));
    let stage = Stage::new("default-topology", patch);
    match success {
        Some((reason, verb)) => stage.with_event(reason, events::DEFAULT_TOPOLOGY_UPDATE_FAILED, verb),
        None => stage.with_failure_event(events::DEFAULT_TOPOLOGY_UPDATE_FAILED),
    }
}

/// The warning that the configured levels are not applied. There is none if one of the conditions reports the same.
pub(crate) fn warning(waiting: &Waiting, conditions: &[Condition]) -> Option<WarningEvent> {
    let is_reported = find_status_condition(conditions, READY)
        .is_some_and(|condition| condition.reason == waiting.reason && condition.message == waiting.message);
    let warning = || WarningEvent { reason: events::DEFAULT_TOPOLOGY_UPDATE_FAILED, note: waiting.message.clone() };
    (!is_reported).then(warning)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use futures::FutureExt;
    use grove_api_types::configuration::OperatorConfiguration;
    use grove_runtime::caches::InformerOptions;
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
        expect![[r"
            apiVersion: grove.io/v1alpha1
            kind: ClusterTopologyBinding
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
        .assert_eq(&serde_saphyr::to_string(&created.as_ref().map(binding_of)).expect("YAML"));
    }

    #[test]
    fn both_kinds_are_created_unless_a_binding_has_other_levels() {
        let topology = |key: &str| {
            let of_key = managed_by(&format!("enabled: true, levels: [{{domain: rack, key: {key}}}]"));
            of_key.expect("a default topology")
        };
        let (desired, old) = (topology("r"), topology("old"));
        let (binding, other) = (binding_of(&desired), binding_of(&old));
        let lines = [
            (None, None),
            (Some(&desired), None),
            (None, Some(&binding)),
            (None, Some(&other)),
            (Some(&desired), Some(&other)),
        ]
        .map(|(topology, binding)| creates(&desired, topology, binding).to_string());
        expect![[r"
            default-topology: create ClusterTopology racks
            default-binding: create ClusterTopologyBinding racks

            default-binding: create ClusterTopologyBinding racks

            default-topology: create ClusterTopology racks

            nothing to do

            nothing to do
        "]]
        .assert_eq(&lines.join("\n"));
        let Plan { stages, .. } = creates(&desired, Some(&old), None);
        let Some(Step::Create(create)) = stages[0].steps.first() else { panic!("a create") };
        assert_eq!(create.object.value()["spec"]["levels"][0]["key"], "old", "the levels of the live topology");
    }

    #[test]
    fn deletions_and_other_levels_of_the_name_are_changes() {
        let (cache, writer) = Cache::with_writer(InformerOptions::<ClusterTopologyBinding>::default());
        let mut changes = Box::pin(changes(&cache, "racks"));
        let mut count = |objects: Vec<ClusterTopologyBinding>| {
            writer.replace(objects);
            std::iter::from_fn(|| changes.next().now_or_never().flatten()).count()
        };
        let binding = |name: &str, key: &str, version: &str| {
            let spec = json!({ "levels": [{ "domain": "rack", "key": key }] });
            let mut binding = ClusterTopologyBinding::new(name, serde_json::from_value(spec).expect("a spec"));
            binding.metadata.resource_version = Some(version.to_owned());
            binding
        };
        assert_eq!(count(vec![binding("racks", "r", "1"), binding("other", "r", "1")]), 0, "creates");
        assert_eq!(count(vec![binding("racks", "r", "2"), binding("other", "new", "2")]), 0, "the levels stay");
        assert_eq!(count(vec![binding("racks", "new", "3")]), 1);
        assert_eq!(count(vec![]), 1, "a deletion");
    }
}
