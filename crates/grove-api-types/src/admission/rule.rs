//! The rules by name, and what each of them says. The names count refusals in metrics and title the rows of the tests.

/// A closed set of rules: what each says is written once, for the documentation of the code and for that of users.
macro_rules! rules {
    ($($(#[doc = $says:literal])+ $rule:ident = $name:literal,)+) => {
        /// A rule of admission.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Rule {
            $($(#[doc = $says])+ $rule,)+
        }

        impl Rule {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$rule),+];

            /// The name, as metrics and tests have it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$rule => $name),+ }
            }

            /// What the rule says.
            pub const fn says(self) -> &'static str {
                match self { $(Self::$rule => concat!($($says),+).trim_ascii()),+ }
            }
        }
    };
}

rules! {
    /// The name of a set has no dots: it becomes part of hostnames.
    SetName = "set-name",
    /// A set has zero or more replicas.
    SetReplicas = "set-replicas",
    /// A set has at most 100,000 objects, its pods and all that is made for them.
    SetSize = "set-size",
    /// A set has at least one clique.
    Cliques = "cliques",
    /// The name of a clique is a DNS label of its own.
    CliqueName = "clique-name",
    /// The roles of cliques differ.
    CliqueRole = "clique-role",
    /// The labels and annotations of a clique have Kubernetes' syntax.
    CliqueMetadata = "clique-metadata",
    /// The names of set, group and clique have 45 letters together.
    CombinedNameLength = "combined-name-length",
    /// A hostname has 63 letters, the digits of the largest indices included.
    HostnameLength = "hostname-length",
    /// No two cliques become `PodClique`s of one name, and no two autoscalers share one.
    NameClash = "name-clash",
    /// A clique begins with at least one pod.
    CliqueReplicas = "clique-replicas",
    /// Of a clique at least one pod and at most all must be available.
    CliqueMinAvailable = "clique-min-available",
    /// An autoscaler of a clique stays at or above `minAvailable`, and reaches at least `replicas`.
    CliqueAutoScaling = "clique-autoscaling",
    /// With explicit startup, `startsAfter` names other cliques of the set, each once.
    StartsAfter = "starts-after",
    /// With explicit startup, no clique waits for itself by way of others.
    StartupCycle = "startup-cycle",
    /// All pods of a set have one scheduler.
    OneScheduler = "one-scheduler",
    /// The scheduler is one of the configured ones.
    EnabledScheduler = "enabled-scheduler",
    /// A new set leaves it to the scheduler where its pods go.
    PodPlacement = "pod-placement",
    /// Environment variables have valid names, each once per container.
    Environment = "environment",
    /// The name of a scaling group is a DNS label of its own.
    GroupName = "group-name",
    /// The cliques of a scaling group exist.
    GroupCliques = "group-cliques",
    /// A clique is in one scaling group, once.
    OneGroup = "one-group",
    /// A scaling group begins with at least one replica.
    GroupReplicas = "group-replicas",
    /// Of a scaling group at least one replica and at most all must be available.
    GroupMinAvailable = "group-min-available",
    /// An autoscaler of a scaling group stays at or above `minAvailable`, and reaches at least `replicas`.
    GroupAutoScaling = "group-autoscaling",
    /// A clique of a scaling group has no autoscaler of its own.
    MemberAutoScaling = "member-autoscaling",
    /// The termination delay is a duration above zero.
    TerminationDelay = "termination-delay",
    /// A template of claims within the set has a name of its own, and asks for devices.
    ClaimTemplate = "claim-template",
    /// What is shared has the name of a template, each once per level.
    SharedTemplate = "shared-template",
    /// A namespace is given only for templates outside the set.
    SharedNamespace = "shared-namespace",
    /// A filter names something, and what it names exists at its level.
    SharingFilter = "sharing-filter",
    /// The names of claims and of fabrics are valid, no two claims have one name, and no claim of a pod has that of one that
    /// Grove adds.
    ClaimName = "claim-name",
    /// Constraints, and names of topologies, need topology-aware scheduling.
    TopologyEnabled = "topology-enabled",
    /// A constraint names a domain, and not two for the same.
    TopologyDomain = "topology-domain",
    /// All names of a topology in one set agree, and belong to a constraint.
    TopologyName = "topology-name",
    /// The topology exists.
    TopologyExists = "topology-exists",
    /// The domains of constraints are levels of the topology.
    TopologyLevel = "topology-level",
    /// A clique or scaling group is packed at least as narrowly as what it is part of.
    TopologyHierarchy = "topology-hierarchy",
    /// The topology of a set stays while any of its pods is scheduled.
    TopologyFrozen = "topology-frozen",
    /// The label with the topology is Grove's.
    TopologyLabel = "topology-label",
    /// `grove.io/auto-mnnvl` is `enabled` or `disabled`.
    AutoMnnvl = "auto-mnnvl",
    /// `grove.io/mnnvl-group` is a DNS label or `none`.
    MnnvlGroup = "mnnvl-group",
    /// Fabrics need the feature to be on.
    MnnvlEnabled = "mnnvl-enabled",
    /// A set has automatic fabrics or groups, not both.
    MnnvlForm = "mnnvl-form",
    /// The annotations about fabrics stay as they were created.
    MnnvlImmutable = "mnnvl-immutable",
    /// With KAI, the set has exactly one queue.
    KaiQueue = "kai-queue",
    /// With Volcano, the set has one queue, which exists and is open.
    VolcanoQueue = "volcano-queue",
    /// Volcano and LPX take no topology constraints.
    SchedulerTopology = "scheduler-topology",
    /// The cliques of a set stay the same.
    CliqueComposition = "clique-composition",
    /// The order of cliques stays where startup follows it.
    CliqueOrder = "clique-order",
    /// The scaling groups of a set stay the same.
    GroupComposition = "group-composition",
    /// What is decided at creation stays.
    Immutable = "immutable",
    /// What is scaled has no replicas, or at least `minAvailable` of them, names that fit, and a set that stays small enough.
    Scale = "scale",
    /// Each level of a topology has a domain and a key of its own.
    LevelUnique = "level-unique",
    /// The key of a level is the key of a label, and its domain is known.
    LevelSyntax = "level-syntax",
    /// A topology has between one and seven levels.
    Levels = "levels",
    /// Two topologies do not share a name, and the default one that Grove keeps is created by Grove.
    TopologyIdentity = "topology-identity",
    /// The levels of a topology stay while pods are packed by them, and domains in use stay.
    LevelsInUse = "levels-in-use",
    /// A binding names schedulers that pack by topology, each once.
    SchedulerBinding = "scheduler-binding",
}
