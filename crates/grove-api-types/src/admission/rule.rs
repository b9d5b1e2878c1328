//! The rules by name, with a description of each. Metrics count denials by these names, and test rows have them as titles. The checks
//! are in `validate/`, one file per subject.

/// Defines a closed set of rules. The doc comment of a rule is also its description for users.
macro_rules! rules {
    ($($(#[doc = $description:literal])+ $rule:ident = $name:literal,)+) => {
        /// A rule of admission.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Rule {
            $($(#[doc = $description])+ $rule,)+
        }

        impl Rule {
            /// All rules.
            pub const ALL: &'static [Self] = &[$(Self::$rule),+];

            /// The name in metrics and tests.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$rule => $name),+ }
            }

            /// The description for users.
            pub const fn description(self) -> &'static str {
                match self { $(Self::$rule => concat!($($description),+).trim_ascii()),+ }
            }
        }
    };
}

rules! {
    /// The name of a set contains no dots, because it becomes part of hostnames.
    SetName = "set-name",
    /// A set has zero or more replicas.
    SetReplicas = "set-replicas",
    /// A set expands to at most 100,000 objects, pods included.
    SetSize = "set-size",
    /// A gang has at most 8,000 pods and `PodClique`s, because its `PodGang` has an entry for each of them.
    GangSize = "gang-size",
    /// A set has at least one clique.
    Cliques = "cliques",
    /// The name of a clique is a DNS label, and unique within the set.
    CliqueName = "clique-name",
    /// The role names of cliques are unique within the set.
    CliqueRole = "clique-role",
    /// The labels and annotations of a clique have the syntax of Kubernetes.
    CliqueMetadata = "clique-metadata",
    /// The names of set, group and clique have at most 45 characters together.
    CombinedNameLength = "combined-name-length",
    /// A hostname has at most 63 characters, including the digits of the largest indices.
    HostnameLength = "hostname-length",
    /// No two generated `PodClique`s and no two autoscalers have the same name.
    NameCollision = "name-collision",
    /// After defaulting, which turns 0 into 1, the replicas of a clique are greater than 0.
    CliqueReplicas = "clique-replicas",
    /// The `minAvailable` of a clique is greater than 0 and at most its replicas.
    CliqueMinAvailable = "clique-min-available",
    /// The autoscaler of a clique has `minReplicas` of at least `minAvailable`, and `maxReplicas` of at least `minReplicas` and `replicas`.
    CliqueAutoScaling = "clique-autoscaling",
    /// With explicit startup, `startsAfter` contains names of other cliques of the set, each once.
    StartsAfter = "starts-after",
    /// With explicit startup, the dependencies of cliques are not circular.
    StartupCycle = "startup-cycle",
    /// A `PodClique` has at most 2,000 startup dependencies, and all `PodClique`s of a set together have at most 500,000.
    StartupDependencies = "startup-dependencies",
    /// All pods of a set have the same scheduler.
    OneScheduler = "one-scheduler",
    /// The scheduler is one of the configured ones.
    EnabledScheduler = "enabled-scheduler",
    /// A new set chooses neither nodes nor gangs: `nodeName`, `topologySpreadConstraints` and `schedulingGroup` are not set.
    PodPlacement = "pod-placement",
    /// The names of environment variables are valid, and unique within a container.
    Environment = "environment",
    /// The name of a scaling group is a DNS label, and unique within the set.
    GroupName = "group-name",
    /// The cliques of a scaling group exist.
    GroupCliques = "group-cliques",
    /// A clique is in at most one scaling group, once.
    OneGroup = "one-group",
    /// The replicas of a scaling group are greater than 0.
    GroupReplicas = "group-replicas",
    /// The `minAvailable` of a scaling group is greater than 0 and at most its replicas.
    GroupMinAvailable = "group-min-available",
    /// The autoscaler of a scaling group has `minReplicas` of at least `minAvailable`, and `maxReplicas` of at least `minReplicas` and `replicas`.
    GroupAutoScaling = "group-autoscaling",
    /// A clique of a scaling group has no autoscaler.
    MemberAutoScaling = "member-autoscaling",
    /// The termination delay is a duration greater than 0.
    TerminationDelay = "termination-delay",
    /// A claim template of the set has a unique name and requests devices.
    ClaimTemplate = "claim-template",
    /// The labels and annotations of a claim template of the set have the syntax and the size that Kubernetes allows.
    ClaimTemplateMetadata = "claim-template-metadata",
    /// The claim templates of the set that a clique shares fit into an annotation of its `PodClique`s.
    ClaimTemplateSize = "claim-template-size",
    /// A `resourceSharing` entry refers to a template by name, and each level refers to a template once.
    SharedTemplate = "shared-template",
    /// A set, a scaling group and a clique each share at most 64 claim templates.
    SharedTemplateCount = "shared-template-count",
    /// A `resourceSharing` entry has a namespace only if its template is outside the set.
    SharedNamespace = "shared-namespace",
    /// A filter is not empty, and its names exist at its level.
    SharingFilter = "sharing-filter",
    /// The names of generated claims and compute domains are valid, no two claims have the same name, and no pod has an own
    /// claim with the name of a generated one.
    ClaimName = "claim-name",
    /// Topology constraints and topology names require topology-aware scheduling.
    TopologyEnabled = "topology-enabled",
    /// A constraint names a domain, and `packDomain` and `pack.required` do not differ.
    TopologyDomain = "topology-domain",
    /// All topology names in a set are equal, and a set with a topology name has a constraint.
    TopologyName = "topology-name",
    /// The topology exists.
    TopologyExists = "topology-exists",
    /// The domains of constraints are levels of the topology.
    TopologyLevel = "topology-level",
    /// The constraint of a clique or scaling group is at least as narrow as that of its parent.
    TopologyHierarchy = "topology-hierarchy",
    /// The topology of a set is immutable while a pod of the set is scheduled.
    TopologyImmutable = "topology-immutable",
    /// Only Grove changes the label `grove.io/topology-name`.
    TopologyLabel = "topology-label",
    /// `grove.io/auto-mnnvl` is `enabled` or `disabled`.
    AutoMnnvl = "auto-mnnvl",
    /// `grove.io/mnnvl-group` is a DNS label or `none`.
    MnnvlGroup = "mnnvl-group",
    /// The annotations require that the configuration enables MNNVL.
    MnnvlEnabled = "mnnvl-enabled",
    /// A set uses automatic MNNVL or MNNVL groups, not both.
    MnnvlForm = "mnnvl-form",
    /// The MNNVL annotations are immutable.
    MnnvlImmutable = "mnnvl-immutable",
    /// With a scheduler that has queues, the set has exactly one queue.
    SchedulerQueue = "scheduler-queue",
    /// With a scheduler that has a default queue, the queue of the set exists and is open.
    QueueExists = "queue-exists",
    /// With a scheduler that does not support topologies, a set has no topology constraints.
    SchedulerTopology = "scheduler-topology",
    /// No container of a user has the name of the init container that Grove adds to pods that start after others.
    ReservedContainer = "reserved-container",
    /// `rollingUpdate.maxUnavailable` is a positive number or a percentage, and `progressDeadline` is greater than `minReadySeconds`. A clique of a scaling
    /// group has no `rollingUpdate`, and with `OnDelete` there is none.
    RollingUpdate = "rolling-update",
    /// The cliques of a set are immutable: an update adds and removes none.
    CliqueComposition = "clique-composition",
    /// The order of cliques is immutable if the startup type uses it.
    CliqueOrder = "clique-order",
    /// The scaling groups of a set are immutable: an update adds and removes none.
    GroupComposition = "group-composition",
    /// Immutable fields do not change.
    Immutable = "immutable",
    /// The scale subresource accepts any number of replicas with which hostnames, gangs and the set keep their limits.
    Scale = "scale",
    /// The domains and the keys of the levels of a topology are unique.
    LevelUnique = "level-unique",
    /// The key of a level is a valid label key, and its domain is a known domain.
    LevelSyntax = "level-syntax",
    /// A topology has between one and seven levels.
    Levels = "levels",
    /// No two topologies of the two kinds have the same name, except the default topology, which Grove creates as both kinds with the same
    /// levels.
    TopologyIdentity = "topology-identity",
    /// The levels of a topology are immutable while a set with scheduled pods refers to it, and domains in use are not removed.
    LevelsInUse = "levels-in-use",
    /// A binding refers to schedulers that support topologies, each once.
    SchedulerBinding = "scheduler-binding",
}
