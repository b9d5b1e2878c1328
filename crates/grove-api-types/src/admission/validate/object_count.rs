//! What all numbers of a set come to together.

use super::Judged;
use crate::admission::findings::{Excess, Findings, identity_of};
use crate::admission::texts::too_large;
use crate::admission::{FieldPath, Rule};
use crate::expansion::object_count::{self, MAX_OBJECTS, ObjectCount};

/// Names the number that alone is too much, else that of the set.
pub(super) fn check(judged: &Judged<'_>, found: &mut Findings) {
    let total = object_count::of_template(judged.set);
    if total <= MAX_OBJECTS {
        return;
    }
    let largest = ObjectCount::of(judged.template()).parts().max_by_key(|(_, objects)| *objects);
    let culprit = largest.filter(|(_, objects)| *objects > MAX_OBJECTS).map(|(name, _)| name);
    let clique = judged.cliques().find(|(_, it)| culprit == Some(&it.name) && judged.group_of(&it.name).is_none());
    let group = judged.groups().find(|(_, it)| culprit == Some(&it.name));
    let (path, replicas) = match (clique, group) {
        (Some((path, clique)), _) => (path.field("spec").field("replicas"), clique.spec.replicas),
        (None, Some((path, group))) => (path.field("replicas"), group.replicas()),
        (None, None) => (FieldPath::new("spec.replicas"), judged.set.spec.replicas),
    };
    // Whichever number is named: it is the set that is too large.
    let excess = Excess { of: identity_of(Rule::SetSize.name()), much: total };
    found.exceeds((Rule::SetSize, &path), replicas, excess, too_large(total));
}
