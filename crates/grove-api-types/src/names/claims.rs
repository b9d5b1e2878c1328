//! Names of resource claims and compute domains, and of the entries with which pods refer to claims.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest, Sha256};

use super::{PodCliqueName, PodCliqueScalingGroupName, PodCliqueSetName};

name!(
    /// Name of a shared `ResourceClaim`.
    ResourceClaimName
);
name!(
    /// Name with which the containers of a pod refer to a claim.
    PodClaimName
);
name!(
    /// Name of a `ComputeDomain`, and of its `ResourceClaimTemplate`.
    ComputeDomainName
);

/// The owner of a claim.
#[derive(Clone, Copy, Debug)]
pub enum ClaimOwner<'a> {
    /// A set; the replicas are those of the set.
    Set(&'a PodCliqueSetName),
    /// A scaling group; the replicas are those of the group.
    Group(&'a PodCliqueScalingGroupName),
    /// A clique; the replicas are its pods.
    Clique(&'a PodCliqueName),
}

impl ClaimOwner<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Set(name) => name.as_str(),
            Self::Group(name) => name.as_str(),
            Self::Clique(name) => name.as_str(),
        }
    }
}

impl ResourceClaimName {
    /// A claim of this name, which an annotation of a clique contains.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The claim that all replicas of the owner share: `<owner>-all-<template>`.
    pub fn of_all_replicas(owner: ClaimOwner<'_>, template: &str) -> Self {
        Self(format!("{}-all-{template}", owner.name()))
    }

    /// The claim of one replica of the owner: `<owner>-<replica>-<template>`.
    pub fn of_replica(owner: ClaimOwner<'_>, replica: i32, template: &str) -> Self {
        Self(format!("{}-{replica}-{template}", owner.name()))
    }
}

impl<'de> Deserialize<'de> for ResourceClaimName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(Self)
    }
}

/// The length limit for the name of a claim in a pod.
const MAX_POD_CLAIM_LENGTH: usize = 63;
/// The number of hexadecimal digits of the hash in a shortened name.
const HASH_DIGITS: usize = 8;

impl PodClaimName {
    /// The name for the claim of a compute domain.
    pub fn of_compute_domain() -> Self {
        Self("mnnvl-claim".to_owned())
    }

    /// The name for a shared claim: its own name, or, if that is not valid in a pod, its beginning and a hash of the whole.
    pub fn of_claim(claim: &ResourceClaimName) -> Self {
        let name = claim.as_str();
        if name.len() <= MAX_POD_CLAIM_LENGTH && !name.contains('.') {
            return Self(name.to_owned());
        }
        let digest = Sha256::digest(name.as_bytes());
        let hash = digest.iter().take(HASH_DIGITS / 2).fold(String::new(), |hash, byte| hash + &format!("{byte:02x}"));
        let prefix: String = name.chars().take(MAX_POD_CLAIM_LENGTH - HASH_DIGITS - 1).collect();
        let prefix = prefix.replace('.', "-");
        Self(format!("{}-{hash}", prefix.trim_end_matches('-')))
    }
}

impl ComputeDomainName {
    /// The only domain of a replica: `<set>-<replica>`.
    pub fn of_replica(set: &PodCliqueSetName, replica: i32) -> Self {
        Self(format!("{set}-{replica}"))
    }

    /// The domain of one group of a replica: `<set>-<replica>-<group>`.
    pub fn of_group(set: &PodCliqueSetName, replica: i32, group: &str) -> Self {
        Self(format!("{set}-{replica}-{group}"))
    }

    /// The replica in the name of a domain of this set; `None` for other names.
    pub fn replica_in(set: &PodCliqueSetName, name: &str) -> Option<i32> {
        let replica_and_group = name.strip_prefix(set.as_str())?.strip_prefix('-')?;
        replica_and_group.split('-').next()?.parse().ok()
    }
}
