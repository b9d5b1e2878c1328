//! `leaderElection`: which of several replicas of a service acts.

use std::time::Duration;

use super::document::Section;
use super::problem::Problem;
use crate::syntax::is_dns_subdomain;

/// The longest prefix that leaves room for the name of any service.
const LONGEST_PREFIX: usize = 200;
/// The shortest time between two renewals that leaves the API server time for other things.
const SHORTEST_RETRY: Duration = Duration::from_millis(100);
/// Retries are spread by up to a fifth; a renewal must be possible before the deadline.
const JITTER: f64 = 1.2;

/// Which of several replicas of a service acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderElection {
    /// Off, every replica acts; only for one replica of each service.
    pub enabled: bool,
    /// How long others wait before they take over from a leader that fell silent.
    pub lease_duration: Duration,
    /// How long a leader acts on without having been able to renew.
    pub renew_deadline: Duration,
    /// The time between two renewals.
    pub retry_period: Duration,
    /// Stands before the service's name in the name of its Lease.
    pub resource_name: Option<String>,
    /// The namespace of the Leases; absent means the namespace that the service runs in.
    pub resource_namespace: Option<String>,
}

impl Default for LeaderElection {
    fn default() -> Self {
        Self {
            enabled: true,
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            resource_name: None,
            resource_namespace: None,
        }
    }
}

impl LeaderElection {
    pub(super) fn read(section: &Section<'_>) -> Self {
        let default = Self::default();
        let read = Self {
            enabled: section.flag("enabled").unwrap_or(default.enabled),
            lease_duration: section.duration("leaseDuration").unwrap_or(default.lease_duration),
            renew_deadline: section.duration("renewDeadline").unwrap_or(default.renew_deadline),
            retry_period: section.duration("retryPeriod").unwrap_or(default.retry_period),
            resource_name: section.written("resourceName"),
            resource_namespace: section.written("resourceNamespace"),
        };
        let lock = section.written("resourceLock");
        if read.enabled {
            read.check(section, lock.as_deref());
        }
        read
    }

    fn check(&self, section: &Section<'_>, lock: Option<&str>) {
        let Self { enabled: _, lease_duration, renew_deadline, retry_period, resource_name, resource_namespace } = self;
        if *lease_duration < Duration::from_secs(1) {
            section.invalid("leaseDuration", "must be at least 1s, the smallest that a Lease can say");
        }
        if *retry_period < SHORTEST_RETRY {
            section.invalid("retryPeriod", format!("must be at least {SHORTEST_RETRY:?}"));
        }
        if lease_duration <= renew_deadline {
            let told = format!("must be greater than renewDeadline ({renew_deadline:?})");
            section.invalid_as("leaseDuration", format!("{lease_duration:?}"), told);
        }
        if *renew_deadline <= retry_period.mul_f64(JITTER) {
            let told = format!("must be greater than {JITTER} times retryPeriod ({retry_period:?})");
            section.invalid_as("renewDeadline", format!("{renew_deadline:?}"), told);
        }
        if lock.is_some_and(|lock| lock != "leases") {
            section.report(Problem::unsupported(
                section.path_of("resourceLock"),
                lock.unwrap_or_default().into(),
                &["leases"],
            ));
        }
        if resource_name.as_ref().is_some_and(|name| !is_dns_subdomain(name) || name.len() > LONGEST_PREFIX) {
            let told = format!("must be lower-case letters, digits, '-' and '.', at most {LONGEST_PREFIX} of them");
            section.invalid("resourceName", told);
        }
        if resource_namespace.as_ref().is_some_and(|name| name.contains('.') || !is_dns_subdomain(name)) {
            section.invalid("resourceNamespace", "must be the name of a namespace");
        }
    }
}
