//! Another kind that an informer needs. See [`InformerOptions::after_list_of`](super::InformerOptions::after_list_of).

use tokio::sync::watch::Receiver;

use super::{Availability, Cache};

/// The lists of the other kind.
#[derive(Debug)]
pub(super) struct Prerequisite {
    relists: Receiver<u64>,
    availability: Receiver<Availability>,
}

impl Prerequisite {
    pub(super) fn of<K>(other: &Cache<K>) -> Self {
        Self { relists: other.relists(), availability: other.subscribe_availability() }
    }

    /// Waits for the first list. Calls `on_unavailable` if the API server does not serve the other kind, or does not list it for this
    /// service.
    pub(super) async fn wait(mut self, mut on_unavailable: impl FnMut()) {
        loop {
            if *self.relists.borrow_and_update() > 0 {
                return;
            }
            if *self.availability.borrow_and_update() != Availability::Served {
                on_unavailable();
            }
            let changed = tokio::select! {
                changed = self.relists.changed() => changed,
                changed = self.availability.changed() => changed,
            };
            // The other informer ends only with the process.
            if changed.is_err() {
                return;
            }
        }
    }
}
