//! Lets the state machine of a daemon run: it delivers what happened, and does what the state machine returns.

use std::time::Duration;

use futures::future::OptionFuture;
use futures::stream::FuturesUnordered;
use futures::{Stream, StreamExt, stream};
use grove_api_types::compute_domain::daemon::{Daemon, ImexChange, Input, Output, QueuedTask, Response};
use grove_api_types::compute_domain::problem::Problem;
use grove_api_types::compute_domain::strategy::parameters::{LEAVE_TIMEOUT, retry_delay};
use grove_process::backoff::random_fraction;
use grove_process::client::Clients;
use grove_process::failure_log::FailureLog;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::api::{Answer, Api};
use crate::metrics::DaemonMetrics;
use crate::watches;

/// Runs the daemon until `stop`, and then until it has removed its entry, but at most for [`LEAVE_TIMEOUT`]. The receiver of `imex` runs
/// the IMEX process.
pub async fn run(
    daemon: Daemon,
    clients: &Clients,
    metrics: &DaemonMetrics,
    imex: &UnboundedSender<ImexChange>,
    stop: &CancellationToken,
) {
    let identity = &daemon.state.identity;
    let of_pod = watches::own_pod(&clients.watches, identity);
    let of_object = watches::entries(&clients.watches, identity, daemon.strategy);
    let inputs = stream::select(of_pod, of_object);
    let api = Api::new(clients.requests.clone(), metrics.clone());
    let limit = async {
        stop.cancelled().await;
        sleep(LEAVE_TIMEOUT).await;
    };
    tokio::select! {
        () = drive(daemon, inputs, &api, imex, stop) => {}
        () = limit => {
            tracing::warn!("the entry of this node was not removed within {LEAVE_TIMEOUT:?}; mnnvl-controller removes it");
        }
    }
}

async fn drive(
    mut daemon: Daemon,
    inputs: impl Stream<Item = Input>,
    api: &Api,
    imex: &UnboundedSender<ImexChange>,
    stop: &CancellationToken,
) {
    let (mut timers, mut in_flight) = (FuturesUnordered::new(), OptionFuture::from(None));
    let (mut problems, mut is_stopping) = (FailureLog::default(), false);
    let mut outputs = daemon.handle(Input::Start);
    let mut retry_after = None;
    tokio::pin!(inputs);
    loop {
        for output in outputs {
            match output {
                Output::Queue(task) => timers.push(due(task, retry_after)),
                Output::Send(request) => in_flight = Some(Box::pin(api.send(request))).into(),
                // Without a receiver, no process needs the change.
                Output::Imex(change) => drop(imex.send(change)),
                Output::Report(problem) => report(&problem, &mut problems),
                Output::Stopped => return,
            }
        }
        retry_after = None;
        let input = tokio::select! {
            () = stop.cancelled(), if !is_stopping => {
                is_stopping = true;
                Input::Stop
            }
            Some(answer) = &mut in_flight => {
                let Answer { response, retry_after: delay } = answer;
                in_flight = None.into();
                retry_after = delay;
                Input::Response(response)
            }
            Some(input) = inputs.next() => input,
            Some(task) = timers.next() => Input::Due(task),
            else => return,
        };
        if matches!(input, Input::Response(Response::Success(_))) {
            problems.should_log_recovery();
        }
        outputs = daemon.handle(input);
    }
}

/// The task after its delay. The API server can prolong it (`Retry-After`).
async fn due(task: QueuedTask, retry_after: Option<Duration>) -> QueuedTask {
    let jitter = random_fraction() * 2.0 - 1.0;
    sleep(retry_delay(task.failures, jitter).max(retry_after.unwrap_or_default())).await;
    task
}

fn report(problem: &Problem, log: &mut FailureLog) {
    let text = problem.to_string();
    if !log.should_log_failure(&text) {
        return;
    }
    match problem {
        Problem::NoClique { .. } => info(&text),
        Problem::CliqueFull { .. }
        | Problem::IndexOutOfRange { .. }
        | Problem::TwoDaemons { .. }
        | Problem::NoEntry { .. }
        | Problem::IndexChanged { .. } => warn(&text),
    }
}

fn info(text: &str) {
    tracing::info!("{text}");
}

fn warn(text: &str) {
    tracing::warn!("{text}");
}

#[cfg(test)]
mod tests;
