//! Failure domains of a plan: a failed create blocks later creates of its own domain, and no others.

use std::collections::{BTreeMap, BTreeSet};

use super::{Create, Plan, Step};

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

    /// Whether the step is a create in a blocked failure domain.
    pub(crate) fn is_blocked(&self, step: &Step, blocked: &BTreeSet<i32>) -> bool {
        self.failure_domain_of(step).is_some_and(|domain| blocked.contains(&domain))
    }
}
