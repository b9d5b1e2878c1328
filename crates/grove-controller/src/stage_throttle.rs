//! Delays a stage of a plan that no user and no controller waits for, like a status that only shows progress.

use kube::Resource;

use crate::{
    api_latency::ApiLatency,
    plan::Plan,
    status_policy::StatusPolicy,
    status_throttle::{StatusChange, StatusThrottle},
};

/// The objects with a delayed stage of this name.
#[derive(Debug)]
pub struct StageThrottle {
    stage: &'static str,
    throttle: StatusThrottle,
}

impl StageThrottle {
    /// A throttle without delayed stages. The delays are those that `policy` has for progress.
    pub fn new(stage: &'static str, policy: StatusPolicy, latency: ApiLatency) -> Self {
        Self { stage, throttle: StatusThrottle::new(policy, latency) }
    }

    /// Omits the stage from the plan of the object until it is due, and sets the time of the next plan. The delay counts from the first
    /// plan with the stage, and ends with the first plan without it.
    #[must_use]
    pub fn delay_stage<K: Resource>(&self, object: &K, mut plan: Plan) -> Plan {
        if plan.stages.iter().all(|stage| stage.name != self.stage) {
            self.throttle.end_delay(object);
        } else if let Err(delay) = self.throttle.admit(object, StatusChange::Progress) {
            plan.stages.retain(|stage| stage.name != self.stage);
            plan.progress_after = Some(delay);
        }
        plan
    }

    /// Drops the delay of a deleted object.
    pub fn forget<K: Resource>(&self, object: &K) {
        self.throttle.forget(object);
    }

    /// The number of objects with a delayed stage.
    pub fn delayed(&self) -> usize {
        self.throttle.delayed()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::{
        plan::{Stage, Step},
        status_throttle::ProgressDelay,
    };

    const POLICY: StatusPolicy = StatusPolicy::DEFAULT;
    const INTERVAL: Duration = POLICY.progress_interval;
    const DELAYED: &str = "delayed";

    fn object(uid: &str) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.uid = Some(uid.to_owned());
        object
    }

    fn plan(stages: &[&'static str]) -> Plan {
        let step = || Step::create(&object("child"));
        stages.iter().fold(Plan::new(), |plan, name| plan.stage(Stage::new(name, [step()])))
    }

    fn stages(plan: &Plan) -> Vec<&'static str> {
        plan.stages.iter().map(|stage| stage.name).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_named_stage_is_delayed_until_it_is_due() {
        let throttle = StageThrottle::new(DELAYED, POLICY, ApiLatency::default());
        let delayed = throttle.delay_stage(&object("a"), plan(&["first", DELAYED, "last"]));
        assert_eq!(stages(&delayed), ["first", "last"]);
        let expected = ProgressDelay { due: INTERVAL, deadline: POLICY.progress_deadline };
        assert_eq!(delayed.progress_after, Some(expected));
        tokio::time::advance(INTERVAL).await;
        let due = throttle.delay_stage(&object("a"), plan(&["first", DELAYED]));
        assert_eq!((stages(&due), due.progress_after), (vec!["first", DELAYED], None));
        assert_eq!(throttle.delay_stage(&object("a"), plan(&[DELAYED])), plan(&[DELAYED]), "the retry is not delayed");
    }

    #[tokio::test(start_paused = true)]
    async fn a_plan_without_the_stage_and_the_deletion_of_the_object_end_the_delay() {
        let throttle = StageThrottle::new(DELAYED, POLICY, ApiLatency::default());
        for end in [
            |throttle: &StageThrottle| drop(throttle.delay_stage(&object("a"), plan(&["first"]))),
            |throttle: &StageThrottle| throttle.forget(&object("a")),
        ] {
            assert!(throttle.delay_stage(&object("a"), plan(&[DELAYED])).is_empty());
            assert_eq!(throttle.delayed(), 1);
            end(&throttle);
            assert_eq!(throttle.delayed(), 0);
        }
    }
}
