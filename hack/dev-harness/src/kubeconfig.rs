//! Clients of the cluster that a kubeconfig file names.

use std::path::Path;

use anyhow::Result;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};

/// The configuration of a client. Callers may change it before they create the client.
///
/// # Errors
/// If the file cannot be read, or is not a kubeconfig.
pub async fn client_config(file: &Path) -> Result<Config> {
    // An error means that the process has a provider already.
    _ = rustls::crypto::ring::default_provider().install_default();
    Ok(Config::from_custom_kubeconfig(Kubeconfig::read_from(file)?, &KubeConfigOptions::default()).await?)
}
