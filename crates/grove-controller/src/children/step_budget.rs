//! The budget of the creates and patches of one plan, so that its memory and its time have a bound. The watch events of these writes
//! trigger the next plan, which continues with the other children. Pure.

use crate::plan::Step;

/// A thousand children of usual size fit into one plan. The deletes of a plan have the same bound, apart from the creates and patches.
pub(super) const MAX_STEPS: usize = 4096;
/// The manifests and patches of a plan.
const MAX_BYTES: usize = 8 << 20;

/// The remaining budget of a plan.
#[derive(Debug)]
pub struct StepBudget {
    steps: usize,
    bytes: usize,
}

impl Default for StepBudget {
    fn default() -> Self {
        Self { steps: MAX_STEPS, bytes: MAX_BYTES }
    }
}

impl StepBudget {
    /// Whether the plan gets no further step. Then no child is built, and none is compared.
    pub(super) fn is_exhausted(&self) -> bool {
        self.steps == 0 || self.bytes == 0
    }

    /// Subtracts a step of the plan.
    pub(super) fn spend(&mut self, step: &Step) {
        self.steps = self.steps.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(step.stored_bytes());
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

    /// How many of these steps a plan has.
    fn steps_of(step: &Step) -> usize {
        let (mut budget, mut steps) = (StepBudget::default(), 0);
        while !budget.is_exhausted() {
            budget.spend(step);
            steps += 1;
        }
        steps
    }

    #[test]
    fn a_plan_has_many_small_or_few_large_steps() {
        assert_eq!(steps_of(&Step::create(&config_map(100))), MAX_STEPS);
        assert_eq!(steps_of(&Step::create(&config_map(1 << 20))), 8);
        let change = json!({ "data": { "k": "x".repeat(1 << 20) } });
        assert_eq!(steps_of(&Step::merge_patch(&config_map(1), change)), 8);
    }
}
