//! The `OperatorConfiguration` file that all services share. The file of each section has the types,
//! defaults and rules of that section.
//!
//! A file of the Go operator is valid without changes. The reader reports all errors at once, each with the field, the value and
//! the remedy, and a warning for each unknown key. The services read the file from disk.

use serde_json::Value;

mod authorizer;
mod controllers;
mod debugging;
mod document;
mod leader_election;
mod logging;
mod mnnvl;
mod rate_limit;
mod resource_sharing;
mod scheduling;
mod server;
mod startup;
mod topology;

pub use self::authorizer::Authorizer;
pub use self::controllers::{ControllerConfiguration, ControllersConfiguration};
pub use self::debugging::Debugging;
pub use self::leader_election::LeaderElection;
pub use self::logging::{LogFormat, LogLevel};
pub use self::mnnvl::{AutoMnnvlScope, ComputeDomains, Network, StateSync};

pub use self::rate_limit::RateLimit;
pub use self::resource_sharing::{CrossNamespaceTemplates, ResourceSharing};
pub use self::scheduling::{NativeGangs, SchedulerProfile, Schedulers};
pub use self::server::{Address, CertProvisionMode, Server, WebhookServer};
pub use self::startup::{Startup, StartupToken};
pub use self::topology::{TopologyAwareScheduling, TopologyDomain, TopologyLevel};

use self::document::{Document, Section};
use crate::field_error::FieldError;

/// The file's `apiVersion`.
pub const API_VERSION: &str = "operator.config.grove.io/v1alpha1";
/// The file's `kind`.
pub const KIND: &str = "OperatorConfiguration";

/// The content of the file, with defaults for absent keys. Each service uses the sections that it needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperatorConfiguration {
    /// `runtimeClientConnection`; `None` means no limit.
    pub rate_limit: Option<RateLimit>,
    /// `leaderElection`
    pub leader_election: LeaderElection,
    /// `server`
    pub server: Server,
    /// `debugging`
    pub debugging: Debugging,
    /// `controllers`
    pub controllers: ControllersConfiguration,
    /// `logLevel`
    pub log_level: LogLevel,
    /// `logFormat`
    pub log_format: LogFormat,
    /// `authorizer`
    pub authorizer: Authorizer,
    /// `topologyAwareScheduling`, and its alias `topology`.
    pub topology: TopologyAwareScheduling,
    /// `network`
    pub network: Network,
    /// `computeDomain`
    pub compute_domains: ComputeDomains,
    /// `nativeGangs`
    pub native_gangs: NativeGangs,
    /// `resourceSharing`
    pub resource_sharing: ResourceSharing,
    /// `scheduler`
    pub schedulers: Schedulers,
    /// `startup`
    pub startup: Startup,
}

impl OperatorConfiguration {
    /// Reads the content of the file. Returns it with warnings about unknown keys, and about values that have no effect.
    ///
    /// # Errors
    /// All errors of the content, in the order of the sections.
    pub fn read(content: &Value) -> Result<(Self, Vec<String>), Vec<FieldError>> {
        let document = Document::new(content);
        let configuration = Self::of(&document.root());
        document.finish().map(|warnings| (configuration, warnings))
    }

    /// All known keys: `controllers.podClique.concurrentSyncs`, `scheduler.profiles[].name`. A key that ends in `.*` may contain
    /// any keys.
    pub fn keys() -> Vec<String> {
        let empty = Value::Null;
        let document = Document::new(&empty);
        Self::of(&document.root());
        document.keys()
    }

    fn of(root: &Section<'_>) -> Self {
        root.must_be("apiVersion", API_VERSION);
        root.must_be("kind", KIND);
        root.value("metadata");
        Self {
            rate_limit: RateLimit::read(&root.section("runtimeClientConnection")),
            leader_election: LeaderElection::read(&root.section("leaderElection")),
            server: Server::read(&root.section("server")),
            debugging: Debugging::read(&root.section("debugging")),
            controllers: ControllersConfiguration::read(&root.section("controllers")),
            log_level: root.enum_value("logLevel", &LogLevel::ALL).unwrap_or_default(),
            log_format: root.enum_value("logFormat", &LogFormat::ALL).unwrap_or_default(),
            authorizer: Authorizer::read(&root.section("authorizer")),
            topology: TopologyAwareScheduling::read(root),
            network: Network::read(&root.section("network")),
            compute_domains: ComputeDomains::read(&root.section("computeDomain")),
            native_gangs: root.enum_value("nativeGangs", &NativeGangs::ALL).unwrap_or_default(),
            resource_sharing: ResourceSharing::read(&root.section("resourceSharing")),
            schedulers: Schedulers::read(&root.section("scheduler")),
            startup: Startup::read(&root.section("startup")),
        }
    }
}
