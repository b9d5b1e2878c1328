//! Generated names, each as a type, so that the compiler rejects a `PodGangName` in place of a `PodCliqueName`.
//!
//! Only this module joins names with hyphens. The names are those of the Go operator.

use std::fmt;

use serde::Serialize;
use sha2::{Digest, Sha256};

/// Defines a type for a name. Only its constructors create it.
macro_rules! name {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
        pub struct $type(String);

        impl $type {
            /// The name.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> Self {
                name.0
            }
        }
    };
}

mod claims;
mod domain_state;
mod pod_rbac;

pub use claims::{ClaimOwner, ComputeDomainName, PodClaimName, ResourceClaimName};
pub use domain_state::{ComputeDomainCliqueName, DaemonFieldManager, DomainDaemonSetName, ImexHostName};
pub use pod_rbac::{PodRoleName, PodServiceAccountName, TokenSecretName};

name!(
    /// Name of a `PodCliqueSet`, which the user chose.
    PodCliqueSetName
);
name!(
    /// Name of a `PodClique`.
    PodCliqueName
);
name!(
    /// Name of a `PodCliqueScalingGroup`.
    PodCliqueScalingGroupName
);
name!(
    /// Name of a `PodGang`.
    PodGangName
);
name!(
    /// Name of a `PodGroup` of the workload API.
    PodGroupName
);
name!(
    /// Name of one replica of a scaling group in the topology constraints of a base gang.
    TopologyGroupName
);
name!(
    /// Name of a `HorizontalPodAutoscaler`: the name of the object that it scales.
    AutoscalerName
);
name!(
    /// Name of the `ControllerRevision` of a template of a set.
    RevisionName
);
name!(
    /// Name of the headless Service of a replica, which is also the subdomain of its pods.
    HeadlessServiceName
);
name!(
    /// Name of a pod.
    PodName
);
name!(
    /// Hostname of a pod within its headless Service.
    Hostname
);

impl PodCliqueSetName {
    /// The name of an existing set.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }
}

impl PodCliqueName {
    /// The name of an existing clique.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// A standalone clique: `<set>-<replica>-<clique>`.
    pub fn standalone(set: &PodCliqueSetName, replica: i32, clique: &str) -> Self {
        Self(format!("{set}-{replica}-{clique}"))
    }

    /// A clique of one replica of a scaling group: `<group>-<replica>-<clique>`.
    pub fn member(group: &PodCliqueScalingGroupName, replica: i32, clique: &str) -> Self {
        Self(format!("{group}-{replica}-{clique}"))
    }
}

impl PodCliqueScalingGroupName {
    /// The name of an existing group.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// A group of one replica of a set: `<set>-<replica>-<group>`.
    pub fn of_replica(set: &PodCliqueSetName, replica: i32, group: &str) -> Self {
        Self(format!("{set}-{replica}-{group}"))
    }
}

impl TopologyGroupName {
    /// One replica of a scaling group: `<group>-<replica>`.
    pub fn of_replica(group: &PodCliqueScalingGroupName, replica: i32) -> Self {
        Self(format!("{group}-{replica}"))
    }
}

impl AutoscalerName {
    /// The autoscaler of a clique.
    pub fn of_clique(clique: &PodCliqueName) -> Self {
        Self(clique.0.clone())
    }

    /// The autoscaler of a scaling group.
    pub fn of_group(group: &PodCliqueScalingGroupName) -> Self {
        Self(group.0.clone())
    }
}

impl PodGangName {
    /// The name of an existing gang.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The base gang of a replica: `<set>-<replica>`.
    pub fn base(set: &PodCliqueSetName, replica: i32) -> Self {
        Self(format!("{set}-{replica}"))
    }

    /// Splits the name at the index: into a set and its replica for a base gang, or into a scaling group and the number of the
    /// scaled gang. The name does not show the kind of the gang.
    pub fn split_index(&self) -> Option<(&str, i32)> {
        let (owner, index) = self.0.rsplit_once('-')?;
        Some((owner, index.parse().ok()?))
    }

    /// A scaled gang: `<group>-<replica - minAvailable>`. The number counts the scaled gangs of the group from 0; it is not the index
    /// of the replica.
    pub fn scaled(group: &PodCliqueScalingGroupName, beyond_min_available: i32) -> Self {
        Self(format!("{group}-{beyond_min_available}"))
    }
}

impl PodGroupName {
    /// The `PodGroup` of one incarnation of a gang: `<gang>-<incarnation>`.
    pub fn of_incarnation(gang: &PodGangName, incarnation: i64) -> Self {
        Self(format!("{gang}-{incarnation}"))
    }

    /// A later `PodGroup` of the same incarnation: `<gang>-<incarnation>.<successor>`.
    pub fn of_successor(gang: &PodGangName, incarnation: i64, successor: i64) -> Self {
        Self(format!("{gang}-{incarnation}.{successor}"))
    }
}

impl RevisionName {
    /// The revision with this generation hash: `<set>-<hash>`.
    pub fn of_set(set: &PodCliqueSetName, hash: &str) -> Self {
        Self(format!("{set}-{hash}"))
    }
}

impl HeadlessServiceName {
    /// The Service of a replica: `<set>-<replica>`.
    pub fn of_replica(set: &PodCliqueSetName, replica: i32) -> Self {
        Self(format!("{set}-{replica}"))
    }

    /// The DNS name, for environment variables: `<service>.<namespace>.svc.cluster.local`.
    pub fn address(&self, namespace: &str) -> String {
        format!("{self}.{namespace}.svc.cluster.local")
    }
}

impl Hostname {
    /// The hostname of one pod: `<PodClique>-<index>`.
    pub fn of_pod(clique: &PodCliqueName, index: i32) -> Self {
        Self(format!("{clique}-{index}"))
    }
}

/// The characters of a suffix. Kubernetes uses them for `generateName`: they form no words.
const SUFFIX_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// The length of a suffix, as for `generateName` of Kubernetes.
const SUFFIX_LENGTH: usize = 5;

impl PodName {
    /// The name of an existing pod.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The candidate names of the pod at `index`, in order of preference: `<PodClique>-<5 characters>`. `replaces` is the UID of the
    /// pod that the new pod replaces, `None` for the first pod of the index. The names are a function of the observed state, so that
    /// two creates from the same state conflict in place of creating two pods.
    pub fn candidates(
        clique: &PodCliqueName,
        clique_uid: &str,
        index: i32,
        replaces: Option<&str>,
    ) -> impl Iterator<Item = Self> {
        (0_u32..).map(move |attempt| {
            let origin = format!("{clique_uid}/{index}/{}/{attempt}", replaces.unwrap_or_default());
            Self(format!("{clique}-{}", suffix(&origin)))
        })
    }
}

fn suffix(origin: &str) -> String {
    let digest = Sha256::digest(origin.as_bytes());
    let letter = |byte: &u8| char::from(SUFFIX_ALPHABET[usize::from(*byte) % SUFFIX_ALPHABET.len()]);
    digest.iter().take(SUFFIX_LENGTH).map(letter).collect()
}
