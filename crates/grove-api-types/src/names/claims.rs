//! Names of resource claims and compute domains, and of the entries by which pods refer to claims.

use std::fmt;

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{PodCliqueName, PodCliqueScalingGroupName, PodCliqueSetName};

name!(
    /// Name of a `ResourceClaim` that pods share.
    ResourceClaimName
);
name!(
    /// Name by which the containers of a pod refer to a claim.
    PodClaimName
);
name!(
    /// Name of a `ComputeDomain`, which is that of the `ResourceClaimTemplate` made for it.
    ComputeDomainName
);

/// Whose claim it is.
#[derive(Clone, Copy, Debug)]
pub enum ClaimOwner<'a> {
    /// A set; its replicas are those of the set.
    Set(&'a PodCliqueSetName),
    /// A scaling group; its replicas are those of the group.
    Group(&'a PodCliqueScalingGroupName),
    /// A clique; its replicas are pods.
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
    /// The claim that all replicas of the owner share: `<owner>-all-<template>`.
    pub fn of_all_replicas(owner: ClaimOwner<'_>, template: &str) -> Self {
        Self(format!("{}-all-{template}", owner.name()))
    }

    /// The claim of one replica of the owner: `<owner>-<replica>-<template>`.
    pub fn of_replica(owner: ClaimOwner<'_>, replica: i32, template: &str) -> Self {
        Self(format!("{}-{replica}-{template}", owner.name()))
    }
}

/// The longest name that a pod may give to a claim.
const LONGEST_POD_CLAIM: usize = 63;
/// Hexadecimal digits that stand for what was cut from a name.
const CUT_DIGITS: usize = 8;

impl PodClaimName {
    /// The entry for the claim of a compute domain.
    pub fn of_compute_domain() -> Self {
        Self("mnnvl-claim".to_owned())
    }

    /// The entry for a shared claim: its name, or where that is longer than a pod may write, its beginning and a hash of
    /// the whole.
    pub fn of_claim(claim: &ResourceClaimName) -> Self {
        let name = claim.as_str();
        if name.len() <= LONGEST_POD_CLAIM && !name.contains('.') {
            return Self(name.to_owned());
        }
        let digest = Sha256::digest(name.as_bytes());
        let hash = digest.iter().take(CUT_DIGITS / 2).fold(String::new(), |hash, byte| hash + &format!("{byte:02x}"));
        let kept: String = name.chars().take(LONGEST_POD_CLAIM - CUT_DIGITS - 1).collect();
        let kept = kept.replace('.', "-");
        Self(format!("{}-{hash}", kept.trim_end_matches('-')))
    }
}

impl ComputeDomainName {
    /// The one domain of a replica: `<set>-<replica>`.
    pub fn of_replica(set: &PodCliqueSetName, replica: i32) -> Self {
        Self(format!("{set}-{replica}"))
    }

    /// The domain of one group of a replica: `<set>-<replica>-<group>`.
    pub fn of_group(set: &PodCliqueSetName, replica: i32, group: &str) -> Self {
        Self(format!("{set}-{replica}-{group}"))
    }
}
