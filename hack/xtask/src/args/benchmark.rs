//! The benchmarks and their flags.

use clap::Subcommand;
use grove_api_types::compute_domain::strategy::Strategy;
use grove_api_types::compute_domain::strategy::parameters::MAX_NODES_PER_CLIQUE;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Subcommand)]
pub(crate) enum Benchmark {
    /// Deploy, scale and delete a set: times, status delays, writes, CPU time and memory
    Scale(Scale),
    /// Send admission reviews of a set to the webhook server: CPU time per review, and memory over time
    Admission(Admission),
    /// Create many sets with and without ComputeDomains: time until their PodCliques exist, and the writes of the domains
    ComputeDomains(ComputeDomains),
    /// Start the daemons of a ComputeDomain with each strategy: time until the domain is Ready, writes, conflicts and watch events
    Convergence(Convergence),
    /// Create a thousand pods with shared ResourceClaims, and the same claims and pods with a plain client
    ResourceClaims(ResourceClaims),
    /// Replace all pods of a set: time, CPU time and writes, beside a plain client that replaces them with the same bounds
    Update(Update),
}

/// The folders of a benchmark.
#[derive(Clone, Default, clap::Args)]
pub(crate) struct Folders {
    /// Folder of the report and of its other files [default: target/bench]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Folder of the dev cluster [default: target/grove-bench]
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
}

/// Flags of `bench compute-domains`.
#[derive(Clone, clap::Args)]
pub(crate) struct ComputeDomains {
    /// Number of sets
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) sets: u32,
    /// Replicas of each set; each has a ComputeDomain
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) replicas: u32,
    /// Rounds of each variant
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,
    #[command(flatten)]
    pub(crate) folders: Folders,
}

/// Flags of `bench convergence`.
#[derive(Clone, Default, clap::Args)]
pub(crate) struct Convergence {
    /// The strategies, for example `rmw-status` [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = parse_strategy)]
    pub(crate) strategies: Vec<Strategy>,
    /// Numbers of daemons; a clique has 18
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "18,72,144", value_parser = parse_nodes)]
    pub(crate) nodes: Vec<usize>,
    /// Rounds of each strategy and size
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,
    /// Start no run after this time
    #[arg(long, value_name = "M", default_value_t = 40, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit_minutes: u64,
    /// Seconds after which a run ends. A strategy that did not converge runs with no larger size
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) cutoff_seconds: u64,
    #[command(flatten)]
    pub(crate) folders: Folders,
}

impl Convergence {
    pub(crate) fn cutoff(&self) -> Duration {
        Duration::from_secs(self.cutoff_seconds)
    }

    pub(crate) fn strategies(&self) -> Vec<Strategy> {
        if self.strategies.is_empty() {
            Strategy::ALL.map(|(_, strategy)| strategy).into()
        } else {
            self.strategies.clone()
        }
    }
}

fn parse_strategy(name: &str) -> Result<Strategy, String> {
    let all = Strategy::ALL.map(|(name, _)| name).join(", ");
    Strategy::of_name(name).ok_or_else(|| format!("is no strategy; use {all}"))
}

pub(super) fn parse_nodes(text: &str) -> Result<usize, String> {
    let nodes = text.parse::<usize>().ok().filter(|nodes| *nodes > 0 && nodes % MAX_NODES_PER_CLIQUE == 0);
    nodes.ok_or_else(|| format!("must be a multiple of {MAX_NODES_PER_CLIQUE}, so that each clique is full"))
}

/// Flags of `bench resource-claims`.
#[derive(Clone, clap::Args)]
pub(crate) struct ResourceClaims {
    /// Number of cliques, a multiple of ten; each has four pods
    #[arg(long, value_name = "N", default_value_t = 250, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) cliques: u32,
    /// Rounds of each variant
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,
    #[command(flatten)]
    pub(crate) folders: Folders,
}

/// Flags of `bench update`.
#[derive(Clone, clap::Args)]
pub(crate) struct Update {
    /// Replicas of the set, each one clique of two pods
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(2..))]
    pub(crate) replicas: u32,
    /// How many replicas of the set are updated at once
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_unavailable: u32,
    /// Rounds of each variant
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,
    #[command(flatten)]
    pub(crate) folders: Folders,
}

/// Flags of `bench admission`.
#[derive(Clone, clap::Args)]
pub(crate) struct Admission {
    /// Number of reviews
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1000..))]
    pub(crate) reviews: u64,
    #[command(flatten)]
    pub(crate) folders: Folders,
}

/// Flags of `bench scale`.
#[derive(Clone, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is one flag")]
pub(crate) struct Scale {
    /// Replicas of the set, each one clique of two pods; several sizes show how costs grow [default: 500, with --packed 100]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(2..))]
    replicas: Vec<u32>,
    /// Short for --replicas 125,250,500,1000,2000
    #[arg(long, conflicts_with = "replicas")]
    growth: bool,
    /// Rounds of each size
    #[arg(long, value_name = "N", default_value = "5")]
    pub(crate) repeat: u32,
    /// Also scale the set to twice its size, and compare that with deploying it and with the baseline
    #[arg(long)]
    pub(crate) double: bool,
    /// Let another client list all pods twice a second during the measurements
    #[arg(long)]
    pub(crate) list_pods: bool,
    /// Use the gang scheduling of Kubernetes, an alpha API, so that each gang has a PodGroup; the files have names of their own
    #[arg(long)]
    pub(crate) native: bool,
    /// Like --native, with cliques of ten pods; all pods of a clique must be in one rack
    #[arg(long, conflicts_with_all = ["native", "growth"])]
    pub(crate) packed: bool,
    #[command(flatten)]
    pub(crate) folders: Folders,
}

impl Scale {
    pub(crate) fn sizes(&self) -> Vec<u32> {
        match self {
            Self { growth: true, .. } => vec![125, 250, 500, 1000, 2000],
            Self { packed, replicas, .. } if replicas.is_empty() => vec![if *packed { 100 } else { 500 }],
            Self { replicas, .. } => replicas.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Benchmark;
    use crate::args::{Args, Verb};
    use clap::Parser;

    fn sizes(flags: &[&str]) -> Vec<u32> {
        let Ok(Args { verb: Verb::Bench(Benchmark::Scale(scale)), .. }) =
            Args::try_parse_from(["xtask", "bench", "scale"].iter().chain(flags))
        else {
            panic!("{flags:?} are not valid")
        };
        scale.sizes()
    }

    #[test]
    fn invalid_strategies_and_sizes_name_the_valid_ones() {
        let error = |flag, value| {
            let parsed = Args::try_parse_from(["xtask", "bench", "convergence", flag, value]);
            parsed.err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert!(error("--strategies", "ours").contains("is no strategy; use rmw-status, ssa-status, rmw-clique"));
        assert!(error("--nodes", "18,20").contains("must be a multiple of 18"));
        assert_eq!(error("--nodes", "18,36"), "");
    }

    #[test]
    fn the_default_size_has_a_thousand_pods() {
        assert_eq!(sizes(&[]), [500]);
        assert_eq!(sizes(&["--native"]), [500]);
        assert_eq!(sizes(&["--packed"]), [100]);
        assert_eq!(sizes(&["--packed", "--replicas", "20,40"]), [20, 40]);
        assert_eq!(sizes(&["--growth"]), [125, 250, 500, 1000, 2000]);
        assert!(Args::try_parse_from(["xtask", "bench", "scale", "--packed", "--native"]).is_err());
    }
}
