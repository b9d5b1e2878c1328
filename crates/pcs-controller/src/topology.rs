//! The topologies that the constraints of sets refer to: their informers and live reads (`informers`), the topology of each gang (`observed`),
//! the constraints of the gangs (`desired`), the affinities of the pods of cliques (`pack_affinities`), and the condition (`status`).

mod desired;
mod informers;
mod observed;
mod pack_affinities;
pub(crate) mod status;

pub(crate) use desired::{constrained_spec, gang_pod_groups, set_constraints};
pub(crate) use informers::{SETS_BY_TOPOLOGY, Topologies, get_live, rules};
pub(crate) use observed::{GangConstraints, GangTopologies};
pub(crate) use pack_affinities::pack_affinities;
