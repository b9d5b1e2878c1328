//! Which objects may have the same value of an index.

use kube::Resource;

/// Whether objects of different namespaces can have the same value of an index or a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexScope {
    /// They cannot: each value is the namespace of the object, or begins with it and a slash. So no label and no owner reference of one
    /// namespace leads to an object of another one. Debug builds check each value.
    Namespaced,
    /// They can, because users of several namespaces refer to the same object.
    Cluster,
}

impl IndexScope {
    /// Panics in a debug build if an object must not have this value.
    pub(super) fn check<K: Resource>(self, name: &str, object: &K, value: &str) {
        let is_of = |namespace: &str| {
            value.strip_prefix(namespace).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let is_allowed = || self == Self::Cluster || object.meta().namespace.as_deref().is_none_or(is_of);
        debug_assert!(is_allowed(), "the value {value:?} of {name} does not begin with the namespace of its object");
    }
}
