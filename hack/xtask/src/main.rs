//! The developer verbs. `cargo xtask --help` is the index; nothing of this reaches a cluster of production.

mod accounts;
mod args;
mod balancer;
mod bench;
mod binaries;
mod control_plane;
mod credentials;
mod demo;
mod interrupt;
mod kubectl;
mod nodes;
mod plane;
mod ports;
mod processes;
mod services;
mod soak;
mod test;
mod webhooks;
mod workspace;

use anyhow::{Context, Result};
use args::{Args, Benchmark, Soak, Verb};
use clap::Parser;
use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    let Args { source, verb } = Args::parse();
    let outcome = match verb {
        Verb::Up(wish) => plane::up(&source, &wish).await,
        Verb::Down { dir } => plane::down(&workspace::plane_dir(dir)).await,
        Verb::Demo { once, wish } => demo::run(&source, &wish, once).await,
        Verb::Test { filter, dir } => test::run(&source, filter.as_deref(), dir).await,
        Verb::Soak(Soak::Kills(wish)) => soak::kills(&source, wish).await,
        Verb::Soak(Soak::Fuzz(wish)) => soak::fuzz(&wish).await,
        Verb::Soak(Soak::Rotation(wish)) => soak::rotation(&source, wish).await,
        Verb::Bench(Benchmark::Admission(wish)) => bench::admission::run(&source, &wish).await,
        Verb::Bench(Benchmark::Scale(wish)) => bench::scale(&source, &wish).await,
        Verb::Generate => generate(),
        Verb::Balance { port, backend, dir: _ } => balancer::run(port, &backend).await,
        Verb::KeepTokens { dir } => accounts::keep(&dir).await,
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Writes what is generated, and says which files were not up to date.
fn generate() -> Result<()> {
    for (path, fresh) in xtask::generate::files()? {
        let file = workspace::root().join(&path);
        if std::fs::read_to_string(&file).is_ok_and(|old| old == fresh) {
            continue;
        }
        if let Some(folder) = file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&file, fresh).with_context(|| format!("cannot write {}", file.display()))?;
        println!("wrote {}", path.display());
    }
    Ok(())
}
