//! The daemon of a node as a state machine: [`Daemon::handle`] takes what happened and returns what to do. It does no I/O and reads
//! no clock.
//!
//! As in NVIDIA's driver, the daemon has a work queue with one worker. Each event queues a task: one for events of the object with
//! the entries, one for events of the own pod. A task sends at most one request, and the next one waits for its response. A failed
//! task is queued again with a longer delay, unless a later event has queued the same task since then.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use super::daemon_state::{DaemonState, Identity, Imex, Phase};
use super::entry::{self, Entry};
use super::problem::Problem;
use super::request::{Request, Verb};
use super::state_object::StateObject;
use super::strategy::Strategy;

/// A task of the work queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Task {
    /// Labels the own pod with its clique.
    Label,
    /// Creates or joins the object of the entries.
    Join,
    /// Adds or corrects the own entry.
    Register,
    /// Publishes whether the daemon is ready.
    PublishReadiness,
    /// Removes the own entry.
    Leave,
}

/// A queued task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueuedTask {
    /// The task.
    pub task: Task,
    /// How often it has failed. The delay grows with it.
    pub failures: u32,
    /// The number of the event that queued it.
    pub event: u64,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The daemon starts.
    Start,
    /// The watch has a version of the object with the entries.
    ObjectChanged(StateObject),
    /// The watch reports that this object does not exist any more.
    ObjectDeleted,
    /// The watch has a version of the own pod.
    PodChanged {
        /// Whether it is ready.
        is_ready: bool,
        /// Its annotation with the index.
        published: Option<i64>,
    },
    /// The delay of a queued task is over.
    Due(QueuedTask),
    /// The API server has answered the request.
    Response(Response),
    /// The daemon ends.
    Stop,
}

/// How the API server answered a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Response {
    /// It did the request. It returned the object with the entries, unless the request was for the pod.
    Success(Option<StateObject>),
    /// The object does not exist.
    NotFound,
    /// The object has changed since the daemon read it, it exists already, or another manager owns an applied field.
    Conflict,
    /// It rejected the request for another reason, or the outcome is unknown.
    Failure,
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Return the task as [`Input::Due`] after its delay.
    Queue(QueuedTask),
    /// Send the request, and return the response. There is at most one request at a time.
    Send(Request),
    /// Start the IMEX process, or let it know its new peers.
    Imex(ImexChange),
    /// Publish the problem.
    Report(Problem),
    /// The daemon has removed its entry.
    Stopped,
}

/// What changes for the IMEX process. The peers are sorted by index.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ImexChange {
    /// It starts with these peers.
    Start(Vec<Entry>),
    /// It starts again with these peers, because the index of its own node has changed.
    Restart(Vec<Entry>),
    /// It reads the addresses of these peers again.
    Peers {
        /// The peers.
        peers: Vec<Entry>,
        /// Whether there is another peer or address than before. If there are only fewer, the process need not read them.
        has_new: bool,
    },
}

/// A daemon.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Daemon {
    /// How it synchronizes.
    pub strategy: Strategy,
    /// What it knows.
    pub state: DaemonState,
    /// The number of the last event that queued each task.
    last_events: BTreeMap<Task, u64>,
    due: VecDeque<QueuedTask>,
    in_flight: Option<InFlight>,
    /// Whether the own pod has the label of the clique.
    is_labelled: bool,
    /// Whether the watch has listed the object with the entries.
    is_listed: bool,
}

/// The request without response.
#[derive(Clone, Debug, PartialEq, Hash)]
struct InFlight {
    task: QueuedTask,
    verb: Verb,
    /// The index that the daemon had in the object when it sent the request.
    index: Option<i64>,
    /// The version of the object that it knew.
    version: Option<String>,
}

impl Daemon {
    /// A daemon that has not started.
    pub fn new(identity: Identity, strategy: Strategy) -> Self {
        Self {
            strategy,
            state: DaemonState::new(identity),
            last_events: BTreeMap::new(),
            due: VecDeque::new(),
            in_flight: None,
            is_labelled: false,
            is_listed: false,
        }
    }

    /// Handles an input.
    pub fn handle(&mut self, input: Input) -> Vec<Output> {
        let mut outputs = match input {
            Input::Start => self.queue_now(Task::Label),
            Input::ObjectChanged(object) => self.object_changed(object),
            Input::ObjectDeleted => match self.state.object.take() {
                Some(_) => self.queue(Task::Join),
                None => self.listed(),
            },
            Input::PodChanged { is_ready, published } => {
                self.state.is_ready = Some(is_ready);
                // The event may be older than the last write of the daemon, which no other client removes.
                self.state.published = published.or(self.state.published);
                self.queue(Task::PublishReadiness)
            }
            Input::Due(task) => {
                self.due.push_back(task);
                Vec::new()
            }
            Input::Response(response) => self.respond(response),
            Input::Stop => self.stop(),
        };
        self.work(&mut outputs);
        outputs
    }

    /// An entry that was removed and added again is not ready, although no event of the pod follows. NVIDIA's driver corrects that when
    /// its informers resync.
    fn object_changed(&mut self, object: StateObject) -> Vec<Output> {
        self.state.remember(object);
        let mut outputs = self.listed();
        outputs.extend(self.queue(Task::Register));
        if matches!(self.strategy.registration().publish_readiness(&self.state), Ok(Some(_))) {
            outputs.extend(self.queue(Task::PublishReadiness));
        }
        outputs
    }

    /// After the first list of the watch. A daemon joins only after that: an entry of its node may exist already.
    fn listed(&mut self) -> Vec<Output> {
        if std::mem::replace(&mut self.is_listed, true) { Vec::new() } else { self.join() }
    }

    fn join(&mut self) -> Vec<Output> {
        if self.is_listed && self.is_labelled { self.queue(Task::Join) } else { Vec::new() }
    }

    fn queue(&mut self, task: Task) -> Vec<Output> {
        if self.state.phase != Phase::Running {
            return Vec::new();
        }
        vec![Output::Queue(self.next(task))]
    }

    fn queue_now(&mut self, task: Task) -> Vec<Output> {
        let task = self.next(task);
        self.due.push_back(task);
        Vec::new()
    }

    fn next(&mut self, task: Task) -> QueuedTask {
        let event = self.last_events.entry(task).or_default();
        *event += 1;
        QueuedTask { task, failures: 0, event: *event }
    }

    /// Removes the own entry after the request in flight. All other tasks end.
    fn stop(&mut self) -> Vec<Output> {
        self.state.phase = Phase::Stopping;
        self.due.clear();
        self.queue_now(Task::Leave)
    }

    /// Sends the requests of the due tasks, one after the other.
    fn work(&mut self, outputs: &mut Vec<Output>) {
        while self.in_flight.is_none() {
            let Some(task) = self.due.pop_front() else { return };
            if self.state.phase != Phase::Running && task.task != Task::Leave {
                continue;
            }
            match self.decide(task.task) {
                Ok(Some(request)) => {
                    let (index, version) = (self.state.assigned_index(), self.state.version());
                    self.in_flight = Some(InFlight { task, verb: request.verb.clone(), index, version });
                    outputs.push(Output::Send(request));
                }
                Ok(None) => self.complete(task.task, outputs),
                Err(problem) => {
                    outputs.push(Output::Report(problem));
                    outputs.extend(self.retry(task));
                }
            }
        }
    }

    fn decide(&self, task: Task) -> Result<Option<Request>, Problem> {
        let registration = self.strategy.registration();
        match task {
            Task::Label => Ok(Some(Request::label_pod(&self.state.identity))),
            // Without a fabric, the daemon has no peers, and mnnvl-controller reports its node.
            _ if self.state.identity.clique.is_empty() => Ok(None),
            Task::Join => Ok(registration.join(&self.state)),
            Task::Register => registration.register(&self.state),
            Task::PublishReadiness => registration.publish_readiness(&self.state),
            Task::Leave => Ok(registration.leave(&self.state)),
        }
    }

    fn respond(&mut self, response: Response) -> Vec<Output> {
        let Some(InFlight { task, verb, index, version }) = self.in_flight.take() else { return Vec::new() };
        match response {
            Response::Success(object) => object.into_iter().for_each(|object| self.state.remember(object)),
            // The object was created again after that.
            Response::NotFound if verb == Verb::Get && version != self.state.version() => {
                return self.retry(task).into_iter().collect();
            }
            // The object is deleted, and the entry with it; or the watch reports the next object.
            Response::NotFound if task.task == Task::Leave || verb == Verb::Get => self.state.object = None,
            Response::Conflict if matches!(verb, Verb::Apply { .. }) => {
                self.state.applies_by_force = true;
                return self.retry(task).into_iter().collect();
            }
            Response::NotFound | Response::Conflict | Response::Failure => {
                return self.retry(task).into_iter().collect();
            }
        }
        let mut outputs = Vec::new();
        if self.has_next_step(task.task, &verb, index) {
            self.due.push_front(task);
        } else {
            self.complete(task.task, &mut outputs);
        }
        outputs
    }

    /// Notes which step of the task is done. Whether another one may follow: the daemon decides again at once.
    fn has_next_step(&mut self, task: Task, verb: &Verb, index: Option<i64>) -> bool {
        match (task, verb) {
            (Task::Leave, Verb::Apply { .. }) => self.state.phase = Phase::HasLeft,
            (Task::Register, Verb::MergePatch) => self.state.published = index,
            (Task::Register, Verb::Get) => {
                self.state.confirmed = self.state.assigned_index().filter(|index| self.state.published == Some(*index));
            }
            (Task::Leave, _) => {}
            _ => return false,
        }
        true
    }

    /// After a task that has nothing more to write.
    fn complete(&mut self, task: Task, outputs: &mut Vec<Output>) {
        match task {
            Task::Label if self.state.identity.clique.is_empty() => {
                outputs.push(Output::Report(Problem::NoClique { node: self.state.identity.node.clone() }));
            }
            Task::Label => {
                self.is_labelled = true;
                outputs.extend(self.join());
            }
            Task::Register => self.update_imex(outputs),
            Task::Join | Task::PublishReadiness => {}
            Task::Leave => outputs.push(Output::Stopped),
        }
    }

    fn retry(&mut self, task: QueuedTask) -> Option<Output> {
        let is_last = self.last_events.get(&task.task).is_none_or(|event| *event == task.event);
        let is_needed = self.state.phase == Phase::Running || task.task == Task::Leave;
        let failures = task.failures.saturating_add(1);
        (is_last && is_needed).then_some(Output::Queue(QueuedTask { failures, ..task }))
    }

    /// Lets IMEX know its peers, if they have changed.
    fn update_imex(&mut self, outputs: &mut Vec<Output>) {
        let Some(mut peers) = self.strategy.registration().peers(&self.state) else { return };
        self.remove_invalid(&mut peers, outputs);
        peers.sort_by_key(|peer| peer.index);
        // An entry with another address is that of an earlier pod.
        let Some(index) = self.state.assigned_index().filter(|own| peers.iter().any(|peer| peer.index == *own)) else {
            return;
        };
        let change = match &self.state.imex {
            None => ImexChange::Start(peers.clone()),
            Some(imex) if imex.index != index => {
                let node = self.state.identity.node.clone();
                outputs.push(Output::Report(Problem::IndexChanged { node, started: imex.index, index }));
                ImexChange::Restart(peers.clone())
            }
            Some(imex) if !imex.peers.iter().map(address).eq(peers.iter().map(address)) => {
                let is_known = |peer: &Entry| imex.peers.iter().any(|known| address(known) == address(peer));
                ImexChange::Peers { has_new: !peers.iter().all(is_known), peers: peers.clone() }
            }
            Some(_) => return,
        };
        self.state.imex = Some(Imex { index, peers });
        outputs.push(Output::Imex(change));
    }

    /// Removes the entries whose index the clique does not have, or whose address is none, and reports them. The addresses become lines of
    /// the hosts file.
    fn remove_invalid(&self, peers: &mut Vec<Entry>, outputs: &mut Vec<Output>) {
        let max_nodes = self.state.identity.max_nodes;
        peers.retain(|Entry { node_name, clique_id, index, ip_address, .. }| {
            let (clique, node) = (|| clique_id.clone(), || node_name.clone());
            let problem = if !entry::is_valid_index(*index, max_nodes) {
                Problem::IndexOutOfRange { clique: clique(), node: node(), index: *index, max_nodes }
            } else if ip_address.parse::<IpAddr>().is_err() {
                Problem::InvalidAddress { clique: clique(), node: node(), address: ip_address.clone() }
            } else {
                return true;
            };
            outputs.push(Output::Report(problem));
            false
        });
    }
}

fn address(peer: &Entry) -> (i64, &str) {
    (peer.index, &peer.ip_address)
}
