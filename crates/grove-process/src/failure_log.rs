//! Limits the log lines about an operation that is repeated until it succeeds: each failure once, and the recovery.

/// The last failure of one operation that was logged.
#[derive(Debug, Default)]
pub struct FailureLog {
    last: Option<String>,
}

impl FailureLog {
    /// Whether to log this failure: the last attempt succeeded, or failed for another reason.
    pub fn should_log_failure(&mut self, failure: &str) -> bool {
        let is_new = self.last.as_deref() != Some(failure);
        if is_new {
            self.last = Some(failure.to_owned());
        }
        is_new
    }

    /// Whether to log this success: the last attempt failed.
    pub fn should_log_recovery(&mut self) -> bool {
        self.last.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_is_logged_once_until_the_recovery_and_so_is_the_recovery() {
        let mut log = FailureLog::default();
        assert!(!log.should_log_recovery(), "there was no failure");
        let failures = ["timeout", "timeout", "forbidden", "forbidden"];
        assert_eq!(failures.map(|failure| log.should_log_failure(failure)), [true, false, true, false]);
        assert_eq!([log.should_log_recovery(), log.should_log_recovery()], [true, false]);
        assert!(log.should_log_failure("forbidden"), "the next outage has the same reason");
    }
}
