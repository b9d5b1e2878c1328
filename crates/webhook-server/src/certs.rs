//! The certificate that the webhooks are served with: where it comes from, and how a new one takes its place while
//! requests are answered.
//!
//! Made here, it and its authority lie in a Secret that all replicas follow; the one that leads renews both and sees to it
//! that the API server trusts what is served: [`plan`] says what is next, [`keeper`] does it. Made by others, it is read
//! from files.

use std::time::Duration;

use anyhow::Context;
use grove_api_types::configuration::CertProvisionMode;
use grove_runtime::runtime::Runtime;

use crate::metrics::Counters;

pub(crate) mod authority;
mod files;
mod identity;
mod keeper;
mod observe;
mod observed;
mod plan;
mod publish;

pub(crate) use self::identity::Identity;
use self::keeper::Keeper;
use self::plan::Terms;

/// How the certificate is come by, beyond what the configuration says.
pub(crate) struct Wishes {
    /// Over the configuration's `certProvisionMode`.
    pub(crate) mode: Option<CertProvisionMode>,
    /// What the API server calls this service: names of hosts and addresses, beyond those of its `Service`.
    pub(crate) names: Vec<String>,
    /// After so long a certificate is renewed.
    pub(crate) certificate_period: Duration,
    /// After so long the authority is.
    pub(crate) authority_period: Duration,
}

/// Looks after `identity` for as long as the service runs.
///
/// # Errors
/// When the watches cannot be set up.
pub(crate) async fn look_after(
    service: &Runtime,
    identity: &Identity,
    wishes: Wishes,
    counters: &Counters,
) -> anyhow::Result<()> {
    let Wishes { mode, names, certificate_period, authority_period } = wishes;
    let server = &service.config().server.webhooks;
    let ready = service.ready().register_for_probes("the certificate");
    let stop = service.shutdown().asked();
    match mode.unwrap_or(server.cert_provision_mode) {
        CertProvisionMode::Manual => {
            let following = files::follow(server.server_cert_dir.as_ref(), identity, ready, counters);
            tokio::select! {
                followed = following => followed.context("could not follow the files of the certificate"),
                () = stop => Ok(()),
            }
        }
        CertProvisionMode::Auto => {
            let names = [service_names(service), names].concat();
            let terms = Terms { names, certificate_period, authority_period };
            let keeper = Keeper::new(service, terms, (identity.clone(), ready), counters);
            tokio::select! {
                () = keeper.run(service.ready().clone()) => Ok(()),
                () = stop => Ok(()),
            }
        }
    }
}

/// By these names a `Service` is called in its cluster.
fn service_names(service: &Runtime) -> Vec<String> {
    let (name, namespace) = (service.name(), service.namespace());
    let mut names = vec![name.to_owned()];
    for suffix in ["", ".svc", ".svc.cluster.local"] {
        names.push([name, ".", namespace, suffix].concat());
    }
    names
}
