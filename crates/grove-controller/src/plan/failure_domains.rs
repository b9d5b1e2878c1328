//! Failure domains of a plan: a failed create blocks later creates of its own domain, and no others.

use std::collections::{BTreeMap, BTreeSet};

use super::{Create, Plan, Step, Target};

impl Plan {
    /// Assigns children to failure domains, by name. The domain of a set's child is the index of its replica.
    #[must_use]
    pub fn with_failure_domains(self, failure_domains: BTreeMap<String, i32>) -> Self {
        Self { failure_domains, ..self }
    }

    /// The failure domain of a create. Patches and deletes depend on no earlier step.
    pub(crate) fn failure_domain_of(&self, step: &Step) -> Option<i32> {
        let Step::Create(Create { target, object: _ }) = step else { return None };
        self.failure_domains.get(&target.name).copied()
    }

    /// The plan without the creates of `rejected`, and without later creates in the same failure domains.
    #[must_use]
    pub fn skip_creates<'a>(self, rejected: impl IntoIterator<Item = &'a Target>) -> Self {
        let rejected: BTreeSet<_> =
            rejected.into_iter().map(|it| (it.resource.kind.as_str(), it.name.as_str())).collect();
        if rejected.is_empty() {
            return self;
        }
        let is_rejected = |step: &Step| {
            let target = step.target();
            matches!(step, Step::Create(_)) && rejected.contains(&(target.resource.kind.as_str(), target.name.as_str()))
        };
        self.filter_map_steps(|step| (!is_rejected(&step)).then_some(step))
    }

    /// Replaces each step by the result of `f`. If `f` drops a step, later creates in the same failure domain are dropped, too.
    pub(crate) fn filter_map_steps(mut self, mut f: impl FnMut(Step) -> Option<Step>) -> Self {
        let mut blocked = BTreeSet::new();
        for mut stage in std::mem::take(&mut self.stages) {
            let mut failed = BTreeSet::new();
            for step in std::mem::take(&mut stage.steps) {
                let domain = self.failure_domain_of(&step);
                match f(step) {
                    Some(step) if self.is_blocked(&step, &blocked) => {}
                    Some(step) => stage.steps.push(step),
                    None => failed.extend(domain),
                }
            }
            blocked.append(&mut failed);
            self = self.stage(stage);
        }
        self
    }

    /// Whether the step is a create in a blocked failure domain.
    pub(crate) fn is_blocked(&self, step: &Step, blocked: &BTreeSet<i32>) -> bool {
        self.failure_domain_of(step).is_some_and(|domain| blocked.contains(&domain))
    }
}
