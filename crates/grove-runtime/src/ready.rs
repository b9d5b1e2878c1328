//! Readiness: every part registers before it starts and says once that it is ready.

use std::collections::BTreeMap;

use tokio::sync::watch;

/// The parts that a service still waits for.
#[derive(Clone, Debug)]
pub struct Ready {
    missing: watch::Sender<Missing>,
}

/// Parts that are not ready.
type Missing = BTreeMap<String, Lack>;

/// What one part lacks.
#[derive(Clone, Debug)]
struct Lack {
    /// Why it is not ready, if that is known.
    why: Option<String>,
    /// Whether only the probes tell of it.
    only_probes: bool,
}

impl Default for Ready {
    fn default() -> Self {
        Self { missing: watch::Sender::new(Missing::new()) }
    }
}

impl Ready {
    /// Nothing is waited for yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes readiness wait for `part`.
    pub fn register(&self, part: impl Into<String>) -> ReadyHandle {
        self.add(part.into(), false)
    }

    /// Lets the probes say that `part` is not ready. Who [waits](Self::wait) does not wait for it: it comes about only by
    /// work that begins after that.
    pub fn register_for_probes(&self, part: impl Into<String>) -> ReadyHandle {
        self.add(part.into(), true)
    }

    fn add(&self, part: String, only_probes: bool) -> ReadyHandle {
        self.missing.send_modify(|missing| {
            missing.insert(part.clone(), Lack { why: None, only_probes });
        });
        ReadyHandle { part, missing: self.missing.clone() }
    }

    /// What is not ready yet, and why not if that is known; empty means ready.
    pub fn missing(&self) -> BTreeMap<String, Option<String>> {
        self.missing.borrow().iter().map(|(part, lack)| (part.clone(), lack.why.clone())).collect()
    }

    /// Returns once every registered part is ready.
    pub async fn wait(&self) {
        // The sender lives in `self`, so the wait cannot fail.
        let _ = self.missing.subscribe().wait_for(|missing| missing.values().all(|lack| lack.only_probes)).await;
    }
}

/// The promise of one part to say that it is ready. Dropping it unsaid keeps the service unready.
#[derive(Debug)]
pub struct ReadyHandle {
    part: String,
    missing: watch::Sender<Missing>,
}

impl ReadyHandle {
    /// A promise to nobody, for tests and tools.
    pub fn detached() -> Self {
        Ready::new().register("detached")
    }

    /// The part's name.
    pub fn part(&self) -> &str {
        &self.part
    }

    /// Says why the part is not ready yet.
    pub fn waits_because(&self, why: &str) {
        self.missing.send_modify(|missing| {
            if let Some(lack) = missing.get_mut(&self.part) {
                lack.why = Some(why.to_owned());
            }
        });
    }

    /// The part is ready.
    pub fn ready(self) {
        self.missing.send_modify(|missing| {
            missing.remove(&self.part);
        });
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn ready_means_that_all_parts_said_so() {
        let ready = Ready::new();
        let (pods, gangs) = (ready.register("pods"), ready.register("gangs"));
        pods.ready();
        assert_eq!(ready.missing(), BTreeMap::from([("gangs".to_owned(), None)]));
        gangs.waits_because("nobody answers");
        assert_eq!(ready.missing()["gangs"].as_deref(), Some("nobody answers"));
        assert_eq!(ready.wait().now_or_never(), None);
        gangs.ready();
        assert_eq!(ready.wait().now_or_never(), Some(()));
    }

    #[tokio::test]
    async fn what_only_probes_tell_of_is_not_waited_for() {
        let ready = Ready::new();
        let certificates = ready.register_for_probes("certificates");
        assert_eq!(ready.wait().now_or_never(), Some(()));
        assert_eq!(ready.missing(), BTreeMap::from([("certificates".to_owned(), None)]));
        certificates.ready();
        assert!(ready.missing().is_empty());
    }

    #[tokio::test]
    async fn a_part_that_died_unready_keeps_the_service_unready() {
        let ready = Ready::new();
        drop(ready.register("pods"));
        assert_eq!(ready.wait().now_or_never(), None);
    }
}
