//! What several tests of the daemon need.

use std::fs;
use std::path::{Path, PathBuf};

use grove_api_types::compute_domain::daemon_state::Identity;

/// A folder that is removed at the end of the test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// An empty folder.
    pub(crate) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("{}.{}.{name}", crate::NAME, std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A failure leaves the folder.
        drop(fs::remove_dir_all(&self.0));
    }
}

/// The first daemon of a clique with three nodes.
pub(crate) fn identity() -> Identity {
    Identity {
        domain_namespace: "team".to_owned(),
        domain_name: "llm-0".to_owned(),
        domain_uid: "1a2b3c4d-0000-4000-8000-000000000000".to_owned(),
        driver_namespace: "grove-system".to_owned(),
        clique: "fabric.7".to_owned(),
        node: "node-0".to_owned(),
        pod_name: "daemon-0".to_owned(),
        pod_uid: "uid-0".to_owned(),
        pod_ip: "10.0.0.1".to_owned(),
        max_nodes: 3,
    }
}
