//! The version of the workload API of Kubernetes (`scheduling.k8s.io`) that this process uses. The informer of its kind changes it if the API
//! server does not serve it.

use std::sync::atomic::{AtomicBool, Ordering};

use grove_api_types::pod_group::ApiVersion;

/// Whether the process uses the other version than the default one.
static USES_OTHER: AtomicBool = AtomicBool::new(false);

/// The version in use.
pub fn version() -> ApiVersion {
    if USES_OTHER.load(Ordering::Relaxed) { ApiVersion::default().other() } else { ApiVersion::default() }
}

/// Changes to the other version.
pub fn use_other_version() {
    USES_OTHER.fetch_not(Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_versions_alternate() {
        assert_eq!(version(), ApiVersion::V1Alpha2);
        use_other_version();
        assert_eq!(version(), ApiVersion::V1Beta1);
        use_other_version();
        assert_eq!(version(), ApiVersion::V1Alpha2);
    }
}
