//! Daemons, mnnvl-controller and the API server, and the steps that can happen next.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use grove_api_types::compute_domain::assignment::{assign, loses_entries};
use grove_api_types::compute_domain::daemon::{Daemon, ImexChange, Input, Output, QueuedTask, Response};
use grove_api_types::compute_domain::daemon_pod::DaemonPod;
use grove_api_types::compute_domain::daemon_state::Identity;
use grove_api_types::compute_domain::entry::Entry;
use grove_api_types::compute_domain::request::Request;
use grove_api_types::compute_domain::strategy::Strategy;
use grove_api_types::compute_domain::strategy::parameters::MAX_NODES_PER_CLIQUE;

use super::model_server::{CLIQUE, DOMAIN_UID, ModelServer};

/// Something that can happen next. The number is that of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// The watch delivers the next version of the object.
    DeliverObject(usize),
    /// The watch delivers the own pod.
    DeliverPod(usize),
    /// A failed task is due again. A task that an event queued runs at once: that it runs later is the same as that the event is
    /// delivered later.
    Run(usize, QueuedTask),
    /// The API server executes the request, and the daemon gets the response.
    Execute(usize),
    /// The API server executes the request, and the daemon crashes before the response.
    ExecuteAndCrash(usize),
    /// The API server executes the request, but the response is lost: the daemon observes a timeout.
    ExecuteAndLose(usize),
    /// The daemon crashes, and starts again in the same pod.
    Crash(usize),
    /// The pod is replaced by one with another address.
    ReplacePod(usize),
    /// The kubelet observes that IMEX runs.
    BecomeReady(usize),
    /// The watch of mnnvl-controller delivers the next version of the object.
    ControllerObserves,
    /// The watch of mnnvl-controller delivers the next version of a pod.
    ControllerObservesPod(usize),
    /// mnnvl-controller lists the pods for its next write, because it knows no object, or would remove an entry.
    ControllerLists,
    /// mnnvl-controller writes the entries.
    ControllerWrites,
    /// A user deletes the object of the clique.
    DeleteClique,
}

impl Step {
    /// Whether the step is a disturbance. A schedule has a limited number of them.
    fn is_disturbance(self) -> bool {
        let of_daemon = matches!(self, Self::ExecuteAndCrash(_) | Self::ExecuteAndLose(_) | Self::Crash(_));
        of_daemon || matches!(self, Self::ReplacePod(_) | Self::DeleteClique)
    }
}

/// A daemon with what is on its way to it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) daemon: Daemon,
    pub(super) queue: BTreeSet<QueuedTask>,
    pub(super) request: Option<Request>,
    /// The versions of the object that its watch has delivered.
    delivered: usize,
    /// The pod that its watch has delivered.
    seen_pod: Option<DaemonPod>,
    pods: usize,
}

/// What mnnvl-controller knows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Controller {
    delivered: usize,
    /// The cached pods.
    pods: BTreeMap<String, DaemonPod>,
    /// The versions of each pod that its watch has not delivered yet.
    undelivered: BTreeMap<String, VecDeque<DaemonPod>>,
    /// The pods that it has listed. Only the next write uses them.
    listed: Option<BTreeMap<String, DaemonPod>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct World {
    pub(super) strategy: Strategy,
    pub(super) server: ModelServer,
    pub(super) nodes: Vec<Node>,
    controller: Controller,
    disturbances: usize,
    /// How often IMEX was restarted, because the index of its node had changed.
    pub(super) restarts: usize,
}

impl World {
    /// Daemons that have started. Their first task, the label, is done.
    pub(super) fn new(strategy: Strategy, daemons: usize, disturbances: usize) -> Self {
        let server = ModelServer::new(strategy.has_cliques());
        let controller = Controller::default();
        let mut world = Self { strategy, server, nodes: Vec::new(), controller, disturbances, restarts: 0 };
        for number in 0..daemons {
            let node = world.start_pod(number, 0);
            world.nodes.push(node);
            world.start(number);
        }
        world.queue_pod_versions();
        world
    }

    /// mnnvl-controller has assigned the lowest index to the last node, as if that had come first.
    pub(super) fn with_late_nodes_first(daemons: usize, disturbances: usize) -> Self {
        let mut world = Self::new(Strategy::ControllerClique, daemons, disturbances);
        world.controller.pods = world.server.pods.clone();
        world.controller.undelivered.clear();
        let mut entries = world.assignment(&[]);
        let last = i64::try_from(daemons).unwrap_or_default() - 1;
        for entry in &mut entries {
            entry.index = last - entry.index;
        }
        world.write_observed(entries);
        world
    }

    /// mnnvl-controller has listed the pods and created the object with a gap, but its watch has delivered only the first pod.
    pub(super) fn with_old_cache() -> Self {
        let mut world = Self::with_late_nodes_first(2, 0);
        let mut entries = world.server.entries().to_vec();
        entries.sort_by(|one, other| one.node_name.cmp(&other.node_name));
        (entries[0].index, entries[1].index) = (0, 2);
        world.write_observed(entries);
        let labelled = world.pod(1).clone();
        world.controller.pods.remove(&node_name(1));
        let unlabelled = DaemonPod { clique: None, ..labelled.clone() };
        world.controller.undelivered.insert(node_name(1), VecDeque::from([unlabelled, labelled]));
        world
    }

    /// The steps that are possible now.
    pub(super) fn steps(&self) -> Vec<Step> {
        let mut steps = self.daemon_steps();
        steps.extend(self.controller_steps());
        steps.retain(|step| self.disturbances > 0 || !step.is_disturbance());
        steps
    }

    /// The first step that is no disturbance, of the daemons before mnnvl-controller.
    pub(super) fn next_step(&self) -> Option<Step> {
        let undisturbed = |steps: Vec<Step>| steps.into_iter().find(|step| !step.is_disturbance());
        undisturbed(self.daemon_steps()).or_else(|| undisturbed(self.controller_steps()))
    }

    fn daemon_steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for (number, node) in self.nodes.iter().enumerate() {
            steps.extend((node.delivered < self.server.history.len()).then_some(Step::DeliverObject(number)));
            let is_seen = node.seen_pod.as_ref().is_some_and(|seen| seen.is_ready == self.pod(number).is_ready);
            steps.extend((!is_seen).then_some(Step::DeliverPod(number)));
            if node.request.is_some() {
                steps.extend([Step::Execute(number), Step::ExecuteAndCrash(number), Step::ExecuteAndLose(number)]);
            }
            steps.extend(node.queue.iter().map(|task| Step::Run(number, *task)));
            let is_running = node.daemon.state.imex.is_some();
            steps.extend((is_running && !self.pod(number).is_ready).then_some(Step::BecomeReady(number)));
            steps.extend([Step::Crash(number), Step::ReplacePod(number)]);
        }
        steps
    }

    fn controller_steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        if self.strategy != Strategy::ControllerClique {
            return steps;
        }
        let Controller { delivered, pods, undelivered, listed } = &self.controller;
        steps.extend((*delivered < self.server.history.len()).then_some(Step::ControllerObserves));
        let is_behind =
            |number: &usize| undelivered.get(&node_name(*number)).is_some_and(|versions| !versions.is_empty());
        steps.extend((0..self.nodes.len()).filter(is_behind).map(Step::ControllerObservesPod));
        let has_labelled_pod = pods.values().any(|pod| pod.clique.is_some());
        match self.controller_view() {
            None if listed.is_none() => steps.extend(has_labelled_pod.then_some(Step::ControllerLists)),
            None => steps.push(Step::ControllerWrites),
            Some(current) => {
                let cached: Vec<_> = pods.values().cloned().collect();
                let needs_list = listed.is_none() && loses_entries(CLIQUE, &current, &cached, MAX_NODES_PER_CLIQUE);
                let is_different = self.assignment(&current) != current;
                let write = if needs_list { Step::ControllerLists } else { Step::ControllerWrites };
                steps.extend(is_different.then_some(write));
            }
        }
        steps.extend(self.server.current().map(|_| Step::DeleteClique));
        steps
    }

    /// The entries that mnnvl-controller has observed.
    fn controller_view(&self) -> Option<Vec<Entry>> {
        let observed = self.server.history.get(self.controller.delivered.checked_sub(1)?)?;
        Some(observed.as_ref()?.entries.clone())
    }

    fn assignment(&self, current: &[Entry]) -> Vec<Entry> {
        let Controller { pods, listed, .. } = &self.controller;
        let pods: Vec<_> = listed.as_ref().unwrap_or(pods).values().cloned().collect();
        assign(CLIQUE, current, &pods, MAX_NODES_PER_CLIQUE).entries
    }

    pub(super) fn take(&mut self, step: Step) {
        self.disturbances -= usize::from(step.is_disturbance());
        match step {
            Step::DeliverObject(number) => self.deliver_object(number),
            Step::DeliverPod(number) => self.deliver_pod(number),
            Step::Run(number, task) => {
                self.nodes[number].queue.remove(&task);
                self.handle(number, Input::Due(task));
            }
            Step::Execute(number) => {
                let response = self.execute(number);
                self.handle(number, Input::Response(response));
            }
            Step::ExecuteAndCrash(number) => {
                self.execute(number);
                self.crash(number);
            }
            Step::ExecuteAndLose(number) => {
                self.execute(number);
                self.handle(number, Input::Response(Response::Failure));
            }
            Step::Crash(number) => self.crash(number),
            Step::ReplacePod(number) => {
                let pods = self.nodes[number].pods + 1;
                self.nodes[number] = self.start_pod(number, pods);
                self.start(number);
            }
            Step::BecomeReady(number) => self.pod_mut(number).is_ready = true,
            Step::ControllerObserves => {
                self.controller.delivered += 1;
                self.controller.listed = None;
            }
            Step::ControllerObservesPod(number) => {
                let next = self.controller.undelivered.get_mut(&node_name(number)).and_then(VecDeque::pop_front);
                self.controller.pods.extend(next.map(|pod| (node_name(number), pod)));
                self.controller.listed = None;
            }
            Step::ControllerLists => self.controller.listed = Some(self.server.pods.clone()),
            Step::ControllerWrites => self.controller_writes(),
            Step::DeleteClique => self.server.delete(),
        }
        self.queue_pod_versions();
    }

    /// Queues the pods that have changed for the watch of mnnvl-controller.
    fn queue_pod_versions(&mut self) {
        if self.strategy != Strategy::ControllerClique {
            return;
        }
        for (node, pod) in &self.server.pods {
            let versions = self.controller.undelivered.entry(node.clone()).or_default();
            if versions.back().or_else(|| self.controller.pods.get(node)) != Some(pod) {
                versions.push_back(pod.clone());
            }
        }
    }

    /// mnnvl-controller has written these entries and observed them. The daemons observe them next.
    fn write_observed(&mut self, entries: Vec<Entry>) {
        self.server.replace(entries);
        self.controller.delivered = self.server.history.len();
        for node in &mut self.nodes {
            node.delivered = self.server.history.len() - 1;
        }
    }

    /// A create fails if the object exists; a patch fails if the object has changed since it was observed. Both do nothing then.
    fn controller_writes(&mut self) {
        let view = self.controller_view();
        let entries = self.assignment(&view.clone().unwrap_or_default());
        let is_newest = self.controller.delivered == self.server.history.len();
        let is_accepted = if view.is_some() { is_newest } else { self.server.current().is_none() };
        if is_accepted {
            self.server.replace(entries);
        }
        self.controller.listed = None;
    }

    fn deliver_object(&mut self, number: usize) {
        let version = self.server.history[self.nodes[number].delivered].clone();
        self.nodes[number].delivered += 1;
        let input = match version {
            Some(version) => Input::ObjectChanged(self.server.object(&version)),
            None => Input::ObjectDeleted,
        };
        self.handle(number, input);
    }

    fn deliver_pod(&mut self, number: usize) {
        let pod = self.pod(number).clone();
        let (is_ready, published) = (pod.is_ready, pod.index);
        self.nodes[number].seen_pod = Some(pod);
        self.handle(number, Input::PodChanged { is_ready, published });
    }

    fn execute(&mut self, number: usize) -> Response {
        let request = self.nodes[number].request.take().expect("a request");
        self.server.execute(&request)
    }

    /// The process ends, and the next one starts. The kubelet observes that, and the new watch begins with the newest version.
    fn crash(&mut self, number: usize) {
        let pods = self.nodes[number].pods;
        self.nodes[number] = self.node(number, pods);
        self.pod_mut(number).is_ready = false;
        self.start(number);
    }

    /// A new pod with a new daemon.
    fn start_pod(&mut self, number: usize, pods: usize) -> Node {
        let node = self.node(number, pods);
        let identity = &node.daemon.state.identity;
        let pod = DaemonPod {
            name: identity.pod_name.clone(),
            uid: identity.pod_uid.clone(),
            node: identity.node.clone(),
            ip: identity.pod_ip.clone(),
            clique: None,
            index: None,
            is_ready: false,
            is_ending: false,
            created: None,
        };
        self.server.pods.insert(node_name(number), pod);
        node
    }

    fn node(&self, number: usize, pods: usize) -> Node {
        let daemon = Daemon::new(identity(number, pods), self.strategy);
        let delivered = self.server.history.len() - 1;
        Node { daemon, queue: BTreeSet::new(), request: None, delivered, seen_pod: None, pods }
    }

    /// Starts the daemon of the node, until its pod has the label and its watch has listed the object.
    fn start(&mut self, number: usize) {
        self.handle(number, Input::Start);
        let response = self.execute(number);
        self.handle(number, Input::Response(response));
        self.deliver_object(number);
        let pod = self.pod(number).clone();
        // Without an entry, a daemon has no readiness to publish.
        let has_entry = self.server.entries().iter().any(|entry| entry.node_name == node_name(number));
        if pod.index.is_some() || has_entry {
            self.handle(number, Input::PodChanged { is_ready: false, published: pod.index });
        }
        self.nodes[number].seen_pod = Some(pod);
    }

    fn handle(&mut self, number: usize, input: Input) {
        let node = &mut self.nodes[number];
        let mut outputs = VecDeque::from(node.daemon.handle(input));
        while let Some(output) = outputs.pop_front() {
            match output {
                Output::Queue(task) if task.failures == 0 => outputs.extend(node.daemon.handle(Input::Due(task))),
                // Tasks that differ only by their number of failures would only add schedules of the same kind.
                Output::Queue(task) => drop(node.queue.insert(QueuedTask { failures: 1, ..task })),
                Output::Send(request) => node.request = Some(request),
                Output::Imex(ImexChange::Restart(_)) => self.restarts += 1,
                Output::Imex(ImexChange::Start(_) | ImexChange::Peers { .. }) | Output::Report(_) | Output::Stopped => {
                }
            }
        }
    }

    fn pod(&self, number: usize) -> &DaemonPod {
        &self.server.pods[&node_name(number)]
    }

    fn pod_mut(&mut self, number: usize) -> &mut DaemonPod {
        self.server.pods.get_mut(&node_name(number)).expect("a pod")
    }

    /// The daemon gets SIGTERM.
    pub(super) fn stop(&mut self, number: usize) {
        self.handle(number, Input::Stop);
    }

    /// The same for two worlds that continue in the same way.
    pub(super) fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.server.hash(&mut hasher);
        for Node { daemon, queue, request, delivered, seen_pod, pods } in &self.nodes {
            (daemon, queue, request, delivered, pods).hash(&mut hasher);
            if let Some(pod) = seen_pod {
                hash_pod(pod, &mut hasher);
            }
        }
        (self.controller.delivered, self.controller.listed.is_some(), self.disturbances, self.restarts)
            .hash(&mut hasher);
        let Controller { pods, undelivered, listed, .. } = &self.controller;
        let pods = pods.values().chain(self.server.pods.values()).chain(listed.iter().flat_map(BTreeMap::values));
        pods.for_each(|pod| hash_pod(pod, &mut hasher));
        for versions in undelivered.values() {
            versions.len().hash(&mut hasher);
            for pod in versions {
                hash_pod(pod, &mut hasher);
            }
        }
        hasher.finish()
    }
}

pub(super) fn node_name(number: usize) -> String {
    format!("node-{number}")
}

fn hash_pod(pod: &DaemonPod, hasher: &mut DefaultHasher) {
    (&pod.uid, &pod.clique, pod.index, pod.is_ready).hash(hasher);
}

/// The identity of the daemon in the pod that is number `pods` on its node.
pub(super) fn identity(number: usize, pods: usize) -> Identity {
    Identity {
        domain_namespace: "team".to_owned(),
        domain_name: "llm-0".to_owned(),
        domain_uid: DOMAIN_UID.to_owned(),
        driver_namespace: "grove-system".to_owned(),
        clique: CLIQUE.to_owned(),
        node: node_name(number),
        pod_name: format!("daemon-{number}-{pods}"),
        pod_uid: format!("uid-{number}-{pods}"),
        pod_ip: format!("10.0.{number}.{pods}"),
        max_nodes: MAX_NODES_PER_CLIQUE,
    }
}
