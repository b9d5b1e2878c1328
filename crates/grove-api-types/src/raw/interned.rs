//! Equal JSON is kept once: the thousand cliques of a set carry the same pod spec.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde_json::{Map, Value};

type Fields = Map<String, Value>;

/// What is in use somewhere, by its hash. It only saves memory: nobody can tell whether two equal values are one.
static IN_USE: Mutex<InUse> = Mutex::new(InUse { by_hash: BTreeMap::new(), swept_at: 0 });

struct InUse {
    by_hash: BTreeMap<u64, Weak<Fields>>,
    /// How many there were after the last sweep.
    swept_at: usize,
}

/// The allocation that others use for the same fields, or a new one.
pub(super) fn shared(fields: Fields) -> Arc<Fields> {
    let mut hasher = DefaultHasher::new();
    fields.hash(&mut hasher);
    // No code panics while it holds the lock.
    IN_USE.lock().unwrap_or_else(PoisonError::into_inner).share(hasher.finish(), fields)
}

impl InUse {
    fn share(&mut self, hash: u64, fields: Fields) -> Arc<Fields> {
        let known = self.by_hash.get(&hash).and_then(Weak::upgrade);
        if let Some(same) = known.filter(|known| **known == fields) {
            return same;
        }
        let new = Arc::new(fields);
        self.by_hash.insert(hash, Arc::downgrade(&new));
        if self.by_hash.len() > 2 * self.swept_at + 16 {
            self.by_hash.retain(|_, fields| fields.strong_count() > 0);
            self.swept_at = self.by_hash.len();
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(n: usize) -> Fields {
        Map::from_iter([("n".to_owned(), Value::from(n))])
    }

    #[test]
    fn equal_fields_are_one_allocation_and_others_are_not() {
        let one = shared(fields(1));
        assert!(Arc::ptr_eq(&one, &shared(fields(1))));
        assert!(!Arc::ptr_eq(&one, &shared(fields(2))));
    }

    #[test]
    fn fields_of_one_hash_stay_what_they_are() {
        let mut in_use = InUse { by_hash: BTreeMap::new(), swept_at: 0 };
        let (one, two) = (in_use.share(7, fields(1)), in_use.share(7, fields(2)));
        assert_eq!((&*one, &*two), (&fields(1), &fields(2)));
    }

    #[test]
    fn what_nobody_uses_any_more_is_swept() {
        let mut in_use = InUse { by_hash: BTreeMap::new(), swept_at: 0 };
        let kept = in_use.share(0, fields(0));
        (1..1000).for_each(|n| drop(in_use.share(n as u64, fields(n))));
        assert!(in_use.by_hash.len() < 50, "{}", in_use.by_hash.len());
        assert!(Arc::ptr_eq(&kept, &in_use.share(0, fields(0))));
    }
}
