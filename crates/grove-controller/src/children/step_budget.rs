//! The budgets of the creates and of the patches of one plan, so that its memory and its time have a bound. The watch events of these
//! writes trigger the next plan, which continues with the other children. Pure.

use crate::plan::Step;

/// A thousand children of usual size fit into one plan. Creates, patches and deletes of a plan each have this bound.
pub(super) const MAX_STEPS: usize = 4096;

/// A remaining number of steps, and of bytes of their manifests or changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StepLimit {
    steps: usize,
    bytes: usize,
}

impl StepLimit {
    /// For the creates of a plan.
    pub(super) const CREATES: Self = Self { steps: MAX_STEPS, bytes: 4 << 20 };
    /// For the patches of a plan. A policy may reject the same patches in each plan, and creates have a limit of their own.
    pub(super) const PATCHES: Self = Self { steps: MAX_STEPS, bytes: 2 << 20 };
    /// For the creates of a kind in its retry after a quota: batches of 1, 2, 4, 8, 16 and 32. If all succeed, the next plan has no
    /// such limit.
    pub(super) const AFTER_QUOTA: Self = Self { steps: 63, ..Self::CREATES };

    /// Whether no further step is allowed.
    pub(super) fn is_exhausted(&self) -> bool {
        self.steps == 0 || self.bytes == 0
    }

    /// Subtracts a step.
    pub(super) fn spend(&mut self, step: &Step) {
        self.steps = self.steps.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(step.stored_bytes());
    }
}

/// The remaining budget of a plan. A child without budget is not built, and not compared.
#[derive(Debug)]
pub struct StepBudget {
    pub(super) creates: StepLimit,
    pub(super) patches: StepLimit,
}

impl Default for StepBudget {
    fn default() -> Self {
        Self { creates: StepLimit::CREATES, patches: StepLimit::PATCHES }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    fn config_map(bytes: usize) -> ConfigMap {
        serde_json::from_value(json!({ "metadata": { "name": "a" }, "data": { "k": "x".repeat(bytes) } })).unwrap()
    }

    /// How many of these steps the limit allows.
    fn steps_of(mut limit: StepLimit, step: &Step) -> usize {
        let mut steps = 0;
        while !limit.is_exhausted() {
            limit.spend(step);
            steps += 1;
        }
        steps
    }

    #[test]
    fn a_plan_has_many_small_or_few_large_steps() {
        let (small, large) = (Step::create(&config_map(100)), Step::create(&config_map(1 << 20)));
        let patch = Step::merge_patch(&config_map(1), json!({ "data": { "k": "x".repeat(1 << 20) } }));
        let StepBudget { creates, patches } = StepBudget::default();
        assert_eq!([steps_of(creates, &small), steps_of(creates, &large)], [MAX_STEPS, 4]);
        assert_eq!([steps_of(patches, &small), steps_of(patches, &patch)], [MAX_STEPS, 2]);
        assert_eq!([&small, &large].map(|step| steps_of(StepLimit::AFTER_QUOTA, step)), [63, 4]);
    }
}
