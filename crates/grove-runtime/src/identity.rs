//! The default identity of a replica.

use crate::backoff::random_number;

/// The host name, which in a pod is the name of the pod, and a random number, as client-go's examples recommend for leader
/// election.
pub(crate) fn default_identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    let host = if host.is_empty() { "unknown" } else { host };
    format!("{host}_{:016x}", random_number())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_default_identities_differ() {
        assert_ne!(default_identity(), default_identity());
    }
}
