//! Interning of equal JSON: the thousand cliques of a set have the same pod spec.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The interned texts by hash. They only save memory: equal texts behave alike, shared or not.
static POOL: Mutex<InternPool> = Mutex::new(InternPool { by_hash: BTreeMap::new(), swept_at: 0 });

struct InternPool {
    by_hash: BTreeMap<u64, Weak<str>>,
    /// The number of texts after the last sweep.
    swept_at: usize,
}

/// The existing allocation of the same text, or a new one.
pub(super) fn intern(text: &str) -> Arc<str> {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    // No code panics while it holds the lock.
    POOL.lock().unwrap_or_else(PoisonError::into_inner).intern(hasher.finish(), text)
}

impl InternPool {
    fn intern(&mut self, hash: u64, text: &str) -> Arc<str> {
        let known = self.by_hash.get(&hash).and_then(Weak::upgrade);
        if let Some(same) = known.filter(|known| **known == *text) {
            return same;
        }
        let new = Arc::from(text);
        self.by_hash.insert(hash, Arc::downgrade(&new));
        if self.by_hash.len() > 2 * self.swept_at + 16 {
            self.by_hash.retain(|_, text| text.strong_count() > 0);
            self.swept_at = self.by_hash.len();
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_share_one_allocation_and_different_texts_do_not() {
        let one = intern("1");
        assert!(Arc::ptr_eq(&one, &intern("1")));
        assert!(!Arc::ptr_eq(&one, &intern("2")));
    }

    #[test]
    fn different_texts_with_the_same_hash_stay_different() {
        let mut pool = InternPool { by_hash: BTreeMap::new(), swept_at: 0 };
        let (one, two) = (pool.intern(7, "1"), pool.intern(7, "2"));
        assert_eq!((&*one, &*two), ("1", "2"));
    }

    #[test]
    fn unused_texts_are_swept() {
        let mut pool = InternPool { by_hash: BTreeMap::new(), swept_at: 0 };
        let used = pool.intern(0, "0");
        (1..1000).for_each(|n| drop(pool.intern(n, &n.to_string())));
        assert!(pool.by_hash.len() < 50, "{}", pool.by_hash.len());
        assert!(Arc::ptr_eq(&used, &pool.intern(0, "0")));
    }
}
