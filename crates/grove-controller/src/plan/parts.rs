//! Parts of a plan that do not need one another: what one lacks holds up what is made for it later, and no other.

use std::collections::{BTreeMap, BTreeSet};

use super::{Create, Plan, Step, Target};

impl Plan {
    /// Says which children belong to which part of the object: what one part lacks holds up no other.
    #[must_use]
    pub fn in_parts(self, parts: BTreeMap<String, i32>) -> Self {
        Self { parts, ..self }
    }

    /// The part that a step makes something for; only what is to come needs what comes before it.
    pub(crate) fn part_of(&self, step: &Step) -> Option<i32> {
        let Step::Create(Create { target, object: _ }) = step else { return None };
        self.parts.get(&target.name).copied()
    }

    /// The plan without the creates of `missing`, and without those that come later in the same parts.
    #[must_use]
    pub fn without<'a>(self, missing: impl IntoIterator<Item = &'a Target>) -> Self {
        let missing: BTreeSet<_> =
            missing.into_iter().map(|it| (it.resource.kind.as_str(), it.name.as_str())).collect();
        if missing.is_empty() {
            return self;
        }
        let is_missing = |step: &Step| {
            let target = step.target();
            matches!(step, Step::Create(_)) && missing.contains(&(target.resource.kind.as_str(), target.name.as_str()))
        };
        self.sifted(|step| (!is_missing(&step)).then_some(step))
    }

    /// The plan with what becomes of each step. Where nothing becomes of one, its part lacks it, and what later stages
    /// would create in that part goes, too.
    pub(crate) fn sifted(mut self, mut becomes: impl FnMut(Step) -> Option<Step>) -> Self {
        let mut incomplete = BTreeSet::new();
        for mut stage in std::mem::take(&mut self.stages) {
            let mut lacking = BTreeSet::new();
            for step in std::mem::take(&mut stage.steps) {
                let part = self.part_of(&step);
                match becomes(step) {
                    Some(step) if self.is_held_up(&step, &incomplete) => {}
                    Some(step) => stage.steps.push(step),
                    None => lacking.extend(part),
                }
            }
            incomplete.append(&mut lacking);
            self = self.stage(stage);
        }
        self
    }

    /// Whether the step makes something for a part that lacks what comes before it.
    pub(crate) fn is_held_up(&self, step: &Step, incomplete: &BTreeSet<i32>) -> bool {
        self.part_of(step).is_some_and(|part| incomplete.contains(&part))
    }
}
