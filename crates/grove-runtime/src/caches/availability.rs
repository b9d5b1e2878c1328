//! Whether the API server lists the objects of a kind: a kind may be absent, and an account may lack the permission.

use tokio::sync::watch::Receiver;

use super::Cache;

/// Whether the API server lists the objects of a kind for this service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    /// It does.
    Served,
    /// It does not serve the kind.
    NotServed,
    /// The account of the service must not list the kind. This does not show whether the API server serves it.
    Forbidden,
}

impl<K> Cache<K> {
    /// Whether the API server lists the objects of the kind for this service.
    pub fn availability(&self) -> Availability {
        *self.availability.borrow()
    }

    /// Whether the API server serves the kind. The cache of a kind that is not served is empty; it is filled when the kind
    /// is installed.
    pub fn is_served(&self) -> bool {
        self.availability() != Availability::NotServed
    }

    /// Whether the account of the service must not list the kind. The cache is empty then.
    pub fn is_forbidden(&self) -> bool {
        self.availability() == Availability::Forbidden
    }

    /// Changes when the kind is installed or removed, and when the service may or must not list it any more.
    pub fn subscribe_availability(&self) -> Receiver<Availability> {
        self.availability.subscribe()
    }
}
