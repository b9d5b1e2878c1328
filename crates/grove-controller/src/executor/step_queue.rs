//! The steps of a stage in the order in which they are sent: how many may be in flight, and which are never sent.

use grove_runtime::api_error::ApiError;

use super::{MAX_IN_FLIGHT_WRITES, execution_result::Effect};
use crate::plan::{SlowStart, Stage, Step};

/// The steps of a stage that are not sent yet.
pub(super) struct StepQueue<'a> {
    steps: &'a [Step],
    /// The position of the next step.
    next: usize,
    /// The size of the next batch, which starts when no write is in flight. Without a batch, each response starts the next write.
    batch: Option<usize>,
    alternate: Option<usize>,
    objects_are_alike: bool,
    /// Whether the creates that are left are not sent.
    omits_creates: bool,
}

impl<'a> StepQueue<'a> {
    pub(super) fn of(stage: &'a Stage) -> Self {
        let at_once = SlowStart { first_batch: MAX_IN_FLIGHT_WRITES, alternate: None, objects_are_alike: false };
        let SlowStart { first_batch, alternate, objects_are_alike } = stage.slow_start.unwrap_or(at_once);
        let batch = Some(first_batch).filter(|batch| *batch < MAX_IN_FLIGHT_WRITES);
        Self { steps: &stage.steps, next: 0, batch, alternate, objects_are_alike, omits_creates: false }
    }

    /// Removes the steps that may be sent while `in_flight` of the stage are in flight, each with its position.
    pub(super) fn take(&mut self, in_flight: usize) -> impl Iterator<Item = (usize, &'a Step)> + use<'a> {
        let allowed = match self.batch {
            None => MAX_IN_FLIGHT_WRITES.saturating_sub(in_flight),
            Some(_) if in_flight > 0 => 0,
            Some(batch) => {
                self.batch = (batch < MAX_IN_FLIGHT_WRITES).then_some((2 * batch).min(MAX_IN_FLIGHT_WRITES));
                batch
            }
        };
        let mut taken = Vec::new();
        while taken.len() < allowed
            && let Some(step) = self.steps.get(self.next)
        {
            if !(self.omits_creates && is_create(step)) {
                taken.push((self.next, step));
            }
            self.next += 1;
        }
        taken.into_iter()
    }

    /// Ends the queue if the namespace is terminating. Ends the creates if a quota rejected one, or if the objects are alike and the
    /// server rejected one for another reason than a name conflict. If it rejected the first one of a retry, the alternate and the
    /// steps behind it remain.
    pub(super) fn observe(&mut self, position: usize, result: &Result<Effect, ApiError>) {
        let Err(error) = result else { return };
        if error.is_namespace_terminating {
            self.next = self.steps.len();
            return;
        }
        let concerns_all = self.objects_are_alike && error.reason != ApiError::NAME_CONFLICT;
        if !self.steps.get(position).is_some_and(is_create) || !(concerns_all || error.is_quota_rejection()) {
            return;
        }
        if let Some(alternate) = self.alternate.take().filter(|_| position == 0) {
            (self.next, self.batch) = (alternate, Some(1));
        } else {
            (self.omits_creates, self.batch) = (true, None);
        }
    }
}

fn is_create(step: &Step) -> bool {
    matches!(step, Step::Create(_))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    fn stage(steps: usize, slow_start: Option<SlowStart>) -> Stage {
        let steps = (0..steps).map(|_| Step::create(&ConfigMap::default()));
        Stage::new("s", steps).with_slow_start(slow_start)
    }

    /// The positions in each batch, if the server answers a batch with `answer` before the next one starts.
    fn batches(stage: &Stage, answer: impl Fn(usize) -> Result<Effect, ApiError>) -> Vec<Vec<usize>> {
        let (mut queue, mut batches) = (StepQueue::of(stage), vec![]);
        loop {
            let batch: Vec<_> = queue.take(0).map(|(position, _)| position).collect();
            if batch.is_empty() {
                return batches;
            }
            for position in &batch {
                queue.observe(*position, &answer(*position));
            }
            batches.push(batch);
        }
    }

    fn rejection() -> Result<Effect, ApiError> {
        Err(ApiError::new(403, "Forbidden", "configmaps \"m\" is forbidden: exceeded quota: small"))
    }

    fn policy() -> Result<Effect, ApiError> {
        Err(ApiError::new(422, "Invalid", "denied request"))
    }

    fn sizes(stage: &Stage, answer: impl Fn(usize) -> Result<Effect, ApiError>) -> Vec<usize> {
        batches(stage, answer).iter().map(Vec::len).collect()
    }

    #[test]
    fn a_stage_without_slow_start_sends_as_many_steps_as_may_be_in_flight_until_a_quota_rejects_one() {
        let stage = stage(70, None);
        assert_eq!(sizes(&stage, |_| Ok(Effect::Applied)), [32, 32, 6]);
        assert_eq!(sizes(&stage, |_| policy()), [32, 32, 6]);
        assert_eq!(sizes(&stage, |_| rejection()), [32]);
        let quota_of_40 = |position: usize| if position < 40 { Ok(Effect::Applied) } else { rejection() };
        assert_eq!(sizes(&stage, quota_of_40), [32, 32]);
    }

    #[test]
    fn a_quota_ends_the_creates_of_a_stage_and_no_other_step() {
        let patches_of = |slow_start: Option<SlowStart>| {
            let mut stage = stage(70, slow_start);
            stage.steps.extend((0..40).map(|_| Step::merge_patch(&ConfigMap::default(), json!({}))));
            let sent = batches(&stage, |position| if position < 70 { rejection() } else { policy() });
            sent.concat().into_iter().filter(|position| *position >= 70).count()
        };
        assert_eq!([None, Some(SlowStart::RETRY_AFTER_QUOTA)].map(patches_of), [40; 2]);
    }

    #[test]
    fn a_retry_after_a_quota_ends_at_the_quota_and_not_at_a_policy() {
        let stage = stage(10, Some(SlowStart::RETRY_AFTER_QUOTA));
        assert_eq!(batches(&stage, |_| policy()), [vec![0], vec![1, 2], vec![3, 4, 5, 6], vec![7, 8, 9]]);
        assert_eq!(batches(&stage, |_| rejection()), [vec![0]]);
        let one_more = |position: usize| if position == 0 { Ok(Effect::Applied) } else { rejection() };
        assert_eq!(batches(&stage, one_more), [vec![0], vec![1, 2]]);
    }

    #[test]
    fn batches_of_a_slow_start_double_up_to_the_limit_of_writes_in_flight() {
        let stage = stage(100, Some(SlowStart::INITIAL));
        assert_eq!(sizes(&stage, |_| Ok(Effect::Applied)), [8, 16, 32, 32, 12]);
        let mut queue = StepQueue::of(&stage);
        assert_eq!([0, 3, 0, 5, 0].map(|in_flight| queue.take(in_flight).count()), [8, 0, 16, 0, 32]);
    }

    #[test]
    fn a_rejected_create_ends_a_slow_start_and_a_name_conflict_does_not() {
        let quota_of_10 = |position: usize| if position < 10 { Ok(Effect::Applied) } else { rejection() };
        let sent = batches(&stage(300, Some(SlowStart::INITIAL)), quota_of_10).concat();
        assert_eq!(sent, (0..24).collect::<Vec<_>>());
        let conflict = |_: usize| Err(ApiError::new(409, ApiError::NAME_CONFLICT, "exists"));
        assert_eq!(batches(&stage(50, Some(SlowStart::INITIAL)), conflict).concat().len(), 50);
    }

    #[test]
    fn a_terminating_namespace_ends_every_stage() {
        let terminating = |_: usize| Err(ApiError { is_namespace_terminating: true, ..rejection().unwrap_err() });
        for (slow_start, sent) in [(None, 32), (Some(SlowStart::INITIAL), 8), (Some(SlowStart::RETRY), 1)] {
            assert_eq!(batches(&stage(70, slow_start), terminating).concat().len(), sent);
        }
    }

    #[test]
    fn a_retry_sends_the_alternate_if_the_first_create_is_rejected() {
        let stage = stage(10, Some(SlowStart { alternate: Some(6), ..SlowStart::RETRY }));
        assert_eq!(batches(&stage, |_| rejection()), [vec![0], vec![6]]);
        let only_first = |position: usize| if position == 0 { rejection() } else { Ok(Effect::Applied) };
        assert_eq!(batches(&stage, only_first), [vec![0], vec![6], vec![7, 8], vec![9]]);
    }

    #[test]
    fn a_retry_begins_with_one_create_doubles_and_ends_at_a_rejection() {
        let stage = stage(10, Some(SlowStart::RETRY));
        assert_eq!(batches(&stage, |_| Ok(Effect::Applied)), [vec![0], vec![1, 2], vec![3, 4, 5, 6], vec![7, 8, 9]]);
        assert_eq!(batches(&stage, |_| policy()), [vec![0]]);
    }
}
