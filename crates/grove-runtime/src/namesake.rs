//! An object that has the name which a child is to have, and what its owner may do about it. Pure.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;

use crate::plan::Target;

/// What is known of an object whose name somebody else wants.
#[derive(Clone, Debug, PartialEq)]
pub struct Namesake {
    /// Which object it is.
    pub target: Target,
    /// Its metadata as last seen.
    pub metadata: ObjectMeta,
}

impl Namesake {
    /// What is known of `object`.
    pub fn of<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        Self { target: Target::of(object), metadata: object.meta().clone() }
    }

    /// Whether it is on its way out, so that its name will be free without anybody's doing.
    pub fn is_leaving(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether it may be adopted by one whose children carry `labels`: it stays, nobody controls it, and it has them all.
    pub fn is_adoptable(&self, labels: &BTreeMap<String, String>) -> bool {
        let own = self.metadata.labels.as_ref();
        let has = |(key, value): (&String, &String)| own.and_then(|own| own.get(key)) == Some(value);
        let controlled = self.metadata.owner_references.iter().flatten().any(|owner| owner.controller == Some(true));
        !self.is_leaving() && !controlled && labels.iter().all(has)
    }
}
