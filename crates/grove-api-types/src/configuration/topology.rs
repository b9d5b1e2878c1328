//! `topologyAwareScheduling` and its alias `topology`: topology-aware scheduling and the default topology.

use super::document::Section;
use crate::field_error::FieldError;
use crate::syntax::{is_dns_subdomain, is_label_key};

const NAME: &str = "grove-topology";
const MAX_LEVELS: usize = 7;

/// Whether Grove packs pods by the topology of the cluster, and the default topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyAwareScheduling {
    /// Whether topology constraints are allowed. Default: false.
    pub enabled: bool,
    /// The name of the default topology. Default: `grove-topology`.
    pub name: String,
    /// The levels of the default topology, the broadest first. If empty, an administrator creates the topology.
    pub levels: Vec<TopologyLevel>,
    /// Whether the configuration requires a default topology that an administrator creates: it has `topology`, or names a default topology,
    /// and has no levels.
    pub requires_default: bool,
    /// Whether the configuration has the section `topology`. Only its design defines the exit code for a missing default topology.
    pub has_alias: bool,
}

impl TopologyAwareScheduling {
    /// Whether Grove creates the default topology and restores it.
    pub fn manages_default(&self) -> bool {
        self.enabled && !self.levels.is_empty()
    }

    /// Whether Grove creates and restores the topologies of this name, of both kinds.
    pub fn manages(&self, name: &str) -> bool {
        self.manages_default() && self.name == name
    }
}

/// One level of a topology.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TopologyLevel {
    /// The name of the level in constraints.
    pub domain: TopologyDomain,
    /// The node label whose value is the domain of the node.
    pub key: String,
}

/// The levels that a topology may have, the broadest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TopologyDomain {
    /// A region of a cloud.
    Region,
    /// A zone of a region.
    Zone,
    /// A data centre.
    DataCenter,
    /// A block of racks.
    Block,
    /// A rack.
    Rack,
    /// A node.
    Host,
    /// A NUMA node of a machine.
    Numa,
}

impl TopologyDomain {
    /// All domains with their names, the broadest first.
    pub const ALL: [(&'static str, Self); 7] = [
        ("region", Self::Region),
        ("zone", Self::Zone),
        ("datacenter", Self::DataCenter),
        ("block", Self::Block),
        ("rack", Self::Rack),
        ("host", Self::Host),
        ("numa", Self::Numa),
    ];

    /// The name in constraints.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Region => "region",
            Self::Zone => "zone",
            Self::DataCenter => "datacenter",
            Self::Block => "block",
            Self::Rack => "rack",
            Self::Host => "host",
            Self::Numa => "numa",
        }
    }
}

impl Default for TopologyAwareScheduling {
    fn default() -> Self {
        Self { enabled: false, name: NAME.into(), levels: vec![], requires_default: false, has_alias: false }
    }
}

impl TopologyAwareScheduling {
    pub(super) fn read(root: &Section<'_>) -> Self {
        let section = root.section("topologyAwareScheduling");
        let alias = root.section("topology");
        let enabled = merged(&alias, "enabled", section.bool("enabled"), alias.bool("enabled"));
        let name = merged(&alias, "name", section.non_empty_string("name"), alias.non_empty_string("name"));
        for named in [&section, &alias] {
            check_name(named);
        }
        let levels = levels(&section);
        let (enabled, has_alias) = (enabled.unwrap_or_default(), alias.is_present());
        let requires_default = enabled && (has_alias || name.is_some()) && levels.is_empty();
        Self { enabled, name: name.unwrap_or_else(|| NAME.into()), levels, requires_default, has_alias }
    }
}

/// The value under the name or the alias of the section; two different values are an error.
fn merged<T: PartialEq>(alias: &Section<'_>, key: &str, value: Option<T>, other: Option<T>) -> Option<T> {
    if value.is_some() && other.is_some() && value != other {
        let remedy = format!("differs from topologyAwareScheduling.{key}, which has the same meaning; set one of them");
        alias.invalid(key, remedy);
    }
    value.or(other)
}

/// The name must also be valid as the value of a label.
fn check_name(section: &Section<'_>) {
    let fits = |name: &String| name.len() <= 63 && is_dns_subdomain(name);
    if section.is_present() && section.non_empty_string("name").is_some_and(|name| !fits(&name)) {
        section.invalid("name", "must be lower-case letters, digits, '-' and '.', at most 63 of them");
    }
}

fn levels(section: &Section<'_>) -> Vec<TopologyLevel> {
    let read = section.items("levels", TopologyLevel::read);
    if read.len() > MAX_LEVELS {
        section.invalid_effective("levels", read.len(), format!("must have at most {MAX_LEVELS} items"));
    }
    let mut levels: Vec<TopologyLevel> = vec![];
    for (at, level) in read.into_iter().enumerate() {
        let Some(level) = level else { continue };
        let field = |key: &str| section.path_of(&format!("levels[{at}].{key}"));
        if levels.iter().any(|earlier| earlier.domain == level.domain) {
            let value = level.domain.as_str().into();
            section.report(FieldError::duplicate(field("domain"), &value, "each domain must be unique"));
        } else if levels.iter().any(|earlier| earlier.key == level.key) {
            section.report(FieldError::duplicate(field("key"), &level.key.into(), "each node label must be unique"));
        } else {
            levels.push(level);
        }
    }
    levels.sort();
    levels
}

impl TopologyLevel {
    fn read(section: &Section<'_>) -> Option<Self> {
        let key = section.non_empty_string("key");
        if section.non_empty_string("domain").is_none() {
            section.report(FieldError::required(
                section.path_of("domain"),
                "must be the name of a level, for example rack",
            ));
        }
        let domain = section.enum_value("domain", &TopologyDomain::ALL);
        match &key {
            None => section.report(FieldError::required(section.path_of("key"), "must be the node label of the level")),
            Some(key) if !is_label_key(key) => {
                section.invalid("key", "must be the key of a label, for example topology.kubernetes.io/zone");
            }
            Some(_) => {}
        }
        Some(Self { domain: domain?, key: key? })
    }
}
