//! Every generated name, as a type: a `PodGangName` cannot be passed where a `PodCliqueName` is meant.
//!
//! Only this file joins names with hyphens. Source: the wire format's table of names.

use std::fmt;

use serde::Serialize;
use sha2::{Digest, Sha256};

/// A name of its own type, made by constructors only.
macro_rules! name {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
        pub struct $type(String);

        impl $type {
            /// The name as objects carry it.
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
mod identity;

pub use claims::{ClaimOwner, ComputeDomainName, PodClaimName, ResourceClaimName};
pub use identity::{PodRoleName, PodServiceAccountName, TokenSecretName};

name!(
    /// Name of a `PodCliqueSet`, as its user chose it.
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
    /// Name of one replica of a scaling group among the groups of a base gang.
    TopologyGroupName
);
name!(
    /// Name of a `HorizontalPodAutoscaler`, which is that of what it scales.
    AutoscalerName
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
    /// The name a set was given.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }
}

impl PodCliqueName {
    /// The name an existing clique has.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// A clique that belongs to no scaling group: `<set>-<replica>-<clique>`.
    pub fn standalone(set: &PodCliqueSetName, replica: i32, clique: &str) -> Self {
        Self(format!("{set}-{replica}-{clique}"))
    }

    /// A clique of one replica of a scaling group: `<group>-<replica>-<clique>`.
    pub fn member(group: &PodCliqueScalingGroupName, replica: i32, clique: &str) -> Self {
        Self(format!("{group}-{replica}-{clique}"))
    }
}

impl PodCliqueScalingGroupName {
    /// The name an existing group has.
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
    /// The name an existing gang has.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The gang of a replica's base: `<set>-<replica>`.
    pub fn base(set: &PodCliqueSetName, replica: i32) -> Self {
        Self(format!("{set}-{replica}"))
    }

    /// What the name counts, and the number: a set and its replica, or a scaling group and its replica beyond
    /// `minAvailable`. The name does not say which.
    pub fn split_index(&self) -> Option<(&str, i32)> {
        let (counted, number) = self.0.rsplit_once('-')?;
        Some((counted, number.parse().ok()?))
    }

    /// The gang of a replica that a scaling group has beyond its `minAvailable`: `<group>-<replica - minAvailable>`. The
    /// number counts those replicas from 0; it is not the index of the replica.
    pub fn scaled(group: &PodCliqueScalingGroupName, beyond_min_available: i32) -> Self {
        Self(format!("{group}-{beyond_min_available}"))
    }
}

impl HeadlessServiceName {
    /// The Service of a replica: `<set>-<replica>`.
    pub fn of_replica(set: &PodCliqueSetName, replica: i32) -> Self {
        Self(format!("{set}-{replica}"))
    }

    /// The address that the pods of the replica are told: `<service>.<namespace>.svc.cluster.local`.
    pub fn address(&self, namespace: &str) -> String {
        format!("{self}.{namespace}.svc.cluster.local")
    }
}

impl Hostname {
    /// The host of one pod: `<PodClique>-<index>`.
    pub fn of_pod(clique: &PodCliqueName, index: i32) -> Self {
        Self(format!("{clique}-{index}"))
    }
}

/// Characters of a pod's suffix: those Kubernetes uses for generated names, which spell no words.
const SUFFIX_ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// Length of a pod's suffix, that of Kubernetes' generated names.
const SUFFIX_LENGTH: usize = 5;

impl PodName {
    /// The name an existing pod has.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The names for the pod at `index` of the clique with `clique_uid` that comes after the pod with uid `replaces`
    /// (none for the first), best first: `<PodClique>-<5 characters>`. A function of what is observed, so that two
    /// creates from the same observation meet in one name.
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
