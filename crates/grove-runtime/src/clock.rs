//! The one place that asks the time.

use k8s_openapi::jiff::Timestamp;

/// Tells the time of the system, or always the same in tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock(Option<Timestamp>);

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Self(None)
    }

    /// A clock that stands still.
    pub fn stopped_at(time: Timestamp) -> Self {
        Self(Some(time))
    }

    /// The time now.
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn now(&self) -> Timestamp {
        self.0.unwrap_or_else(Timestamp::now)
    }
}
