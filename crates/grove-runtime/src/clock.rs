//! The clock. All other code takes the time from it, so that tests can set the time.

use k8s_openapi::jiff::Timestamp;

/// The clock of the system, or a fixed time in tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock(Option<Timestamp>);

impl Clock {
    /// The clock of the system.
    pub fn system() -> Self {
        Self(None)
    }

    /// A clock that always returns `time`.
    pub fn stopped_at(time: Timestamp) -> Self {
        Self(Some(time))
    }

    /// The current time.
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn now(&self) -> Timestamp {
        self.0.unwrap_or_else(Timestamp::now)
    }
}
