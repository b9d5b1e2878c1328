//! `bench convergence`: how long a ComputeDomain with many daemons needs until it is Ready, with each strategy, and what that costs.
//!
//! [`case`] has the order of the runs, [`measurement`] what one run shows, [`api_server`] the figures of the API server. [`report`] and
//! [`charts`] write the page, the CSV file and the plots.

mod api_server;
mod case;
mod charts;
mod end_to_end;
mod measurement;
mod report;
mod thresholds;

use super::machine;
use crate::args::{Convergence, Source};
use crate::dev_cluster::{DevCluster, OnExit, with_dev_cluster};
use crate::domain_simulation::cluster::{Simulation, up_args};
use crate::domain_simulation::domain::{Setup, SimulatedDomain};
use crate::proc;
use anyhow::{Context, Result, ensure};
use api_server::ApiServer;
use case::{Case, Schedule};
use grove_api_types::compute_domain::strategy::parameters::{CLIENT_BURST, CLIENT_REQUESTS_PER_SECOND};
use grove_api_types::configuration::RateLimit;
use measurement::Measurement;
use std::time::{Duration, Instant};

/// Measures, writes the report, and fails if an invariant is violated or a threshold is not met.
pub(crate) async fn run(source: &Source, args: &Convergence) -> Result<()> {
    let dir = super::prepare(source, args.folders.dir.clone())?;
    with_dev_cluster(source, &up_args(dir, end_to_end::NODES), OnExit::Stop, async |cluster: &mut DevCluster| {
        let conditions = machine::describe(cluster).await?;
        let client = super::client(cluster).await?;
        let simulation = Simulation::start(cluster, client.clone()).await?;
        let end_to_end = end_to_end::measure(cluster, &simulation, args).await?;
        Simulation::end_kubernetes(cluster).await?;
        let bench = Bench { cluster, simulation, server: ApiServer::of(cluster, client)?, args };
        let measurements = bench.run_all().await?;
        report::write(&measurements, &end_to_end, &conditions, args)?;
        let violations: Vec<_> = measurements.iter().filter_map(Measurement::violation).collect();
        ensure!(violations.is_empty(), "invariants are violated:\n{}", violations.join("\n"));
        thresholds::check(&measurements)
    })
    .await
}

struct Bench<'a> {
    cluster: &'a DevCluster,
    simulation: Simulation,
    server: ApiServer,
    args: &'a Convergence,
}

impl Bench<'_> {
    /// Runs all cases, or until the time is over.
    async fn run_all(&self) -> Result<Vec<Measurement>> {
        let (began, limit) = (Instant::now(), Duration::from_mins(self.args.limit_minutes));
        let mut schedule = Schedule::new(self.args);
        let mut measurements = Vec::new();
        println!("warming up; not measured");
        self.run(Schedule::warm_up()).await?;
        while let Some(case) = schedule.next() {
            if began.elapsed() > limit {
                println!("{limit:?} are over; the other runs are left out");
                break;
            }
            let measurement = self.run(case).await.with_context(|| case.to_string())?;
            println!("{case}: {measurement}; load {:.1}", proc::load());
            if !measurement.is_converged() {
                schedule.skip_larger(case);
            }
            measurements.push(measurement);
        }
        Ok(measurements)
    }

    async fn run(&self, case: Case) -> Result<Measurement> {
        let rate = RateLimit { qps: f64::from(CLIENT_REQUESTS_PER_SECOND), burst: CLIENT_BURST };
        let setup = Setup { program: case.program, nodes: case.nodes, rate: case.is_limited.then_some(rate) };
        let mut domain = SimulatedDomain::create(&self.simulation, setup).await?;
        let before = self.server.read().await?;
        domain.start();
        let cutoff = Duration::from_secs(self.args.cutoff_seconds);
        self.cluster.while_alive(async { Ok(domain.wait_until_converged(cutoff).await) }).await?;
        let after = self.server.read().await?;
        let size = self.server.largest_object(case.program, &domain.domain).await?;
        let measurement = Measurement::of(case, &domain, after.since(&before), size);
        domain.remove().await?;
        Ok(measurement)
    }
}
