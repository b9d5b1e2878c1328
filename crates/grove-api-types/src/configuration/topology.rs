//! `topologyAwareScheduling` and its other name `topology`: the cluster's default topology.

use super::document::Section;
use super::problem::Problem;
use crate::syntax::{is_dns_subdomain, is_label_key};

const NAME: &str = "grove-topology";
const MOST_LEVELS: usize = 7;

/// Whether pods are packed by the cluster's topology, and which one is the default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyAwareScheduling {
    /// `enabled`
    pub enabled: bool,
    /// The default topology.
    pub name: String,
    /// Its levels, the broadest first; none means that somebody else creates it.
    pub levels: Vec<TopologyLevel>,
}

/// One level of a topology.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TopologyLevel {
    /// What users call it.
    pub domain: TopologyDomain,
    /// The label of nodes that says which one they are in.
    pub key: String,
}

/// The levels that a topology may have, the broadest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TopologyDomain {
    /// A cloud's region.
    Region,
    /// A zone of it.
    Zone,
    /// A data centre.
    DataCenter,
    /// A block of racks.
    Block,
    /// A rack.
    Rack,
    /// A machine.
    Host,
    /// A part of a machine's memory.
    Numa,
}

impl TopologyDomain {
    /// All of them with their words, the broadest first.
    pub const ALL: [(&'static str, Self); 7] = [
        ("region", Self::Region),
        ("zone", Self::Zone),
        ("datacenter", Self::DataCenter),
        ("block", Self::Block),
        ("rack", Self::Rack),
        ("host", Self::Host),
        ("numa", Self::Numa),
    ];

    /// The word for it.
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
        Self { enabled: false, name: NAME.into(), levels: vec![] }
    }
}

impl TopologyAwareScheduling {
    pub(super) fn read(root: &Section<'_>) -> Self {
        let section = root.section("topologyAwareScheduling");
        let alias = root.section("topology");
        let enabled = agreed(&alias, "enabled", section.flag("enabled"), alias.flag("enabled"));
        let name = agreed(&alias, "name", section.written("name"), alias.written("name"));
        for named in [&section, &alias] {
            check_name(named);
        }
        if enabled == Some(true) {
            let why = "what sets ask for is checked and kept, but no service of this version packs pods yet";
            root.warn("topologyAwareScheduling.enabled", why);
        }
        let levels = levels(&section);
        if !levels.is_empty() {
            let why = "no service of this version makes a topology of them yet; create one, and leave them out";
            root.warn("topologyAwareScheduling.levels", why);
        }
        Self { enabled: enabled.unwrap_or_default(), name: name.unwrap_or_else(|| NAME.into()), levels }
    }
}

/// The value under either name of the section; two different values are an error.
fn agreed<T: PartialEq>(alias: &Section<'_>, key: &str, value: Option<T>, other: Option<T>) -> Option<T> {
    if value.is_some() && other.is_some() && value != other {
        let remedy = format!("differs from topologyAwareScheduling.{key}, which means the same; write one of them");
        alias.invalid(key, remedy);
    }
    value.or(other)
}

/// The name becomes the value of a label, too.
fn check_name(section: &Section<'_>) {
    let fits = |name: &String| name.len() <= 63 && is_dns_subdomain(name);
    if section.is_present() && section.written("name").is_some_and(|name| !fits(&name)) {
        section.invalid("name", "must be lower-case letters, digits, '-' and '.', at most 63 of them");
    }
}

fn levels(section: &Section<'_>) -> Vec<TopologyLevel> {
    let read = section.items("levels", TopologyLevel::read);
    if read.len() > MOST_LEVELS {
        section.invalid_as("levels", read.len(), format!("must have at most {MOST_LEVELS} items"));
    }
    let mut levels: Vec<TopologyLevel> = vec![];
    for (at, level) in read.into_iter().enumerate() {
        let Some(level) = level else { continue };
        let field = |key: &str| section.path_of(&format!("levels[{at}].{key}"));
        if levels.iter().any(|earlier| earlier.domain == level.domain) {
            let value = level.domain.as_str().into();
            section.report(Problem::duplicate(field("domain"), value, "name each domain once"));
        } else if levels.iter().any(|earlier| earlier.key == level.key) {
            section.report(Problem::duplicate(field("key"), level.key.into(), "each level has a label of its own"));
        } else {
            levels.push(level);
        }
    }
    levels.sort();
    levels
}

impl TopologyLevel {
    fn read(section: &Section<'_>) -> Option<Self> {
        let key = section.written("key");
        if section.written("domain").is_none() {
            section.report(Problem::required(section.path_of("domain"), "name the level, for example rack"));
        }
        let domain = section.one_of("domain", &TopologyDomain::ALL);
        match &key {
            None => section.report(Problem::required(section.path_of("key"), "name the label of the level's nodes")),
            Some(key) if !is_label_key(key) => {
                section.invalid("key", "must be the key of a label, for example topology.kubernetes.io/zone");
            }
            Some(_) => {}
        }
        Some(Self { domain: domain?, key: key? })
    }
}
