//! Delays a stage of a plan that no user and no controller waits for, like a minor change of a status.

use kube::Resource;

use crate::{
    plan::Plan,
    status_limiter::{StatusChange, StatusLimiter, StatusTokens},
};

/// The objects with a delayed stage of this name.
#[derive(Debug)]
pub struct StageThrottle {
    stage: &'static str,
    limiter: StatusLimiter,
}

impl StageThrottle {
    /// A throttle without delayed stages. The delays are those of minor changes of statuses.
    pub fn new(stage: &'static str, tokens: StatusTokens) -> Self {
        Self { stage, limiter: StatusLimiter::new(tokens) }
    }

    /// Omits the stage from the plan of the object until it is due, and sets the time of the next plan. A plan without the stage ends the
    /// wait.
    #[must_use]
    pub fn delay_stage<K: Resource>(&self, object: &K, mut plan: Plan) -> Plan {
        if plan.stages.iter().all(|stage| stage.name != self.stage) {
            self.limiter.end_wait(object);
        } else if let Err(delay) = self.limiter.admit(object, StatusChange::Minor) {
            plan.stages.retain(|stage| stage.name != self.stage);
            plan.status_after = Some(delay);
        }
        plan
    }

    /// Records that the stage of the object was executed.
    pub fn record_write<K: Resource>(&self, object: &K) {
        self.limiter.record_write(object);
    }

    /// Drops the delay of a deleted object.
    pub fn forget<K: Resource>(&self, object: &K) {
        self.limiter.forget(object);
    }

    /// The number of objects whose stage was executed or waits.
    pub fn delayed(&self) -> usize {
        self.limiter.len()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::{
        plan::{Stage, Step},
        status_limiter::MIN_INTERVAL,
    };

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
        let throttle = StageThrottle::new(DELAYED, StatusTokens::default());
        throttle.record_write(&object("a"));
        let delayed = throttle.delay_stage(&object("a"), plan(&["first", DELAYED, "last"]));
        assert_eq!(stages(&delayed), ["first", "last"]);
        assert_eq!(delayed.status_after, Some(MIN_INTERVAL));
        tokio::time::advance(MIN_INTERVAL).await;
        let due = throttle.delay_stage(&object("a"), plan(&["first", DELAYED]));
        assert_eq!((stages(&due), due.status_after), (vec!["first", DELAYED], None));
        assert_eq!(throttle.delay_stage(&object("a"), plan(&[DELAYED])), plan(&[DELAYED]), "the retry is not delayed");
        throttle.forget(&object("a"));
        assert_eq!(throttle.delayed(), 0);
    }
}
