//! The command line: all verbs, flags and environment variables.

mod benchmark;

use self::benchmark::parse_nodes;
pub(crate) use self::benchmark::{Admission, Benchmark, ComputeDomains, Convergence, ResourceClaims, Scale, Update};

use crate::balancer::Backend;
use crate::workload_api::WorkloadApi;
use clap::{Parser, Subcommand};
use std::net::IpAddr;
use std::path::PathBuf;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Developer verbs of the Grove suite")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) source: Source,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Where the Kubernetes control plane comes from. `cargo xtask` ignores the variable KUBECONFIG, so that it never changes a
/// production cluster by accident.
#[derive(Clone, clap::Args)]
pub(crate) struct Source {
    /// Use this cluster instead of starting a control plane
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Use etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok and kubectl from this folder
    #[arg(long, global = true, value_name = "DIR", env = "GROVE_BIN_DIR", hide_env_values = true)]
    pub(crate) bin_dir: Option<PathBuf>,
    /// Cache of built control planes [default: ~/.cache]
    #[arg(long, global = true, value_name = "DIR", env = "GROVE_CACHE_DIR", hide_env_values = true)]
    pub(crate) cache_dir: Option<PathBuf>,
    #[arg(long, global = true, hide = true, env = "XDG_CACHE_HOME")]
    pub(crate) xdg_cache_home: Option<PathBuf>,
}

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Start a dev cluster (control plane, simulated nodes, Grove services) and leave it running
    Up(UpArgs),
    /// End all processes of a dev cluster
    Down {
        /// Folder of the dev cluster [default: target/grove]
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// Show how a PodCliqueSet is deployed, scaled, repaired and deleted; with --native-gangs, how a gang is bound as a whole
    Demo {
        /// Delete everything at the end; without this flag the cluster keeps running
        #[arg(long)]
        once: bool,
        #[command(flatten)]
        up: UpArgs,
    },
    /// Run all tests, from unit tests to end-to-end tests
    Test(TestArgs),
    /// Run tests that take too long for every change
    #[command(subcommand)]
    Soak(Soak),
    /// Measure the services and compare them with a plain client that makes the same writes
    #[command(subcommand)]
    Bench(Benchmark),
    /// Write crds/, the RBAC manifests and the webhook manifests from the code
    Generate,
    /// Forward connections to the ready replicas of the webhook server, as kube-proxy does; `up` starts this verb
    #[command(hide = true)]
    Balance {
        #[arg(long)]
        address: IpAddr,
        #[arg(long)]
        port: u16,
        /// PORT:PROBE-PORT
        #[arg(long)]
        backend: Vec<Backend>,
        #[arg(long)]
        dir: PathBuf,
    },
    /// Renew the ServiceAccount tokens while the dev cluster runs; `up` starts this verb
    #[command(hide = true)]
    RefreshTokens {
        #[arg(long)]
        dir: PathBuf,
    },
}

#[derive(Subcommand)]
pub(crate) enum Soak {
    /// Kill services right after they sent a write, while sets are created, scaled and deleted
    Kills(Kills),
    /// Send random objects to the admission rules and to each webhook, and check invariants
    Fuzz(Fuzz),
    /// Let users and controllers act in random order in a model of a cluster, and check the promises of updates after each step
    Rehearsal(Rehearsal),
    /// Apply each planted defect of a rule of updates to a copy of the repository, and check that its film fails
    Defects,
    /// Rotate certificates every two seconds and restart webhook servers, while sets are created
    Rotation(Rotation),
    /// Create and delete sets of 420 pods, and compare the heap of each service with its heap after ten rounds
    Churn(Churn),
    /// Measure a normal set alone, and beside tenants that cause as much work as admission allows
    Hostile(Hostile),
    /// Delete cliques and gangs, and change their sets, while the scheduler binds the gangs; with --topologies, change their topologies
    Races(Races),
    /// Create gangs with topology constraints at three levels, and wait for a minute without writes
    SteadyState(SteadyState),
    /// Create sets that refer to one ClusterTopology, and count the writes of its status
    Topologies(Topologies),
    /// Create objects with the names, labels and UIDs of the objects of a set in another namespace
    ForeignObjects(ForeignObjects),
    /// Replace a tenth of the daemons of a ComputeDomain while it forms, and restart mnnvl-controller or the API server
    Formation(Formation),
    /// Change a PodGang whose conditions two controllers and a third client write
    Writers(Writers),
}

/// The folder of a `soak` verb.
#[derive(Clone, clap::Args)]
pub(crate) struct SoakFolder {
    /// The folder of each dev cluster is created next to this folder [default: target/grove-soak]
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
}

/// Flags of `soak races`.
#[derive(Clone, clap::Args)]
pub(crate) struct Races {
    /// Number of sets, each of which is changed once
    #[arg(long = "races", value_name = "N", default_value_t = 100)]
    pub(crate) count: u32,
    /// Seed that chooses the changes and their moments
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Change the topologies that the sets refer to, and nothing else
    #[arg(long)]
    pub(crate) topologies: bool,
    #[command(flatten)]
    pub(crate) folder: SoakFolder,
}

/// Flags of `soak steady-state`.
#[derive(Clone, clap::Args)]
pub(crate) struct SteadyState {
    /// Number of sets without the native gang API
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) sets: u32,
    /// Number of gangs of eight pods
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) gangs: u32,
    #[command(flatten)]
    pub(crate) folder: SoakFolder,
}

/// Flags of `soak topologies`.
#[derive(Clone, clap::Args)]
pub(crate) struct Topologies {
    /// Number of sets
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) sets: u32,
    #[command(flatten)]
    pub(crate) folder: SoakFolder,
}

/// Flags of `soak foreign-objects`.
#[derive(Clone, clap::Args)]
pub(crate) struct ForeignObjects {
    /// Number of objects that the API server accepts
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) objects: u32,
    #[command(flatten)]
    pub(crate) folder: SoakFolder,
}

/// Flags of `soak formation`.
#[derive(Clone, clap::Args)]
pub(crate) struct Formation {
    /// Number of domains, one after another
    #[arg(long, value_name = "N", default_value_t = 51, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,
    /// Daemons of each domain; a clique has 18
    #[arg(long, value_name = "N", default_value_t = 288, value_parser = parse_nodes)]
    pub(crate) nodes: usize,
    /// Seed that chooses the daemons and the moments
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// The services are built already
    #[arg(long, hide = true)]
    pub(crate) no_build: bool,
    #[command(flatten)]
    pub(crate) folder: SoakFolder,
}

/// Flags of `soak writers`.
#[derive(Clone, clap::Args)]
pub(crate) struct Writers {
    /// Number of changes of the PodGang
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) rounds: u32,
    #[command(flatten)]
    pub(crate) folder: SoakFolder,
}

/// Flags of `soak fuzz`.
#[derive(Clone, clap::Args)]
pub(crate) struct Fuzz {
    /// Inputs for each webhook; the admission rules get four times as many
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(crate) inputs: u64,
    /// Seed of the first input; each further input has the next seed
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Fuzz only these: `rules`, or a webhook by the last segment of its path [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) of: Vec<String>,
}

/// Flags of `soak rehearsal`.
#[derive(Clone, clap::Args)]
pub(crate) struct Rehearsal {
    /// Number of steps
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(crate) steps: u64,
    /// Seed of the order of the steps
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
}

/// Flags of `soak rotation`.
#[derive(Clone, clap::Args)]
pub(crate) struct Rotation {
    /// Number of certificates, one every two seconds
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub(crate) rotations: u32,
    /// Restarts of each of the two replicas
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) restarts: u32,
    #[command(flatten)]
    pub(crate) folder: SoakFolder,
}

/// Flags of `soak churn`.
#[derive(Clone, clap::Args)]
pub(crate) struct Churn {
    /// Number of rounds; each creates and deletes a set
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(15..))]
    pub(crate) rounds: u32,
    #[command(flatten)]
    pub(crate) folder: SoakFolder,
}

/// Flags of `soak hostile`.
#[derive(Clone, clap::Args)]
pub(crate) struct Hostile {
    /// Pods of the clique with a large pod spec
    #[arg(long, value_name = "N", default_value_t = 600)]
    pub(crate) large_pods: u32,
    /// Bytes of this pod spec
    #[arg(long, value_name = "N", default_value_t = 900_000)]
    pub(crate) spec_bytes: u32,
    /// Gangs of the set with many small pods
    #[arg(long, value_name = "N", default_value_t = 12)]
    pub(crate) gangs: u32,
    /// Pods of each of these gangs; admission allows 8000 pods and PodCliques per gang, and 100000 objects per set
    #[arg(long, value_name = "N", default_value_t = 7999)]
    pub(crate) gang_pods: u32,
    /// Pod groups of one pod of the gang with many pod groups; admission allows 4000
    #[arg(long, value_name = "N", default_value_t = 4000)]
    pub(crate) pod_groups: u32,
    /// Cliques of one pod that wait for quota
    #[arg(long, value_name = "N", default_value_t = 3000)]
    pub(crate) cliques: u32,
    /// Cliques of each of the four sets above a quota of 100 cliques
    #[arg(long, value_name = "N", default_value_t = 5000)]
    pub(crate) quota_cliques: u32,
    /// Claims of each pod of a clique that is scaled
    #[arg(long, value_name = "N", default_value_t = 300)]
    pub(crate) pod_claims: u32,
    /// Sets of 62,000 small maps
    #[arg(long, value_name = "N", default_value_t = 12)]
    pub(crate) dense_sets: u32,
    /// Measure only these tenants, and leave the page of the report as it is: for example `claims-per-pod` or `dense-sets` [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) of: Vec<String>,
    /// Folder of the report [default: target/bench]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) folder: SoakFolder,
}

/// Flags of `soak kills`.
#[derive(Clone, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is one flag")]
pub(crate) struct Kills {
    /// Number of kills; twenty while each group of sets is created, scaled and deleted
    #[arg(long = "kills", value_name = "N", default_value_t = 200)]
    pub(crate) count: u32,
    /// Seed that chooses the writes after which a service is killed
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Kill one of two webhook servers at a time instead of controllers; these kills do not depend on the seed
    #[arg(long)]
    pub(crate) webhooks: bool,
    /// Kill controllers in a cluster with native gangs
    #[arg(long, conflicts_with = "webhooks")]
    pub(crate) native_gangs: bool,
    /// Kill mnnvl-controller and pcs-controller in a cluster with ComputeDomains
    #[arg(long, conflicts_with_all = ["webhooks", "native_gangs"])]
    pub(crate) compute_domains: bool,
    /// Kill pcs-controller and pclq-controller in a cluster with shared ResourceClaims
    #[arg(long, conflicts_with_all = ["webhooks", "native_gangs", "compute_domains"])]
    pub(crate) resource_claims: bool,
    /// Kill pcs-controller and pclq-controller while sets with a start-up order are created, scaled and deleted
    #[arg(long, conflicts_with_all = ["webhooks", "native_gangs", "compute_domains", "resource_claims"])]
    pub(crate) startup: bool,
    /// Kill pcs-controller and pclq-controller while 50 sets are updated
    #[arg(long, conflicts_with_all = ["webhooks", "native_gangs", "compute_domains", "resource_claims", "startup"])]
    pub(crate) updates: bool,
    #[command(flatten)]
    pub(crate) folder: SoakFolder,
}

/// Flags of `test`.
#[derive(Clone, clap::Args)]
pub(crate) struct TestArgs {
    /// Run only tests whose name contains this text
    pub(crate) filter: Option<String>,
    /// Run no test that needs services or a control plane of its own
    #[arg(long)]
    pub(crate) fast: bool,
    /// Folder of the dev cluster that the end-to-end tests share [default: target/grove-test]
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
}

/// Flags of `up`; `demo` has them, too.
#[derive(Clone, Default, clap::Args)]
pub(crate) struct UpArgs {
    /// Folder of the dev cluster [default: target/grove]
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// Port of the API server [default: a free port]
    #[arg(long)]
    pub(crate) port: Option<u16>,
    /// Number of nodes [default: 10]
    #[arg(long, value_name = "N")]
    pub(crate) nodes: Option<u32>,
    /// Configuration of the services, an `OperatorConfiguration` [default: the one in deploy/base/common]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Also install the CRDs in this file, for example those of NVIDIA's DRA driver
    #[arg(long = "crd", value_name = "FILE")]
    pub(crate) crds: Vec<PathBuf>,
    /// Processes of each Grove service; leader election chooses the active one [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) replicas: Option<u32>,
    /// Use the gang scheduling of Kubernetes, an alpha API; without MODE: on
    #[arg(long, value_enum, value_name = "MODE", num_args = 0..=1, require_equals = true, default_missing_value = "on", default_value_t)]
    pub(crate) native_gangs: WorkloadApi,
    /// Register the webhooks in the cluster of --kubeconfig. Its API server calls this host name or IP address of this machine; all
    /// interfaces of this machine accept connections [default: without webhooks]
    #[arg(long, value_name = "HOST")]
    pub(crate) webhook_host: Option<String>,
    /// Start no Grove service
    #[arg(long)]
    pub(crate) no_services: bool,
    /// The services are built already
    #[arg(long, hide = true)]
    pub(crate) no_build: bool,
    /// Only start the processes of a dev cluster again that have ended, and change no object
    #[arg(long, hide = true, requires = "no_build")]
    pub(crate) only_processes: bool,
}

impl UpArgs {
    /// The number of processes of each service.
    pub(crate) fn replicas(&self) -> u32 {
        self.replicas.unwrap_or(1).max(1)
    }
}
