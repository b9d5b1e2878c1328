//! `soak formation`: a tenth of the daemons of a domain is replaced while the domain forms, half of them on other nodes. In a third of the
//! runs mnnvl-controller is killed meanwhile, in another third the API server. Each domain must converge, with the indices from 0 in each
//! clique, and no started daemon may get another index.

use crate::args::{Formation, Source, UpArgs};
use crate::dev_cluster::{DevCluster, OnExit, with_dev_cluster};
use crate::domain_simulation::cluster::{CONTROLLER, Simulation, up_args};
use crate::domain_simulation::daemon::Program;
use crate::domain_simulation::domain::{Setup, SimulatedDomain};
use crate::domain_simulation::formation::STEPS;
use crate::workspace;
use anyhow::{Context, Result, bail, ensure};
use grove_api_types::compute_domain::strategy::Strategy;
use std::time::Duration;

/// Bounds a hang. A machine may be many times slower than usual.
const TIMEOUT: Duration = Duration::from_mins(5);

/// What happens when the domain has come this far.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Disturbance {
    at: usize,
    action: Action,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    /// The daemon with this number is replaced.
    Replace {
        daemon: usize,
        on_other_node: bool,
    },
    RestartController,
    RestartApiServer,
}

/// Forms the domains one after another.
pub(crate) async fn run(source: &Source, args: Formation) -> Result<()> {
    if source.kubeconfig.is_some() {
        bail!("this test ends processes of a dev cluster; omit --kubeconfig");
    }
    let dir = args.folder.dir.clone().unwrap_or_else(|| workspace::root().join(super::DIR));
    let up = UpArgs { no_build: args.no_build, ..up_args(dir, 1) };
    with_dev_cluster(source, &up, OnExit::Stop, async |cluster: &mut DevCluster| {
        let client = cluster.client().await?;
        let simulation = Simulation::start(cluster, client).await?;
        Simulation::end_kubernetes(cluster).await?;
        for run in 0..args.runs {
            let disturbances = disturbances(&args, run);
            let mut context = Run { cluster, source, up: &up, simulation: &simulation };
            context.form(&args, disturbances).await.with_context(|| format!("run {run} with seed {}", args.seed))?;
        }
        println!("{} domains of {} daemons converged", args.runs, args.nodes);
        Ok(())
    })
    .await
}

/// The disturbances of a run, in the order of their moments.
fn disturbances(args: &Formation, run: u32) -> Vec<Disturbance> {
    let mut random = fastrand::Rng::with_seed(args.seed.wrapping_mul(1_000_003).wrapping_add(u64::from(run)));
    let nodes = args.nodes;
    let replaced = random.choose_multiple(0..nodes, nodes.div_ceil(10));
    let replacements = replaced.into_iter().enumerate();
    let mut actions: Vec<_> =
        replacements.map(|(at, daemon)| Action::Replace { daemon, on_other_node: at % 2 == 1 }).collect();
    actions.extend(match run % 3 {
        0 => Some(Action::RestartController),
        1 => Some(Action::RestartApiServer),
        _ => None,
    });
    let mut disturbances: Vec<_> =
        actions.into_iter().map(|action| Disturbance { at: random.usize(0..STEPS * nodes), action }).collect();
    disturbances.sort_by_key(|disturbance| disturbance.at);
    disturbances
}

struct Run<'a> {
    cluster: &'a mut DevCluster,
    source: &'a Source,
    up: &'a UpArgs,
    simulation: &'a Simulation,
}

impl Run<'_> {
    async fn form(&mut self, args: &Formation, disturbances: Vec<Disturbance>) -> Result<()> {
        let nodes = args.nodes;
        let setup = Setup { program: Program::Daemon(Strategy::ControllerClique), nodes, rate: None };
        let mut domain = SimulatedDomain::create(self.simulation, setup).await?;
        let members: Vec<_> = domain.members_to_start();
        domain.start();
        for Disturbance { at, action } in disturbances {
            domain.wait_for_progress(at, TIMEOUT).await?;
            // One write of mnnvl-controller may contain many entries.
            domain.catch_up();
            println!("after {} of {} steps: {action:?}", domain.formation.progress(), STEPS * nodes);
            match action {
                Action::Replace { daemon, on_other_node } => domain.replace(members[daemon].clone(), on_other_node),
                Action::RestartController => self.cluster.restart_service(CONTROLLER, self.up).await?,
                Action::RestartApiServer => self.cluster.restart_api_server(self.source, self.up).await?,
            }
        }
        let is_settled = domain.settle(TIMEOUT).await?;
        let formation = &domain.formation;
        ensure!(is_settled, "the domain did not converge: {}", formation.violations().join("; "));
        ensure!(formation.restarts == 0, "the index of {} started daemons changed", formation.restarts);
        domain.remove().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::SoakFolder;
    use std::collections::BTreeSet;

    fn of_run(run: u32) -> Vec<Disturbance> {
        let args = Formation { runs: 3, nodes: 288, seed: 1, no_build: true, folder: SoakFolder { dir: None } };
        disturbances(&args, run)
    }

    #[test]
    fn a_tenth_of_the_daemons_is_replaced_half_of_them_on_other_nodes() {
        let replaced = of_run(2).into_iter().map(|disturbance| match disturbance.action {
            Action::Replace { daemon, on_other_node } => (daemon, on_other_node),
            other @ (Action::RestartController | Action::RestartApiServer) => panic!("{other:?}"),
        });
        let replaced: BTreeSet<_> = replaced.collect();
        let on_other_node = replaced.iter().filter(|(_, on_other_node)| *on_other_node).count();
        assert_eq!((replaced.len(), on_other_node), (29, 14));
    }

    #[test]
    fn processes_are_killed_in_two_thirds_of_the_runs() {
        let has = |run, action| of_run(run).iter().any(|disturbance| disturbance.action == action);
        assert!(has(0, Action::RestartController) && !has(0, Action::RestartApiServer));
        assert!(has(1, Action::RestartApiServer) && !has(1, Action::RestartController));
        assert!(of_run(3).is_sorted_by_key(|disturbance| disturbance.at) && of_run(3) != of_run(0));
    }
}
