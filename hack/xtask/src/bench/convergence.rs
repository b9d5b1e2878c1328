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
use crate::args::{Convergence, Source, UpArgs};
use crate::dev_cluster::{DevCluster, OnExit, with_dev_cluster};
use crate::domain_simulation::cluster::{Simulation, up_args, write_configuration};
use crate::domain_simulation::domain::{Setup, SimulatedDomain};
use crate::proc;
use anyhow::{Context, Result, ensure};
use api_server::ApiServer;
use case::{Case, Schedule};
use grove_api_types::compute_domain::strategy::parameters::{CLIENT_BURST, CLIENT_REQUESTS_PER_SECOND};
use grove_api_types::configuration::RateLimit;
use measurement::Measurement;
use report::Report;
use serde_json::json;
use std::time::{Duration, Instant};

/// The limit of client-go.
const CLIENT_LIMIT: RateLimit = RateLimit { qps: CLIENT_REQUESTS_PER_SECOND, burst: CLIENT_BURST };
/// A converged domain whose objects still change after this time counts as it is.
const SETTLING_TIMEOUT: Duration = Duration::from_secs(10);

/// Measures, writes the report, and fails if an invariant is violated or a threshold is not met.
pub(crate) async fn run(source: &Source, args: &Convergence) -> Result<()> {
    let dir = super::prepare(source, args.folders.dir.clone())?;
    with_dev_cluster(source, &up_args(dir, end_to_end::NODES), OnExit::Stop, async |cluster: &mut DevCluster| {
        let deadline = Instant::now() + Duration::from_mins(args.limit_minutes);
        let mut conditions = machine::describe(cluster).await?;
        conditions.extend(CONDITIONS.map(str::to_owned));
        let client = super::client(cluster).await?;
        let simulation = Simulation::start(cluster, client.clone()).await?;
        let end_to_end = end_to_end::measure(cluster, &simulation, args).await?;
        Simulation::end_kubernetes(cluster).await?;
        let server = ApiServer::of(cluster, client)?;
        let report = Report { measurements: Vec::new(), end_to_end, conditions, left_out: 0 };
        let mut bench = Bench { cluster, simulation, server, args, report, is_limited: false };
        let outcome = bench.run_all(deadline).await;
        let report = bench.report;
        // The report also has the runs before an error.
        println!("\n{}", report::write(&report, args)?);
        outcome?;
        let violations: Vec<_> = report.measurements.iter().filter_map(Measurement::violation).collect();
        ensure!(violations.is_empty(), "invariants are violated:\n{}", violations.join("\n"));
        thresholds::check(&report.measurements, args.cutoff())
    })
    .await
}

/// The conditions that the flags of the dev cluster do not show.
const CONDITIONS: [&str; 3] = [
    "kube-apiserver: 1200 requests and 600 mutating requests in flight, three times the defaults; an audit log of metadata; GOGC 700",
    "All daemons of a domain run in one process on the same machine, so they also compete with the API server for the processors",
    "With client limits, each daemon and mnnvl-controller send 5 requests per second, after a burst of 10",
];

struct Bench<'a> {
    cluster: &'a mut DevCluster,
    simulation: Simulation,
    server: ApiServer,
    args: &'a Convergence,
    report: Report,
    /// Whether mnnvl-controller has a limit of requests.
    is_limited: bool,
}

impl Bench<'_> {
    /// Runs all cases, or until the time is over. Writes the report after each round, so that an interrupted benchmark keeps its figures.
    async fn run_all(&mut self, deadline: Instant) -> Result<()> {
        let mut schedule = Schedule::new(self.args);
        println!("warming up; not measured");
        self.run(Schedule::warm_up()).await?;
        let mut round = 1;
        while Instant::now() < deadline {
            let Some(case) = schedule.next() else { return Ok(()) };
            if case.round > round {
                round = case.round;
                report::write(&self.report, self.args)?;
            }
            let measurement = self.run(case).await.with_context(|| case.to_string())?;
            println!("{case}: {measurement}; load {:.1}", proc::load());
            if !measurement.is_converged() {
                schedule.skip_larger(case);
            }
            self.report.measurements.push(measurement);
        }
        self.report.left_out = schedule.left_out();
        Ok(())
    }

    async fn run(&mut self, case: Case) -> Result<Measurement> {
        self.limit_controller(case.is_limited).await?;
        let setup = Setup { program: case.program, nodes: case.nodes, rate: case.is_limited.then_some(CLIENT_LIMIT) };
        let mut domain = SimulatedDomain::create(&self.simulation, setup).await?;
        let before = self.server.read().await?;
        domain.start();
        let forming = async {
            if domain.wait_until_converged(self.args.cutoff()).await? {
                // A domain that does not settle violates an invariant, or its figures show why.
                domain.settle(SETTLING_TIMEOUT).await?;
            }
            Ok(())
        };
        self.cluster.while_alive(forming).await?;
        let after = self.server.read().await?;
        let size = self.server.largest_object(case.program, &domain.domain).await?;
        let measurement = Measurement::of(case, &domain, after.since(&before), size);
        domain.remove().await?;
        Ok(measurement)
    }

    /// Starts mnnvl-controller again if its limit changes.
    async fn limit_controller(&mut self, is_limited: bool) -> Result<()> {
        if is_limited == self.is_limited {
            return Ok(());
        }
        let RateLimit { qps, burst } = CLIENT_LIMIT;
        let limit = if is_limited { json!({ "qps": qps, "burst": burst }) } else { json!({}) };
        let up = up_args(self.cluster.dir.clone(), end_to_end::NODES);
        let config = write_configuration(&up, |configuration| configuration["runtimeClientConnection"] = limit)?;
        self.cluster.resume_services(&UpArgs { config: Some(config), ..up }).await?;
        self.is_limited = is_limited;
        Ok(())
    }
}
