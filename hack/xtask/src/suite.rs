//! The services of the Grove suite, and the names of their processes and ports.

/// The service that answers the admission webhooks.
pub(crate) const WEBHOOK_SERVER: &str = "webhook-server";

/// All services. The order of start-up is this order, but no service depends on it.
pub(crate) const SERVICES: [&str; 5] =
    ["pcs-controller", "pclq-controller", "topology-controller", "mnnvl-controller", WEBHOOK_SERVER];

/// The services that reconcile objects.
pub(crate) const CONTROLLERS: [&str; 4] =
    ["pcs-controller", "pclq-controller", "topology-controller", "mnnvl-controller"];

/// One process of a service.
#[derive(Clone, Copy)]
pub(crate) struct Replica {
    pub(crate) service: &'static str,
    number: u32,
}

/// `count` processes of each service.
pub(crate) fn replicas(count: u32) -> impl Iterator<Item = Replica> {
    SERVICES.into_iter().flat_map(move |service| (0..count).map(move |number| Replica { service, number }))
}

/// The first process of a service.
pub(crate) fn first(service: &'static str) -> Replica {
    Replica { service, number: 0 }
}

impl Replica {
    /// The name of the process, of its log and of its identity in the Lease. The first replica has the name of the service.
    pub(crate) fn name(self) -> String {
        let Self { service, number } = self;
        if number == 0 { service.to_owned() } else { format!("{service}-{number}") }
    }

    pub(crate) fn serves_webhooks(self) -> bool {
        self.service == WEBHOOK_SERVER
    }

    /// The names of all ports of the process.
    pub(crate) fn ports(self) -> Vec<String> {
        let mut ports = vec![self.probe_port(), self.metrics_port()];
        if self.serves_webhooks() {
            ports.push(self.webhook_port());
        }
        ports
    }

    pub(crate) fn probe_port(self) -> String {
        format!("{}-probe", self.name())
    }

    pub(crate) fn metrics_port(self) -> String {
        format!("{}-metrics", self.name())
    }

    pub(crate) fn webhook_port(self) -> String {
        format!("{}-webhooks", self.name())
    }
}
