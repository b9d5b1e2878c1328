//! Names that NVIDIA's driver uses for the state of compute domains.

use std::fmt;

use serde::Serialize;

name!(
    /// Name of a `ComputeDomainClique`.
    ComputeDomainCliqueName
);
name!(
    /// Name of the `DaemonSet` of a domain, and of the template of its claims.
    DomainDaemonSetName
);
name!(
    /// Host name of a daemon in the files that its peers' IMEX processes read.
    ImexHostName
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

impl DomainDaemonSetName {
    /// The `DaemonSet` of a domain: `computedomain-daemon-<UID of the domain>`. Two controllers create the same one.
    pub fn of_domain(domain_uid: &str) -> Self {
        Self(format!("computedomain-daemon-{domain_uid}"))
    }
}

impl ImexHostName {
    const PREFIX: &str = "compute-domain-daemon-";

    /// Whether the name is that of a daemon of any domain.
    pub fn is_one(name: &str) -> bool {
        name.starts_with(Self::PREFIX)
    }

    /// The name of the daemon with the index: `compute-domain-daemon-<domain>-0007`. `<domain>` is the begin of the UID of its domain. A
    /// peer that still knows the address of an earlier daemon, which now belongs to a daemon of another domain, addresses it by a name that
    /// this one does not have.
    pub fn of_daemon(domain_uid: &str, index: i64) -> Self {
        let domain: String = domain_uid.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
        Self(format!("{}{}-{index:04}", Self::PREFIX, domain.to_ascii_lowercase()))
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
