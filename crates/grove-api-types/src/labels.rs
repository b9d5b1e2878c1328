//! The keys of labels and annotations, their constant values, and the scheduling gate. They are those of the Go operator.

use std::collections::BTreeMap;

use crate::names::PodCliqueSetName;

/// The manager of the object: always [`GROVE_OPERATOR`].
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The set that the object belongs to.
pub const PART_OF: &str = "app.kubernetes.io/part-of";
/// The name of the object.
pub const NAME: &str = "app.kubernetes.io/name";
/// The component of the object, see [`Component`].
pub const COMPONENT: &str = "app.kubernetes.io/component";
/// On pods: the `PodClique` of the pod.
pub const POD_CLIQUE: &str = "grove.io/podclique";
/// On cliques and pods: the `PodGang` of the pods.
pub const POD_GANG: &str = "grove.io/podgang";
/// On cliques and pods of a scaled gang: the base gang, which is scheduled first.
pub const BASE_POD_GANG: &str = "grove.io/base-podgang";
/// On cliques, pods and claims of a scaling group: the `PodCliqueScalingGroup`.
pub const SCALING_GROUP: &str = "grove.io/podcliquescalinggroup";
/// On cliques, pods and claims of a scaling group: the replica of the group.
pub const SCALING_GROUP_REPLICA: &str = "grove.io/podcliquescalinggroup-replica-index";
/// The replica of the set that the object belongs to.
pub const SET_REPLICA: &str = "grove.io/podcliqueset-replica-index";
/// On pods: the index within the clique.
pub const POD_INDEX: &str = "grove.io/podclique-pod-index";
/// On pods of a scaling group: the index within the replica of the group. The cliques of the replica count in the order of `cliqueNames`,
/// with the replicas of their templates. The pod 0 of each replica is the one that the selector of the group selects.
pub const GROUP_POD_INDEX: &str = "grove.io/podcliquescalinggroup-pod-index";
/// Annotation of the cliques of a scaling group: the [`GROUP_POD_INDEX`] of the first pod.
pub const FIRST_GROUP_POD_INDEX: &str = "grove.io/podcliquescalinggroup-first-pod-index";
/// On one pod of each replica of a set: the one that the selector of the set selects. Annotation of the clique whose pod 0 it is.
pub const FIRST_SET_POD: &str = "grove.io/podcliqueset-first-pod";
/// Value of [`FIRST_SET_POD`].
pub const IS_FIRST_SET_POD: &str = "true";
/// On cliques and pods: the hash of the template.
pub const TEMPLATE_HASH: &str = "grove.io/pod-template-hash";
/// On gangs: the scheduler of the pods.
pub const SCHEDULER_NAME: &str = "grove.io/scheduler-name";
/// On compute domains: the group of cliques that share the domain. As an annotation of sets, scaling groups and cliques: the
/// MNNVL group, or [`NO_MNNVL_GROUP`].
pub const MNNVL_GROUP: &str = "grove.io/mnnvl-group";
/// Value of [`MNNVL_GROUP`]: the scaling group or clique does not inherit the MNNVL group.
pub const NO_MNNVL_GROUP: &str = "none";

/// Annotation of sets: [`AUTO_MNNVL_ENABLED`] or [`AUTO_MNNVL_DISABLED`]. pcs-controller copies it to scaling groups.
pub const AUTO_MNNVL: &str = "grove.io/auto-mnnvl";
/// Value of [`AUTO_MNNVL`]: Grove creates one compute domain per replica.
pub const AUTO_MNNVL_ENABLED: &str = "enabled";
/// Value of [`AUTO_MNNVL`]: Grove creates no compute domains.
pub const AUTO_MNNVL_DISABLED: &str = "disabled";
/// Annotation of sets: with the value `true`, every user may change the managed objects of the set.
pub const PROTECTION_DISABLED: &str = "grove.io/disable-managed-resource-protection";
/// Annotation of sets: a change of its value triggers a reconcile.
pub const RECONCILE_TRIGGER: &str = "grove.io/reconcile-trigger";
/// Annotation of gangs: the topology by which the scheduler packs the pods. Label of sets: the topology that the set refers to.
/// Only Grove writes it, and never copies it from a template.
pub const TOPOLOGY_NAME: &str = "grove.io/topology-name";
/// Annotation of cliques and scaling groups, and label of gangs and of revisions: the hash of all templates of the set. pcs-controller writes it, and pclq-controller copies
/// that of a clique to its status.
pub const GENERATION_HASH: &str = "grove.io/podcliqueset-generation-hash";
/// Annotation of cliques: the hash of the template to which pclq-controller updates the pods now. Without it, pods stay as they are. pcs-controller
/// writes it together with the template, and removes it at the end of the update of the set.
pub const UPDATE_TURN: &str = "grove.io/update-turn";
/// Annotation of cliques beside [`UPDATE_TURN`]: the bounds and controls of the update, [`UpdateBounds`](crate::rolling_update::UpdateBounds) as
/// JSON. Without it, they have their defaults. pcs-controller writes it.
pub const UPDATE_BOUNDS: &str = "grove.io/update-bounds";
/// Annotation of base gangs and scaling groups: the scale of cliques and groups that differs from the template, a
/// [`RecordedScale`](crate::expansion::RecordedScale) as JSON. pcs-controller writes and reads it.
pub const SCALE: &str = "grove.io/scale";
/// Annotation of gangs and cliques: the name of the `PodGroup` of the workload API that the pods of the gang belong to. Without it, the
/// default scheduler schedules each pod on its own. pcs-controller writes it.
pub const POD_GROUP: &str = "grove.io/pod-group";
/// Annotation of gangs beside [`POD_GROUP`]: the immutable fields of the `PodGroup`, a
/// [`PodGroupSpec`](crate::pod_group::PodGroupSpec) as JSON. pcs-controller writes it.
pub const POD_GROUP_SPEC: &str = "grove.io/pod-group-spec";
/// On pods of a gang with a [`POD_GROUP`]: the incarnation of the gang, a number. Pod affinity selects by it, so terminating pods of an
/// earlier incarnation do not attract pods.
pub const POD_GANG_INCARNATION: &str = "grove.io/podgang-incarnation";
/// Annotation of cliques and of their pods: the pod affinity that expresses the topology constraints of the gang in the default scheduler,
/// a [`PackAffinity`](crate::pack_affinity::PackAffinity) as JSON. pcs-controller writes it. A pod has the value that it was created with,
/// which is empty without constraints.
pub const PACK_AFFINITY: &str = "grove.io/pack-affinity";
/// Annotation of cliques: the claims that their pods share, [`CliqueClaims`](crate::resource_sharing::clique_claims::CliqueClaims) as JSON.
/// pcs-controller writes it. It is not part of any hash.
pub const RESOURCE_CLAIMS: &str = "grove.io/resource-claims";
/// Annotation that `kubectl apply` writes. Grove never copies it to children.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The prefix of Grove's keys.
pub const GROVE_PREFIX: &str = "grove.io/";

/// The scheduling gate of pods that wait until their base gang is scheduled.
pub const SCHEDULING_GATE: &str = "grove.io/podgang-pending-creation";

/// Value of [`MANAGED_BY`] on every object that Grove creates.
pub const GROVE_OPERATOR: &str = "grove-operator";

/// The component of an object: the value of [`COMPONENT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    /// The headless Service of a replica.
    HeadlessService,
    /// The Role with which pods read the pods of their gang.
    PodRole,
    /// The `RoleBinding` of that Role.
    PodRoleBinding,
    /// The `ServiceAccount` of the `RoleBinding`.
    PodServiceAccount,
    /// The Secret with the token of that `ServiceAccount`.
    TokenSecret,
    /// A `ControllerRevision`.
    Revision,
    /// A `PodCliqueScalingGroup`.
    ScalingGroup,
    /// A `HorizontalPodAutoscaler`.
    Autoscaler,
    /// A `PodGang`.
    PodGang,
    /// A standalone `PodClique`, and its pods.
    SetPodClique,
    /// A `PodClique` of a scaling group, and its pods.
    GroupPodClique,
    /// A `ResourceClaim` that pods share.
    ResourceClaim,
    /// A `ComputeDomain`.
    ComputeDomain,
}

impl Component {
    /// The value of the label, as in the Go operator.
    pub fn value(self) -> &'static str {
        match self {
            Self::HeadlessService => "pcs-headless-service",
            Self::PodRole => "pod-role",
            Self::PodRoleBinding => "pod-role-binding",
            Self::PodServiceAccount => "pod-service-account",
            Self::TokenSecret => "pod-sa-token-secret",
            Self::Revision => "pcs-revision",
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

/// Whether Grove writes the label. A template of a user does not set it.
pub fn is_grove_label(key: &str) -> bool {
    key.starts_with(GROVE_PREFIX) || [MANAGED_BY, PART_OF, NAME, COMPONENT].contains(&key)
}

/// The two labels of every object of `set`.
pub fn base(set: &PodCliqueSetName) -> BTreeMap<String, String> {
    of([(MANAGED_BY, GROVE_OPERATOR), (PART_OF, set.as_str())])
}

/// A map of labels from pairs.
pub fn of<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Labels as a label selector: sorted by key, joined by commas.
pub fn selector(labels: &BTreeMap<String, String>) -> String {
    labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}
