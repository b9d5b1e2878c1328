//! What a replica is called that was not told its name.

use crate::backoff::random_number;

/// The name of the host, which for a pod is the pod's, and a number that no other process has.
pub(crate) fn made_up() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    let host = if host.is_empty() { "unknown" } else { host };
    format!("{host}_{:016x}", random_number())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_are_the_same() {
        assert_ne!(made_up(), made_up());
    }
}
