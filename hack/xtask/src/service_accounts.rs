//! The identities of the services: one token per `ServiceAccount`, renewed while the dev cluster runs.

use crate::credentials;
use crate::processes::{ProcessSpec, Processes};
use crate::suite::SERVICES;
use crate::workspace;
use anyhow::{Context, Result};
use grove_api_types::SYSTEM_NAMESPACE;
use grove_dev_harness::kubeconfig::client_config;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::{Api, Client};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tokio::time::sleep;

/// The name of the process that renews the tokens.
pub(crate) const TOKEN_REFRESHER: &str = "token-refresher";

const TOKEN_LIFETIME: Duration = Duration::from_hours(1);
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The folder with the token and the kubeconfig of one service.
pub(crate) fn folder(dir: &Path, service: &str) -> PathBuf {
    dir.join("sa").join(service)
}

/// Writes a fresh token for each service, and a kubeconfig that refers to it.
pub(crate) async fn issue_tokens(admin: &Path, dir: &Path) -> Result<()> {
    let client = Client::try_from(client_config(admin).await?)?;
    for service in SERVICES {
        issue(&client, admin, dir, service).await?;
    }
    Ok(())
}

/// Writes a fresh token for one account, and a kubeconfig that refers to it. Returns the kubeconfig.
pub(crate) async fn issue(client: &Client, admin: &Path, dir: &Path, account: &str) -> Result<PathBuf> {
    issue_token(client, dir, account).await?;
    let folder = folder(dir, account);
    let (text, kubeconfig) = (credentials::with_token_file(admin, &folder.join("token"))?, folder.join("kubeconfig"));
    workspace::write_private(&kubeconfig, &text)?;
    Ok(kubeconfig)
}

async fn issue_token(client: &Client, dir: &Path, service: &str) -> Result<()> {
    let folder = folder(dir, service);
    std::fs::create_dir_all(&folder)?;
    let expiration_seconds = Some(TOKEN_LIFETIME.as_secs().try_into()?);
    let spec = Some(TokenRequestSpec { expiration_seconds, ..TokenRequestSpec::default() });
    let request = TokenRequest { spec, ..TokenRequest::default() };
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let issued = accounts.create_token_request(service, &PostParams::default(), &request).await;
    let status = issued.with_context(|| format!("cannot issue a token for {service}"))?.status;
    let token = status.and_then(|status| status.token).context("the API server issued no token")?;
    workspace::write_private(&folder.join("token"), &token)
}

/// The process that renews the tokens.
pub(crate) fn token_refresher(dir: &Path) -> Result<ProcessSpec> {
    let arguments = vec!["refresh-tokens".to_owned(), "--dir".to_owned(), dir.display().to_string()];
    Ok(ProcessSpec::new(TOKEN_REFRESHER, workspace::binary("xtask")?, arguments))
}

/// Renews each token after four fifths of its lifetime. Returns when `down` has ended the services, or when another token
/// refresher has replaced this one.
pub(crate) async fn refresh_loop(dir: &Path) -> Result<()> {
    let client = Client::try_from(client_config(&credentials::kubeconfig(dir, credentials::ADMIN)).await?)?;
    loop {
        // The pause comes first: `up` registers this process only after it has started.
        sleep(CHECK_INTERVAL).await;
        let processes = Processes::load(dir)?;
        if !processes.is_registered(TOKEN_REFRESHER, std::process::id()) {
            return Ok(());
        }
        for service in SERVICES {
            if age(&folder(dir, service).join("token")) < TOKEN_LIFETIME * 4 / 5 {
                continue;
            }
            match issue_token(&client, dir, service).await {
                Ok(()) => println!("renewed the token of {service}"),
                Err(error) => eprintln!("cannot renew the token of {service}, will retry: {error:#}"),
            }
        }
    }
}

/// The age of a token file; a file that does not exist counts as expired.
fn age(token: &Path) -> Duration {
    let written = std::fs::metadata(token).and_then(|token| token.modified()).ok();
    written.and_then(|written| SystemTime::now().duration_since(written).ok()).unwrap_or(TOKEN_LIFETIME)
}
