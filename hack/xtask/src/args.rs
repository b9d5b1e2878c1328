//! The command line: every verb, every flag, and the environment variables that are listened to.

use crate::balancer::Backend;
use clap::{Parser, Subcommand};
use std::path::PathBuf;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Developer verbs of the Grove suite")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) source: Source,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Where the Kubernetes that we run against comes from. The variable KUBECONFIG is never read, so that nobody's
/// production cluster is worked on by accident.
#[derive(Clone, clap::Args)]
pub(crate) struct Source {
    /// Use this cluster in place of starting one
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Take etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok and kubectl from this folder
    #[arg(long, global = true, value_name = "DIR", env = "GROVE_BIN_DIR", hide_env_values = true)]
    pub(crate) bin_dir: Option<PathBuf>,
    /// Where built control planes are kept [default: ~/.cache]
    #[arg(long, global = true, value_name = "DIR", env = "GROVE_CACHE_DIR", hide_env_values = true)]
    pub(crate) cache_dir: Option<PathBuf>,
    #[arg(long, global = true, hide = true, env = "XDG_CACHE_HOME")]
    pub(crate) xdg_cache_home: Option<PathBuf>,
}

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Start a control plane, its nodes and every service, and leave them running
    Up(Wish),
    /// End everything that `up` started
    Down {
        /// The plane's folder [default: target/grove]
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// Show a set of cliques coming up, scaling, healing and going away
    Demo {
        /// End with nothing left; otherwise the cluster stays for you to play with
        #[arg(long)]
        once: bool,
        #[command(flatten)]
        wish: Wish,
    },
    /// Run every test, from unit to end-to-end
    Test {
        /// Only tests whose name contains this
        filter: Option<String>,
        /// Folder of the plane that the end-to-end tests share [default: target/grove-test]
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// Run what takes too long for every change
    #[command(subcommand)]
    Soak(Soak),
    /// Measure what the suite does beside the same writes made by hand
    #[command(subcommand)]
    Bench(Benchmark),
    /// Write crds/ and the RBAC manifests from the code
    Generate,
    /// Hand connections to whichever webhook server is ready, as kube-proxy does; started by `up`
    #[command(hide = true)]
    Balance {
        #[arg(long)]
        port: u16,
        /// PORT:PROBE-PORT
        #[arg(long)]
        backend: Vec<Backend>,
        #[arg(long)]
        dir: PathBuf,
    },
    /// Renew the services' tokens for as long as the plane runs; started by `up`
    #[command(hide = true)]
    KeepTokens {
        #[arg(long)]
        dir: PathBuf,
    },
}

#[derive(Subcommand)]
pub(crate) enum Soak {
    /// Kill services right after a write was sent, while sets are created, scaled and deleted
    Kills(Kills),
    /// Ask for admission with objects that nobody would write, of the rules and of each webhook, and check the laws that hold
    /// for all
    Fuzz(Fuzz),
    /// Certificates that change every two seconds, and restarts of who serves them, while sets are created all the time
    Rotation(Rotation),
}

/// How many inputs, and which.
#[derive(Clone, clap::Args)]
pub(crate) struct Fuzz {
    /// Inputs for each webhook; the rules by themselves get four times as many
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(crate) inputs: u64,
    /// The first input follows from this number, each further one from the next
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Only these: `rules`, or a webhook by the last part of its path [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) of: Vec<String>,
}

/// For how long.
#[derive(Clone, clap::Args)]
pub(crate) struct Rotation {
    /// Certificates, one every two seconds
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub(crate) rotations: u32,
    /// Restarts of each of the two replicas
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) restarts: u32,
    /// Beside this folder lies the plane's [default: target/grove-soak]
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
}

/// How often, and where.
#[derive(Clone, clap::Args)]
pub(crate) struct Kills {
    /// Kills in all; twenty in each life of the sets
    #[arg(long = "kills", value_name = "N", default_value_t = 200)]
    pub(crate) count: u32,
    /// The places follow from this number
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Kill webhook servers, one of two at a time, in place of controllers; these kills follow no seed
    #[arg(long)]
    pub(crate) webhooks: bool,
    /// Beside this folder lies the plane's [default: target/grove-soak]
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Subcommand)]
pub(crate) enum Benchmark {
    /// A set that is deployed, scaled in, scaled out and deleted: times, writes, processor time and memory
    Scale(Scale),
    /// Reviews of a set, sent to the webhook server: processor time of each, and memory over all of them
    Admission(Admission),
}

/// How many reviews.
#[derive(Clone, clap::Args)]
pub(crate) struct Admission {
    /// Reviews in all
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1000..))]
    pub(crate) reviews: u64,
    /// Where the report goes [default: target/bench]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// The plane's folder [default: target/grove-bench]
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
}

/// What to measure.
#[derive(Clone, clap::Args)]
pub(crate) struct Scale {
    /// Replicas of the set, each one clique of two pods; several for how costs grow with the size
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(2..), default_value = "500")]
    replicas: Vec<u32>,
    /// The same as --replicas 125,250,500,1000,2000
    #[arg(long, conflicts_with = "replicas")]
    growth: bool,
    /// Rounds of each size
    #[arg(long, value_name = "N", default_value = "5")]
    pub(crate) repeat: u32,
    /// Where the report, the CSV and the plots go [default: target/bench]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// The plane's folder [default: target/grove-bench]
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
}

impl Scale {
    pub(crate) fn sizes(&self) -> Vec<u32> {
        if self.growth { vec![125, 250, 500, 1000, 2000] } else { self.replicas.clone() }
    }
}

/// What the plane should be like.
#[derive(Clone, Default, clap::Args)]
pub(crate) struct Wish {
    /// The plane's folder [default: target/grove]
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// Port of the API server [default: a free one]
    #[arg(long)]
    pub(crate) port: Option<u16>,
    /// Number of nodes [default: 10]
    #[arg(long, value_name = "N")]
    pub(crate) nodes: Option<u32>,
    /// The configuration of the services, an `OperatorConfiguration` [default: the one in deploy/base/common]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Processes of each Grove service, of which one acts [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) replicas: Option<u32>,
    /// Have Kubernetes' own gangs, which are an alpha API
    #[arg(long)]
    pub(crate) native_gangs: bool,
    /// Start no Grove service
    #[arg(long)]
    pub(crate) no_services: bool,
}

impl Wish {
    /// How many processes of each service.
    pub(crate) fn replicas(&self) -> u32 {
        self.replicas.unwrap_or(1).max(1)
    }
}
