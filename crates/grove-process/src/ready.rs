//! Readiness: every component registers before it starts, and the service is ready when all components are.

use std::collections::BTreeMap;

use tokio::sync::watch;

/// The components that are not ready yet. A clone shares its state.
#[derive(Clone, Debug)]
pub struct Readiness {
    pending: watch::Sender<PendingComponents>,
}

type PendingComponents = BTreeMap<String, PendingComponent>;

/// One component that is not ready.
#[derive(Clone, Debug)]
struct PendingComponent {
    /// Why it is not ready, if known.
    reason: Option<String>,
    /// Whether only the probes consider it, and [`Readiness::wait`] does not.
    is_probe_only: bool,
}

impl Default for Readiness {
    fn default() -> Self {
        Self { pending: watch::Sender::new(PendingComponents::new()) }
    }
}

impl Readiness {
    /// Without components, so it is ready.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a component that is not ready.
    pub fn register(&self, component: impl Into<String>) -> ReadyHandle {
        self.add(component.into(), false)
    }

    /// Adds a component that only the probes consider. [`wait`](Self::wait) does not wait for it, because it becomes ready
    /// by work that starts after that wait.
    pub fn register_probe_only(&self, component: impl Into<String>) -> ReadyHandle {
        self.add(component.into(), true)
    }

    fn add(&self, mut component: String, is_probe_only: bool) -> ReadyHandle {
        // Two informers of one kind are two components.
        while self.pending.borrow().contains_key(&component) {
            component += "+";
        }
        self.pending.send_modify(|pending| {
            pending.insert(component.clone(), PendingComponent { reason: None, is_probe_only });
        });
        ReadyHandle { component, pending: self.pending.clone() }
    }

    /// The components that are not ready, each with the reason if known. Empty if the service is ready.
    pub fn pending(&self) -> BTreeMap<String, Option<String>> {
        self.pending.borrow().iter().map(|(component, pending)| (component.clone(), pending.reason.clone())).collect()
    }

    /// Returns when every component is ready, except those for the probes only.
    pub async fn wait(&self) {
        // The sender lives in `self`, so the wait cannot fail.
        let _ = self.pending.subscribe().wait_for(|pending| pending.values().all(|one| one.is_probe_only)).await;
    }
}

/// Reports the state of one component. A handle that is dropped without [`set_ready`](Self::set_ready) keeps the service
/// unready.
#[derive(Debug)]
pub struct ReadyHandle {
    component: String,
    pending: watch::Sender<PendingComponents>,
}

impl ReadyHandle {
    /// Sets the reason why the component is not ready. `/readyz` shows it.
    pub fn set_reason(&self, reason: &str) {
        self.pending.send_modify(|pending| {
            if let Some(pending) = pending.get_mut(&self.component) {
                pending.reason = Some(reason.to_owned());
            }
        });
    }

    /// The component is ready.
    pub fn set_ready(self) {
        self.pending.send_modify(|pending| {
            pending.remove(&self.component);
        });
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_service_is_ready_when_all_components_are_ready() {
        let readiness = Readiness::new();
        let (pods, gangs) = (readiness.register("pods"), readiness.register("gangs"));
        pods.set_ready();
        assert_eq!(readiness.pending(), BTreeMap::from([("gangs".to_owned(), None)]));
        gangs.set_reason("no response");
        assert_eq!(readiness.pending()["gangs"].as_deref(), Some("no response"));
        assert_eq!(readiness.wait().now_or_never(), None);
        gangs.set_ready();
        assert_eq!(readiness.wait().now_or_never(), Some(()));
    }

    #[test]
    fn two_components_of_one_name_are_two() {
        let readiness = Readiness::new();
        let (first, second) = (readiness.register("pods"), readiness.register("pods"));
        first.set_ready();
        assert_eq!(readiness.pending(), BTreeMap::from([("pods+".to_owned(), None)]));
        second.set_ready();
        assert!(readiness.pending().is_empty());
    }

    #[tokio::test]
    async fn a_probe_only_component_does_not_delay_the_wait() {
        let readiness = Readiness::new();
        let certificates = readiness.register_probe_only("certificates");
        assert_eq!(readiness.wait().now_or_never(), Some(()));
        assert_eq!(readiness.pending(), BTreeMap::from([("certificates".to_owned(), None)]));
        certificates.set_ready();
        assert!(readiness.pending().is_empty());
    }

    #[tokio::test]
    async fn a_component_that_failed_before_it_was_ready_keeps_the_service_unready() {
        let readiness = Readiness::new();
        drop(readiness.register("pods"));
        assert_eq!(readiness.wait().now_or_never(), None);
    }
}
