//! The services' own identities: a token for each `ServiceAccount`, renewed for as long as the plane runs.

use crate::credentials;
use crate::kubectl::Kubectl;
use crate::processes::{Launch, Processes};
use crate::services::{NAMESPACE, SERVICES};
use crate::workspace;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tokio::time::sleep;

pub(crate) const KEEPER: &str = "token-keeper";

const LIFE: Duration = Duration::from_hours(1);

/// The folder of one service's identity.
pub(crate) fn folder(dir: &Path, service: &str) -> PathBuf {
    dir.join("sa").join(service)
}

/// A fresh token and a kubeconfig that reads it, for each service.
pub(crate) async fn issue(kubectl: &Kubectl, dir: &Path) -> Result<()> {
    for service in SERVICES {
        renew(kubectl, dir, service).await?;
        let folder = folder(dir, service);
        let text = credentials::with_token_file(&kubectl.kubeconfig, &folder.join("token"))?;
        workspace::write_private(&folder.join("kubeconfig"), &text)?;
    }
    Ok(())
}

async fn renew(kubectl: &Kubectl, dir: &Path, service: &str) -> Result<()> {
    let folder = folder(dir, service);
    std::fs::create_dir_all(&folder)?;
    let duration = format!("--duration={}s", LIFE.as_secs());
    let token = kubectl.run(&["create", "token", service, "-n", NAMESPACE, &duration]).await?;
    workspace::write_private(&folder.join("token"), token.trim())
}

/// The process that renews.
pub(crate) fn keeper(dir: &Path) -> Result<Launch> {
    Ok(Launch {
        name: KEEPER.to_owned(),
        program: workspace::binary("xtask")?,
        arguments: vec!["keep-tokens".to_owned(), "--dir".to_owned(), dir.display().to_string()],
        inputs: Vec::new(),
    })
}

/// Renews each token at four fifths of its life; ends when the services have ended, or when another keeper took over.
pub(crate) async fn keep(dir: &Path) -> Result<()> {
    // The link leads to the very kubectl that the plane was started with.
    let kubectl = Kubectl::new(&dir.join("kubectl"), dir);
    loop {
        // The first look comes after a pause: this process is entered in the list only once it runs.
        sleep(Duration::from_secs(5)).await;
        let processes = Processes::of(dir)?;
        if !processes.is_entered(KEEPER, std::process::id()) {
            return Ok(());
        }
        for service in SERVICES {
            if age(&folder(dir, service).join("token")) < LIFE * 4 / 5 {
                continue;
            }
            match renew(&kubectl, dir, service).await {
                Ok(()) => println!("renewed the token of {service}"),
                Err(error) => eprintln!("will try again: {error:#}"),
            }
        }
    }
}

fn age(token: &Path) -> Duration {
    let written = std::fs::metadata(token).and_then(|token| token.modified()).context("no token").ok();
    written.and_then(|written| SystemTime::now().duration_since(written).ok()).unwrap_or(LIFE)
}
