//! The developer verbs; `cargo xtask --help` lists them. No production cluster runs any of this code.

mod args;
mod balancer;
mod bench;
mod binaries;
mod control_plane;
mod credentials;
mod demo;
mod dev_cluster;
mod domain_simulation;
mod interrupt;
mod nodes;
mod objects;
mod ports;
mod proc;
mod processes;
mod service_accounts;
mod services;
mod soak;
mod suite;
mod test;
mod webhooks;
mod workload_api;
mod workspace;

use anyhow::{Context, Result};
use args::{Args, Benchmark, Soak, Verb};
use clap::Parser;
use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    let Args { source, verb } = Args::parse();
    let outcome = match verb {
        Verb::Up(args) => dev_cluster::up(&source, &args).await,
        Verb::Down { dir } => dev_cluster::down(&workspace::dev_cluster_dir(dir)).await,
        Verb::Demo { once, up } => demo::run(&source, &up, once).await,
        Verb::Test(args) => test::run(&source, &args).await,
        Verb::Soak(Soak::Kills(args)) => soak::kills(&source, args).await,
        Verb::Soak(Soak::Fuzz(args)) => soak::fuzz(&args).await,
        Verb::Soak(Soak::Rehearsal(args)) => soak::rehearsal(&args).await,
        Verb::Soak(Soak::Defects) => soak::defects::run().await,
        Verb::Soak(Soak::Rotation(args)) => soak::rotation(&source, args).await,
        Verb::Soak(Soak::Churn(args)) => soak::churn(&source, args).await,
        Verb::Soak(Soak::Hostile(args)) => soak::hostile(&source, args).await,
        Verb::Soak(Soak::Races(args)) => soak::races(&source, args).await,
        Verb::Soak(Soak::SteadyState(args)) => soak::steady_state(&source, args).await,
        Verb::Soak(Soak::Topologies(args)) => soak::topologies(&source, args).await,
        Verb::Soak(Soak::ForeignObjects(args)) => soak::foreign_objects(&source, args).await,
        Verb::Soak(Soak::Formation(args)) => Box::pin(soak::formation::run(&source, args)).await,
        Verb::Soak(Soak::Writers(args)) => soak::writers(&source, args).await,
        Verb::Bench(Benchmark::Admission(args)) => bench::admission::run(&source, &args).await,
        Verb::Bench(Benchmark::ComputeDomains(args)) => bench::compute_domains::run(&source, &args).await,
        Verb::Bench(Benchmark::Convergence(args)) => Box::pin(bench::convergence::run(&source, &args)).await,
        Verb::Bench(Benchmark::ResourceClaims(args)) => bench::resource_claims::run(&source, &args).await,
        Verb::Bench(Benchmark::Scale(args)) => bench::scale(&source, &args).await,
        Verb::Bench(Benchmark::Update(args)) => Box::pin(bench::update::run(&source, &args)).await,
        Verb::Generate => generate(),
        Verb::Balance { address, port, backend, dir: _ } => balancer::run((address, port).into(), &backend).await,
        Verb::RefreshTokens { dir } => service_accounts::refresh_loop(&dir).await,
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the generated files, and prints the names of those that were out of date.
fn generate() -> Result<()> {
    for (path, content) in xtask::generate::files()? {
        let file = workspace::root().join(&path);
        if std::fs::read_to_string(&file).is_ok_and(|old| old == content) {
            continue;
        }
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&file, content).with_context(|| format!("cannot write {}", file.display()))?;
        println!("wrote {}", path.display());
    }
    Ok(())
}
