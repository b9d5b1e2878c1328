//! The command line: every verb, every flag, and the environment variables that are listened to.

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
    /// Write crds/ and the RBAC manifests from the code
    Generate,
    /// Renew the services' tokens for as long as the plane runs; started by `up`
    #[command(hide = true)]
    KeepTokens {
        #[arg(long)]
        dir: PathBuf,
    },
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
    /// Start no Grove service
    #[arg(long)]
    pub(crate) no_services: bool,
}
