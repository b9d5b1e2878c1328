//! Names that NVIDIA's driver uses for the state of compute domains.

use std::fmt;

use serde::Serialize;

name!(
    /// Name of a `ComputeDomainClique`.
    ComputeDomainCliqueName
);
name!(
    /// Name of the field manager by which the daemon of a node applies its entry.
    DaemonFieldManager
);

impl ComputeDomainCliqueName {
    /// The object of a clique: `<UID of the domain>.<clique>`.
    pub fn of_domain(domain_uid: &str, clique: &str) -> Self {
        Self(format!("{domain_uid}.{clique}"))
    }
}

impl DaemonFieldManager {
    /// The manager of an entry in the status of a domain: `cd-writer-<node>`.
    pub fn of_status(node: &str) -> Self {
        Self(format!("cd-writer-{node}"))
    }

    /// The manager of an entry in the object of a clique: `cd-daemon-<node>`.
    pub fn of_clique(node: &str) -> Self {
        Self(format!("cd-daemon-{node}"))
    }
}
