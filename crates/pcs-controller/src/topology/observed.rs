//! The topologies by which the gangs of a set are packed. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use grove_api_types::labels::TOPOLOGY_NAME;
use grove_api_types::pack_constraints::PackConstraints;
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::topology::{Topology, resolve_topology_name};
use grove_api_types::v1alpha1::PodCliqueSet;
use kube::ResourceExt;

/// The topology of a set, and the gangs that have another one.
#[derive(Clone, Debug, Default)]
pub(crate) struct GangTopologies {
    of_set: SetTopology,
    /// By the name of the gang.
    retained: BTreeMap<String, RetainedConstraints>,
    /// The live gangs with the preferred keys of the other form of constraints, by name.
    of_other_form: BTreeMap<String, Arc<PodGang>>,
}

/// The topology that the constraints of a set refer to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum SetTopology {
    /// The set has no constraints.
    #[default]
    Unconstrained,
    /// The set has constraints, and the configuration disables topology-aware scheduling.
    Disabled,
    /// The topology does not exist.
    NotFound {
        /// Its name.
        name: String,
        /// Whether it is the default topology, because the set names none.
        is_default: bool,
    },
    /// The topology exists.
    Found(PackConstraints),
}

/// What a gang with scheduled pods retains, because its annotation names another topology than its set.
#[derive(Clone, Debug)]
enum RetainedConstraints {
    /// The constraints by the topology of its annotation.
    Of(PackConstraints),
    /// The constraints of the live gang, because the topology of its annotation does not exist.
    Live(Arc<PodGang>),
}

/// Where the constraints of a gang come from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum GangConstraints<'a> {
    /// It has none.
    None,
    /// The topology does not exist, so only the names of the group configs are known.
    Untranslated,
    /// The template, by this topology.
    Of(&'a PackConstraints),
    /// The live gang.
    Live(&'a PodGang),
}

impl GangTopologies {
    /// The topologies of the gangs of `set`, which has constraints that refer to the topology `name`. `find` finds a topology by its name, and `gangs` are the live gangs, each with whether
    /// it has scheduled pods.
    pub(crate) fn new<'r>(
        (set, name): (&PodCliqueSet, &str),
        is_enabled: bool,
        find: impl Fn(&str) -> Option<Topology>,
        gangs: impl IntoIterator<Item = (&'r Arc<PodGang>, bool)>,
    ) -> Self {
        let template = &set.spec.template;
        if !is_enabled {
            return Self { of_set: SetTopology::Disabled, ..Self::default() };
        }
        let by = |topology| PackConstraints::new(template, topology);
        let of_set = find(name).map_or_else(
            || SetTopology::NotFound { name: name.to_owned(), is_default: !names_topology(set) },
            |it| SetTopology::Found(by(it)),
        );
        let is_found = matches!(of_set, SetTopology::Found(_));
        let mut topologies = Self { of_set, ..Self::default() };
        for (gang, has_scheduled_pods) in gangs {
            let Some(current) = gang.annotations().get(TOPOLOGY_NAME) else { continue };
            if has_scheduled_pods && !(current == name && is_found) {
                let topology = (current != name).then(|| find(current)).flatten();
                let of_gang = topology
                    .map_or_else(|| RetainedConstraints::Live(Arc::clone(gang)), |it| RetainedConstraints::Of(by(it)));
                topologies.retained.insert(gang.name_any(), of_gang);
            }
            topologies.add_if_of_other_form(gang);
        }
        topologies
    }

    fn add_if_of_other_form(&mut self, gang: &Arc<PodGang>) {
        let GangConstraints::Of(constraints) = self.of_gang(&gang.name_any()) else { return };
        let current = gang.annotations().get(TOPOLOGY_NAME).map(String::as_str);
        if current == Some(constraints.topology_name()) && constraints.has_preferred_keys_of_other_form(&gang.spec) {
            self.of_other_form.insert(gang.name_any(), Arc::clone(gang));
        }
    }

    /// Replaces the state of a topology that the cache lacks and the API server has.
    pub(crate) fn found<'r>(
        &mut self,
        set: &PodCliqueSet,
        topology: Topology,
        gangs: impl IntoIterator<Item = &'r Arc<PodGang>>,
    ) {
        self.of_set = SetTopology::Found(PackConstraints::new(&set.spec.template, topology));
        gangs.into_iter().for_each(|gang| self.add_if_of_other_form(gang));
    }

    /// The gang has a bound pod, so it retains its constraints if its annotation names another topology than the set.
    pub(crate) fn retain(&mut self, gang: &Arc<PodGang>) {
        let of_set = match &self.of_set {
            SetTopology::Found(constraints) => constraints.topology_name(),
            SetTopology::NotFound { .. } => "",
            SetTopology::Unconstrained | SetTopology::Disabled => return,
        };
        if gang.annotations().get(TOPOLOGY_NAME).is_some_and(|current| current != of_set) {
            let live = || RetainedConstraints::Live(Arc::clone(gang));
            self.retained.entry(gang.name_any()).or_insert_with(live);
        }
    }

    /// The topology of the set.
    pub(crate) fn of_set(&self) -> &SetTopology {
        &self.of_set
    }

    /// The name of the topology if it was not found.
    pub(crate) fn not_found(&self) -> Option<&str> {
        if let SetTopology::NotFound { name, .. } = &self.of_set { Some(name) } else { None }
    }

    /// Whether the gang has another topology than its set.
    pub(crate) fn is_retained(&self, gang: &str) -> bool {
        self.retained.contains_key(gang)
    }

    /// The gangs that have another topology than their set, and its name.
    pub(crate) fn retained(&self) -> impl Iterator<Item = (&str, &str)> {
        self.retained.iter().map(|(gang, retained)| {
            let topology = match retained {
                RetainedConstraints::Of(constraints) => constraints.topology_name(),
                RetainedConstraints::Live(live) => live.annotations().get(TOPOLOGY_NAME).map_or("", String::as_str),
            };
            (gang.as_str(), topology)
        })
    }

    /// The live gang, if it has the preferred keys of the other form of constraints.
    pub(crate) fn of_other_form(&self, gang: &str) -> Option<&PodGang> {
        self.of_other_form.get(gang).map(|live| &**live)
    }

    /// Where the constraints of a gang come from.
    pub(crate) fn of_gang(&self, gang: &str) -> GangConstraints<'_> {
        match (self.retained.get(gang), &self.of_set) {
            (Some(RetainedConstraints::Live(live)), _) => GangConstraints::Live(live),
            (Some(RetainedConstraints::Of(constraints)), _) | (None, SetTopology::Found(constraints)) => {
                GangConstraints::Of(constraints)
            }
            (None, SetTopology::NotFound { .. }) => GangConstraints::Untranslated,
            (None, SetTopology::Unconstrained | SetTopology::Disabled) => GangConstraints::None,
        }
    }
}

/// Whether the set or its label names a topology.
fn names_topology(set: &PodCliqueSet) -> bool {
    resolve_topology_name(set, "").is_some_and(|name| !name.is_empty())
}
