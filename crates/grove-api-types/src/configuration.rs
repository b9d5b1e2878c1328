//! The `OperatorConfiguration` file that all services share: its types, defaults, rules, and the keys it may have.
//!
//! A file written for the Go operator is read as it is. Reading reports every problem at once, each with the field, the
//! value and what to do; a key that nobody reads is a warning with its path. Reading the file from disk is not done here.

use serde_json::Value;

mod authorizer;
mod controllers;
mod debugging;
mod document;
mod leader_election;
mod logging;
mod mnnvl;
mod problem;
mod rate_limit;
mod scheduling;
mod server;
mod topology;

pub use self::authorizer::Authorizer;
pub use self::controllers::{Controller, Controllers};
pub use self::debugging::Debugging;
pub use self::leader_election::LeaderElection;
pub use self::logging::{LogFormat, LogLevel};
pub use self::mnnvl::{ComputeDomains, Network, StateSync, SyncStrategy};
pub use self::problem::Problem;
pub use self::rate_limit::RateLimit;
pub use self::scheduling::{NativeGangs, SchedulerProfile, Schedulers};
pub use self::server::{Address, CertProvisionMode, Server, WebhookServer};
pub use self::topology::{TopologyAwareScheduling, TopologyDomain, TopologyLevel};

use self::document::{Document, Section};

/// The file's `apiVersion`.
pub const API_VERSION: &str = "operator.config.grove.io/v1alpha1";
/// The file's `kind`.
pub const KIND: &str = "OperatorConfiguration";

/// What the file says, with defaults for what it does not. Each service takes the parts that it needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperatorConfiguration {
    /// `runtimeClientConnection`; absent means no limit.
    pub rate_limit: Option<RateLimit>,
    /// `leaderElection`
    pub leader_election: LeaderElection,
    /// `server`
    pub server: Server,
    /// `debugging`
    pub debugging: Debugging,
    /// `controllers`
    pub controllers: Controllers,
    /// `logLevel`
    pub log_level: LogLevel,
    /// `logFormat`
    pub log_format: LogFormat,
    /// `authorizer`
    pub authorizer: Authorizer,
    /// `topologyAwareScheduling`, also called `topology`.
    pub topology: TopologyAwareScheduling,
    /// `network`
    pub network: Network,
    /// `computeDomain`
    pub compute_domains: ComputeDomains,
    /// `nativeGangs`
    pub native_gangs: NativeGangs,
    /// `scheduler`
    pub schedulers: Schedulers,
}

impl OperatorConfiguration {
    /// Reads a file's content. The warnings beside it are about keys and values that nothing acts on.
    ///
    /// # Errors
    /// Everything that is wrong with it, in the order of the file's sections.
    pub fn read(content: &Value) -> Result<(Self, Vec<String>), Vec<Problem>> {
        let document = Document::new(content);
        let configuration = Self::of(&document.root());
        document.finish().map(|warnings| (configuration, warnings))
    }

    /// Every key that a file may have: `controllers.podClique.concurrentSyncs`, `scheduler.profiles[].name`. Below a key
    /// that ends in `.*` anything goes.
    pub fn keys() -> Vec<String> {
        let nothing = Value::Null;
        let document = Document::new(&nothing);
        Self::of(&document.root());
        document.keys()
    }

    fn of(root: &Section<'_>) -> Self {
        root.must_be("apiVersion", API_VERSION);
        root.must_be("kind", KIND);
        root.anything("metadata");
        Self {
            rate_limit: RateLimit::read(&root.section("runtimeClientConnection")),
            leader_election: LeaderElection::read(&root.section("leaderElection")),
            server: Server::read(&root.section("server")),
            debugging: Debugging::read(&root.section("debugging")),
            controllers: Controllers::read(&root.section("controllers")),
            log_level: root.one_of("logLevel", &LogLevel::ALL).unwrap_or_default(),
            log_format: root.one_of("logFormat", &LogFormat::ALL).unwrap_or_default(),
            authorizer: Authorizer::read(&root.section("authorizer")),
            topology: TopologyAwareScheduling::read(root),
            network: Network::read(&root.section("network")),
            compute_domains: ComputeDomains::read(&root.section("computeDomain")),
            native_gangs: root.one_of("nativeGangs", &NativeGangs::ALL).unwrap_or_default(),
            schedulers: Schedulers::read(&root.section("scheduler")),
        }
    }
}
