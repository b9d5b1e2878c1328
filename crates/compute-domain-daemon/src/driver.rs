//! Lets the state machine of a daemon run: it delivers what happened, and does what the state machine returns.

use futures::future::OptionFuture;
use futures::stream::FuturesUnordered;
use futures::{Stream, StreamExt, stream};
use grove_api_types::compute_domain::daemon::{Daemon, ImexChange, Input, Output, QueuedTask, Response};
use grove_api_types::compute_domain::problem::Problem;
use grove_api_types::compute_domain::request::Request;
use grove_api_types::compute_domain::strategy::parameters::{LEAVE_TIMEOUT, retry_delay};
use grove_process::backoff::random_fraction;
use grove_process::client::Clients;
use grove_process::failure_log::FailureLog;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, sleep, sleep_until};
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
    let mut not_before = None;
    tokio::pin!(inputs);
    loop {
        for output in outputs {
            match output {
                Output::Queue(task) => timers.push(due(task)),
                Output::Send(request) => in_flight = Some(Box::pin(send_at(not_before, api, request, stop))).into(),
                // Without a receiver, no process needs the change.
                Output::Imex(change) => drop(imex.send(change)),
                Output::Report(problem) => report(&problem, &mut problems),
                Output::Stopped => return,
            }
        }
        let input = tokio::select! {
            () = stop.cancelled(), if !is_stopping => {
                is_stopping = true;
                Input::Stop
            }
            Some(answer) = &mut in_flight => {
                let Answer { response, retry_after } = answer;
                in_flight = None.into();
                not_before = retry_after.map(|delay| Instant::now() + delay);
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

/// The task after its delay.
async fn due(task: QueuedTask) -> QueuedTask {
    let jitter = random_fraction() * 2.0 - 1.0;
    sleep(retry_delay(task.failures, jitter)).await;
    task
}

/// Sends the request when the API server accepts requests again (`Retry-After`). A daemon that ends does not wait.
async fn send_at(time: Option<Instant>, api: &Api, request: Request, stop: &CancellationToken) -> Answer {
    if let Some(time) = time {
        tokio::select! {
            () = sleep_until(time) => {}
            () = stop.cancelled() => {}
        }
    }
    api.send(request).await
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
        | Problem::InvalidAddress { .. }
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
