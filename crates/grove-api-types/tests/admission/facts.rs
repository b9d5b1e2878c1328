//! What rows know of the cluster, as the facts that the rules ask for.

use grove_api_types::admission::{Facts, ReferencingSet, TopologyFacts};
use grove_api_types::configuration::{
    OperatorConfiguration, SchedulerProfile, Schedulers, TopologyAwareScheduling, TopologyDomain, TopologyLevel,
};
use grove_api_types::scheduler::Scheduler;
use grove_api_types::topology::{Level, Topology};
use grove_test_support::rows::{Known, Refers, TOPOLOGIES};
use serde_json::Value;

fn topology(known: &Known) -> TopologyAwareScheduling {
    let level = TopologyLevel { domain: TopologyDomain::Rack, key: "example.com/rack".into() };
    let levels = if known.default_levels { vec![level] } else { vec![] };
    TopologyAwareScheduling { enabled: !known.topology_off, levels, ..OperatorConfiguration::default().topology }
}

fn schedulers(known: &Known) -> Schedulers {
    let enabled = Scheduler::ALL.iter().filter(|(name, _)| !known.without.iter().any(|other| other == name));
    let profiles = enabled.map(|(_, name)| SchedulerProfile { name: *name, config: Value::Null }).collect();
    let default = known.default_scheduler.as_deref().and_then(Scheduler::named);
    Schedulers { profiles, default_profile: default.unwrap_or_default() }
}

/// For sets.
pub(crate) fn of_sets(known: &Known) -> Facts {
    let exists = |(name, domains, is_terminating): &(&str, &[&str], bool)| Topology {
        name: (*name).to_owned(),
        levels: domains.iter().map(|domain| Level { domain: (*domain).into(), key: (*domain).into() }).collect(),
        is_terminating: *is_terminating,
    };
    let mut volcano_queues = known.queues.clone();
    if !known.no_queues {
        volcano_queues.entry("default".to_owned()).or_insert(true);
    }
    Facts {
        topology: topology(known),
        mnnvl_enabled: !known.mnnvl_off,
        schedulers: schedulers(known),
        topologies: TOPOLOGIES.iter().map(exists).collect(),
        volcano_queues,
        is_scheduled: known.scheduled,
    }
}

/// For topologies.
pub(crate) fn of_topologies(known: &Known) -> TopologyFacts {
    let referencing_set = |refers: &Refers| ReferencingSet {
        set: refers.set.clone(),
        is_scheduled: refers.scheduled,
        domains: refers.domains.iter().cloned().collect(),
    };
    TopologyFacts {
        topology: topology(known),
        schedulers: schedulers(known),
        has_name_conflict: known.taken,
        is_grove_user: known.grove,
        referencing_sets: known.referring.iter().map(referencing_set).collect(),
    }
}
