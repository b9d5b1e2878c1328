//! Converts the facts of rows to the facts that the rules require.

use grove_api_types::admission::{Facts, ReferencingSet, TopologyFacts};
use grove_api_types::configuration::{
    AutoMnnvlScope, OperatorConfiguration, SchedulerProfile, Schedulers, TopologyAwareScheduling, TopologyDomain,
    TopologyLevel,
};
use grove_api_types::scheduler::Scheduler;
use grove_api_types::topology::{Level, Topology};
use grove_api_types::v1alpha1::{ClusterTopology, ClusterTopologyBinding};
use grove_test_support::rows::{Row, RowFacts, SetReference, TOPOLOGIES, object};
use serde::de::DeserializeOwned;
use serde_json::Value;

fn topology(facts: &RowFacts) -> TopologyAwareScheduling {
    let level = TopologyLevel { domain: TopologyDomain::Rack, key: "example.com/rack".into() };
    let levels = if facts.default_levels { vec![level] } else { vec![] };
    TopologyAwareScheduling { enabled: !facts.topology_disabled, levels, ..OperatorConfiguration::default().topology }
}

fn schedulers(facts: &RowFacts) -> Schedulers {
    let enabled =
        Scheduler::ALL.iter().filter(|(name, _)| !facts.disabled_schedulers.iter().any(|other| other == name));
    let profiles = enabled.map(|(_, name)| SchedulerProfile { name: *name, config: Value::Null }).collect();
    let default = facts.default_scheduler.as_deref().and_then(Scheduler::named);
    Schedulers { profiles, default_profile: default.unwrap_or_default() }
}

/// The topologies that exist in all rows.
fn topologies() -> impl Iterator<Item = Topology> {
    TOPOLOGIES.iter().map(|(name, domains, is_terminating)| Topology {
        name: (*name).to_owned(),
        levels: domains.iter().map(|domain| Level { domain: (*domain).into(), key: (*domain).into() }).collect(),
        is_terminating: *is_terminating,
    })
}

/// The facts for the rules of sets.
pub(crate) fn set_facts(facts: &RowFacts) -> Facts {
    let mut queues = facts.queues.clone();
    if !facts.no_queues {
        queues.entry("default".to_owned()).or_insert(true);
    }
    Facts {
        topology: topology(facts),
        mnnvl_enabled: !facts.mnnvl_disabled,
        mnnvl_scope: if facts.multi_node_mnnvl { AutoMnnvlScope::MultiNode } else { AutoMnnvlScope::All },
        gpus_per_node: (!facts.mnnvl_disabled).then_some(8),
        schedulers: schedulers(facts),
        topologies: topologies().collect(),
        queues: (!facts.queues_forbidden).then_some(queues),
        is_scheduled: facts.scheduled,
    }
}

/// The facts for the rules of topologies. No topology of the other kind has the name.
pub(crate) fn topology_facts(facts: &RowFacts) -> TopologyFacts {
    let referencing_set = |reference: &SetReference| ReferencingSet {
        set: reference.set.clone(),
        is_scheduled: reference.scheduled,
        domains: reference.domains.iter().cloned().collect(),
    };
    TopologyFacts {
        topology: topology(facts),
        schedulers: schedulers(facts),
        other_kind: None,
        is_grove_user: facts.grove_user,
        referencing_sets: facts.referencing_sets.iter().map(referencing_set).collect(),
    }
}

/// The facts for the topology of a row.
pub(crate) fn facts_of_topology(row: &Row) -> TopologyFacts {
    TopologyFacts { other_kind: other_kind(row), ..topology_facts(&row.facts) }
}

/// The topology of the other kind: the object of the tables that the row requires, or one that exists in all rows.
fn other_kind(row: &Row) -> Option<Topology> {
    fn read<K: DeserializeOwned>(name: &str) -> K {
        serde_json::from_value(object(name)).expect("an object of the kind")
    }
    let is_binding = row.object == "binding";
    if row.facts.name_conflict {
        return Some(if is_binding {
            Topology::from(&read::<ClusterTopology>("topology"))
        } else {
            Topology::from(&read::<ClusterTopologyBinding>("binding"))
        });
    }
    let name = row.new_object()["metadata"]["name"].clone();
    topologies().find(|topology| is_binding && name == topology.name.as_str())
}
