//! Converts the facts of rows to the facts that the rules require.

use grove_api_types::admission::{Facts, ReferencingSet, TopologyFacts};
use grove_api_types::configuration::{
    AutoMnnvlScope, OperatorConfiguration, SchedulerProfile, Schedulers, TopologyAwareScheduling, TopologyDomain,
    TopologyLevel,
};
use grove_api_types::scheduler::Scheduler;
use grove_api_types::topology::{Level, Topology};
use grove_test_support::rows::{RowFacts, SetReference, TOPOLOGIES};
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

/// The facts for the rules of sets.
pub(crate) fn set_facts(facts: &RowFacts) -> Facts {
    let to_topology = |(name, domains, is_terminating): &(&str, &[&str], bool)| Topology {
        name: (*name).to_owned(),
        levels: domains.iter().map(|domain| Level { domain: (*domain).into(), key: (*domain).into() }).collect(),
        is_terminating: *is_terminating,
    };
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
        topologies: TOPOLOGIES.iter().map(to_topology).collect(),
        queues: (!facts.queues_forbidden).then_some(queues),
        is_scheduled: facts.scheduled,
    }
}

/// The facts for the rules of topologies.
pub(crate) fn topology_facts(facts: &RowFacts) -> TopologyFacts {
    let referencing_set = |reference: &SetReference| ReferencingSet {
        set: reference.set.clone(),
        is_scheduled: reference.scheduled,
        domains: reference.domains.iter().cloned().collect(),
    };
    TopologyFacts {
        topology: topology(facts),
        schedulers: schedulers(facts),
        has_name_conflict: facts.name_conflict,
        is_grove_user: facts.grove_user,
        referencing_sets: facts.referencing_sets.iter().map(referencing_set).collect(),
    }
}
