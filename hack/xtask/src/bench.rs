//! `bench`: what the suite does, measured on a real control plane beside the same writes made by hand.

pub(crate) mod admission;
mod bare;
mod bars;
mod grove;
mod machine;
mod measure;
mod plot;
mod report;
mod requests;
mod samples;
mod tally;
mod usage;
mod workload;

use crate::args::{Scale, Source, Wish};
use crate::plane::{Afterwards, Plane, with_plane};
use crate::workspace;
use anyhow::{Context, Result, bail};
use grove_runtime::client::{self, Clients};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use samples::{Samples, Who};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

const NODES: u32 = 100;

/// One repetition of one size.
#[derive(Clone, Copy)]
struct Round {
    replicas: u32,
    repetition: u32,
}

/// Measures the life of one set, several times and in several sizes, in turn with the same writes made by hand.
pub(crate) async fn scale(source: &Source, wish: &Scale) -> Result<()> {
    if source.kubeconfig.is_some() {
        bail!("the figures are read from the control plane's own processes and audit log; leave --kubeconfig out");
    }
    if cfg!(debug_assertions) {
        return Err(go_on_optimised()?);
    }
    println!("everything that is measured, this client included, is built with --release");
    let sizes = wish.sizes();
    let most = sizes.iter().copied().max().unwrap_or_default();
    let dir = wish.dir.clone().unwrap_or_else(|| workspace::root().join("target/grove-bench"));
    let plane = Wish { dir: Some(dir), nodes: Some(NODES.max(most / 50)), ..Wish::default() };
    with_plane(source, &plane, Afterwards::Ends, async |plane: &mut Plane| {
        let conditions = machine::describe(plane).await?;
        let report = |samples: &Samples, rounds| report::write(samples, &conditions, rounds, wish);
        rounds(plane, wish.repeat, &sizes, report).await
    })
    .await
}

/// Goes on as the optimised build of this program. Returns only if that is not possible.
fn go_on_optimised() -> Result<anyhow::Error> {
    let arguments = ["run", "--quiet", "--release", "--package", "xtask", "--"];
    let mut cargo = Command::new("cargo");
    cargo.current_dir(workspace::root()).args(arguments).args(std::env::args_os().skip(1));
    println!("building with --release");
    Err(cargo.exec()).context("cannot run cargo")
}

/// Reports whenever every size was measured once more, so that whoever interrupts a long series has what was measured.
async fn rounds(
    plane: &mut Plane,
    repeat: u32,
    sizes: &[u32],
    report: impl Fn(&Samples, u32) -> Result<()>,
) -> Result<()> {
    let clients = connect(&plane.kubectl.kubeconfig).await?;
    workload::make_namespace(&plane.kubectl).await?;
    if let Some(&replicas) = sizes.first() {
        // A server that was just started closes the watches of everybody until it has learned how much there is to send.
        println!("{replicas} replicas by hand to warm up, not counted");
        bare::run(plane, &clients, Round { replicas, repetition: 0 }, &mut Samples::default()).await?;
    }
    let mut samples = Samples::default();
    for repetition in 1..=repeat {
        for &replicas in sizes {
            round(plane, &clients, Round { replicas, repetition }, &mut samples).await?;
        }
        report(&samples, repetition)?;
    }
    Ok(())
}

/// As a service connects: watches have connections of their own, and nothing is tried again behind our back.
async fn connect(kubeconfig: &Path) -> Result<Clients> {
    client::install_crypto_provider();
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    let requests = Client::try_from(config.clone())?;
    config.read_timeout = None;
    Ok(Clients { requests, watches: Client::try_from(config)? })
}

/// Grove and bare, each first in every other round, so that neither always meets the colder server.
async fn round(plane: &mut Plane, clients: &Clients, round: Round, samples: &mut Samples) -> Result<()> {
    let order = if round.repetition % 2 == 1 { [Who::Grove, Who::Bare] } else { [Who::Bare, Who::Grove] };
    for who in order {
        let Round { replicas, repetition } = round;
        println!("{replicas} replicas, round {repetition}, {}: load {:.1}", who.name(), machine::load());
        match who {
            Who::Grove => grove::run(plane, clients, round, samples).await,
            Who::Bare => bare::run(plane, clients, round, samples).await,
        }
        .with_context(|| format!("{replicas} replicas, round {repetition}, {}", who.name()))?;
    }
    Ok(())
}
