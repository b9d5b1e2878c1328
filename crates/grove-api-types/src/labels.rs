//! Label and annotation keys, the scheduling gate, and the values that are constants. Source: the wire format of `grove.io/v1alpha1`.

use std::collections::BTreeMap;

use crate::names::PodCliqueSetName;

/// Who manages the object: always [`MANAGER`].
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The set the object belongs to.
pub const PART_OF: &str = "app.kubernetes.io/part-of";
/// The object's own name.
pub const NAME: &str = "app.kubernetes.io/name";
/// What the object is to Grove, see [`Component`].
pub const COMPONENT: &str = "app.kubernetes.io/component";
/// On pods: the `PodClique` they belong to.
pub const POD_CLIQUE: &str = "grove.io/podclique";
/// On cliques and pods: the `PodGang` they are scheduled with.
pub const POD_GANG: &str = "grove.io/podgang";
/// On cliques and pods of a scaled gang: the base gang that goes before it.
pub const BASE_POD_GANG: &str = "grove.io/base-podgang";
/// On cliques, pods and claims of a scaling group: the `PodCliqueScalingGroup`.
pub const SCALING_GROUP: &str = "grove.io/podcliquescalinggroup";
/// On cliques, pods and claims of a scaling group: the replica of the group.
pub const SCALING_GROUP_REPLICA: &str = "grove.io/podcliquescalinggroup-replica-index";
/// The replica of the set the object belongs to.
pub const SET_REPLICA: &str = "grove.io/podcliqueset-replica-index";
/// On pods: the index within the clique.
pub const POD_INDEX: &str = "grove.io/podclique-pod-index";
/// On cliques and pods: the hash of the template they were made from.
pub const TEMPLATE_HASH: &str = "grove.io/pod-template-hash";
/// On gangs: the scheduler that places them.
pub const SCHEDULER_NAME: &str = "grove.io/scheduler-name";
/// On compute domains: the group of cliques that share the domain. As an annotation of sets, scaling groups and cliques:
/// the group to be in, or [`NO_MNNVL_GROUP`].
pub const MNNVL_GROUP: &str = "grove.io/mnnvl-group";
/// Value of [`MNNVL_GROUP`] that keeps a scaling group or a clique out of the group around it.
pub const NO_MNNVL_GROUP: &str = "none";

/// Annotation of sets: [`AUTO_MNNVL_ENABLED`] or [`AUTO_MNNVL_DISABLED`].
pub const AUTO_MNNVL: &str = "grove.io/auto-mnnvl";
/// Value of [`AUTO_MNNVL`]: one compute domain per replica.
pub const AUTO_MNNVL_ENABLED: &str = "enabled";
/// Value of [`AUTO_MNNVL`]: none.
pub const AUTO_MNNVL_DISABLED: &str = "disabled";
/// Annotation of sets: with the value `true`, everybody may change what Grove manages for the set.
pub const PROTECTION_DISABLED: &str = "grove.io/disable-managed-resource-protection";
/// Annotation of sets: a change of its value asks for a reconcile.
pub const RECONCILE_TRIGGER: &str = "grove.io/reconcile-trigger";
/// Annotation of gangs: the topology they are packed by. Label of sets: the topology they refer to. Grove's own; never
/// copied from a template.
pub const TOPOLOGY_NAME: &str = "grove.io/topology-name";
/// Annotation of cliques: hash of all templates of the set, written by pcs-controller for pclq-controller to report.
pub const GENERATION_HASH: &str = "grove.io/podcliqueset-generation-hash";
/// Label or annotation of sets and cliques: the queue of KAI.
pub const KAI_QUEUE: &str = "kai.scheduler/queue";
/// Annotation of sets and cliques: the queue of Volcano.
pub const VOLCANO_QUEUE: &str = "scheduling.grove.io/volcano-queue";
/// Annotation that `kubectl apply` writes; never copied to children.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Prefix of the keys that belong to Grove.
pub const GROVE_PREFIX: &str = "grove.io/";

/// The scheduling gate of pods that wait for their base gang.
pub const SCHEDULING_GATE: &str = "grove.io/podgang-pending-creation";

/// Value of [`MANAGED_BY`] on everything Grove creates.
pub const MANAGER: &str = "grove-operator";

/// What an object is to Grove: the value of [`COMPONENT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    /// The headless Service of a replica.
    HeadlessService,
    /// The Role that lets pods read their gang's pods.
    PodRole,
    /// The binding of that Role.
    PodRoleBinding,
    /// The `ServiceAccount` it is bound to.
    PodServiceAccount,
    /// The Secret with the token of that account.
    TokenSecret,
    /// A `PodCliqueScalingGroup`.
    ScalingGroup,
    /// A `HorizontalPodAutoscaler`.
    Autoscaler,
    /// A `PodGang`.
    PodGang,
    /// A `PodClique` that belongs to no scaling group, and its pods.
    SetPodClique,
    /// A `PodClique` of a scaling group, and its pods.
    GroupPodClique,
    /// A `ResourceClaim` that pods share.
    ResourceClaim,
    /// A `ComputeDomain`.
    ComputeDomain,
}

impl Component {
    /// The value as the wire format has it.
    pub fn value(self) -> &'static str {
        match self {
            Self::HeadlessService => "pcs-headless-service",
            Self::PodRole => "pod-role",
            Self::PodRoleBinding => "pod-role-binding",
            Self::PodServiceAccount => "pod-service-account",
            Self::TokenSecret => "pod-sa-token-secret",
            Self::ScalingGroup => "pcs-podcliquescalinggroup",
            Self::Autoscaler => "pcs-hpa",
            Self::PodGang => "podgang",
            Self::SetPodClique => "pcs-podclique",
            Self::GroupPodClique => "pcsg-podclique",
            Self::ResourceClaim => "resource-claim",
            Self::ComputeDomain => "pcs-computedomain",
        }
    }
}

/// Whether a label is written by Grove, not by a user's template.
pub fn is_grove_label(key: &str) -> bool {
    key.starts_with(GROVE_PREFIX) || [MANAGED_BY, PART_OF, NAME, COMPONENT].contains(&key)
}

/// The two labels that every object made for `set` carries.
pub fn base(set: &PodCliqueSetName) -> BTreeMap<String, String> {
    of([(MANAGED_BY, MANAGER), (PART_OF, set.as_str())])
}

/// A map of labels from pairs.
pub fn of<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Labels as a selector: sorted by key, joined by commas.
pub fn selector(labels: &BTreeMap<String, String>) -> String {
    labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}
