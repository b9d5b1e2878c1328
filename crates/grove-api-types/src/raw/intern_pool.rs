//! Interning of equal JSON: the thousand cliques of a set have the same pod spec.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde_json::{Map, Value};

type Fields = Map<String, Value>;

/// The interned values by hash. They only save memory: equal values behave alike, shared or not.
static POOL: Mutex<InternPool> = Mutex::new(InternPool { by_hash: BTreeMap::new(), swept_at: 0 });

struct InternPool {
    by_hash: BTreeMap<u64, Weak<Fields>>,
    /// The number of values after the last sweep.
    swept_at: usize,
}

/// The existing allocation of the same fields, or a new one.
pub(super) fn intern(fields: Fields) -> Arc<Fields> {
    let mut hasher = DefaultHasher::new();
    fields.hash(&mut hasher);
    // No code panics while it holds the lock.
    POOL.lock().unwrap_or_else(PoisonError::into_inner).intern(hasher.finish(), fields)
}

impl InternPool {
    fn intern(&mut self, hash: u64, fields: Fields) -> Arc<Fields> {
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
    fn equal_fields_share_one_allocation_and_different_fields_do_not() {
        let one = intern(fields(1));
        assert!(Arc::ptr_eq(&one, &intern(fields(1))));
        assert!(!Arc::ptr_eq(&one, &intern(fields(2))));
    }

    #[test]
    fn different_fields_with_the_same_hash_stay_different() {
        let mut pool = InternPool { by_hash: BTreeMap::new(), swept_at: 0 };
        let (one, two) = (pool.intern(7, fields(1)), pool.intern(7, fields(2)));
        assert_eq!((&*one, &*two), (&fields(1), &fields(2)));
    }

    #[test]
    fn unused_fields_are_swept() {
        let mut pool = InternPool { by_hash: BTreeMap::new(), swept_at: 0 };
        let used = pool.intern(0, fields(0));
        (1..1000).for_each(|n| drop(pool.intern(n as u64, fields(n))));
        assert!(pool.by_hash.len() < 50, "{}", pool.by_hash.len());
        assert!(Arc::ptr_eq(&used, &pool.intern(0, fields(0))));
    }
}
