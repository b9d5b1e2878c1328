//! The queues that admission reads. Only one scheduler has such queues; its file has everything about their kind.

use grove_api_types::scheduler::Scheduler;
use grove_runtime::rbac::{PolicyRule, Verb};

mod volcano;

pub(crate) use self::volcano::{Queue, SCHEDULER};

/// The permissions on the queues, for installations with their scheduler.
pub(crate) fn rules_of_schedulers() -> Vec<(Scheduler, Vec<PolicyRule>)> {
    let reason = "validate the queue names of sets";
    vec![(SCHEDULER, vec![PolicyRule::for_resource::<Queue>(&[Verb::List, Verb::Watch], reason)])]
}

#[cfg(test)]
mod tests {
    use grove_api_types::scheduler::Queues;

    use super::*;

    /// The rules compare the queues of all sets with this one kind.
    #[test]
    fn only_one_scheduler_has_queues_that_must_exist() {
        let must_exist = |scheduler: &Scheduler| matches!(scheduler.queues(), Queues::Defaulted { .. });
        let schedulers = Scheduler::ALL.into_iter().map(|(_, scheduler)| scheduler).filter(must_exist);
        assert_eq!(schedulers.collect::<Vec<_>>(), [SCHEDULER]);
    }
}
