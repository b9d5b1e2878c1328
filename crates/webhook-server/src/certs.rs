//! The serving certificate of the webhooks: its source, and its rotation while the server runs.
//!
//! In mode `auto`, a Secret contains the certificate and its CA. All replicas serve the certificate of the Secret. The
//! leader rotates both and injects the CA bundle into the webhook configurations: [`plan`] decides the next step,
//! [`execute`] executes it, and [`rotator`] is the loop. `--certificate-period` and `--ca-period` (`args.rs`) set the periods.
//! In mode `manual`, [`cert_watcher`] reads the certificate from files.

use std::time::Duration;

use anyhow::Context;
use grove_api_types::configuration::CertProvisionMode;
use grove_runtime::runtime::Runtime;

use crate::metrics::WebhookMetrics;

pub(crate) mod ca;
mod cert_watcher;
mod cert_writer;
mod execute;
mod observe;
mod observed;
mod plan;
mod propagation;
mod readiness;
mod rotator;
mod secret;
mod serving_cert;
mod x509;

use self::plan::RotationPolicy;
use self::readiness::CertReadiness;
use self::rotator::CertRotator;
pub(crate) use self::serving_cert::ServingCert;

/// The flags about the certificate.
pub(crate) struct CertOptions {
    /// The issuer of the certificate.
    pub(crate) mode: CertProvisionMode,
    /// Subject alternative names of the certificate, in addition to the names of the core/v1 Service.
    pub(crate) subject_alt_names: Vec<String>,
    /// Age at which the serving certificate is renewed.
    pub(crate) certificate_period: Duration,
    /// Age at which the CA is renewed.
    pub(crate) ca_period: Duration,
}

/// Provides the serving certificate until the process shuts down.
///
/// # Errors
/// If the directory of the certificate files cannot be watched.
pub(crate) async fn manage(
    runtime: &Runtime,
    serving_cert: &ServingCert,
    options: CertOptions,
    metrics: &WebhookMetrics,
) -> anyhow::Result<()> {
    let CertOptions { mode, subject_alt_names, certificate_period, ca_period } = options;
    let config = &runtime.config().server.webhooks;
    let readiness = CertReadiness::new(runtime.readiness().register_probe_only("the certificate"));
    let shutdown = runtime.shutdown().cancelled();
    match mode {
        CertProvisionMode::Manual => {
            let watch = cert_watcher::watch(config.server_cert_dir.as_ref(), serving_cert, readiness, metrics);
            tokio::select! {
                result = watch => result.context("could not watch the directory of the certificate"),
                () = shutdown => Ok(()),
            }
        }
        CertProvisionMode::Auto => {
            let subject_alt_names = [service_names(runtime), subject_alt_names].concat();
            let policy = RotationPolicy { subject_alt_names, certificate_period, ca_period };
            let rotator = CertRotator::new(runtime, policy, (serving_cert.clone(), readiness), metrics);
            tokio::select! {
                () = rotator.run(runtime.readiness().clone()) => Ok(()),
                () = shutdown => Ok(()),
            }
        }
    }
}

/// The DNS names of the core/v1 Service.
fn service_names(runtime: &Runtime) -> Vec<String> {
    let (name, namespace) = (runtime.name(), runtime.namespace());
    let mut names = vec![name.to_owned()];
    for suffix in ["", ".svc", ".svc.cluster.local"] {
        names.push([name, ".", namespace, suffix].concat());
    }
    names
}
