//! An object of a cache as kube's controller keeps it: the cache's own copy, not a second one.

use std::{borrow::Cow, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Resource,
    runtime::{
        reflector::{self, ObjectRef, store::Writer},
        watcher::Event,
    },
};
use serde::{Deserialize, Deserializer};

/// Shares what kube's store would copy.
#[derive(Debug)]
pub(super) struct Shared<K>(pub(super) Arc<K>);

impl<K> Clone for Shared<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<'de, K: Deserialize<'de>> Deserialize<'de> for Shared<K> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        K::deserialize(from).map(|object| Self(Arc::new(object)))
    }
}

impl<K: Resource + Clone> Resource for Shared<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dyntype: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(dyntype)
    }

    fn group(dyntype: &Self::DynamicType) -> Cow<'_, str> {
        K::group(dyntype)
    }

    fn version(dyntype: &Self::DynamicType) -> Cow<'_, str> {
        K::version(dyntype)
    }

    fn plural(dyntype: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(dyntype)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        Arc::make_mut(&mut self.0).meta_mut()
    }
}

/// A store of kube's that is ready from the start, because the controller starts only after the caches are filled.
pub(super) type Store<K> = reflector::Store<Shared<K>>;

/// What keeps a [`Store`] up to date.
pub(super) struct Feed<K: Resource<DynamicType = ()> + Clone + 'static>(Writer<Shared<K>>);

pub(super) fn store<K>() -> (Store<K>, Feed<K>)
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    let (store, mut writer) = reflector::store();
    writer.apply_watcher_event(&Event::Init);
    writer.apply_watcher_event(&Event::InitDone);
    (store, Feed(writer))
}

impl<K> Feed<K>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    /// Takes the object as it is now.
    pub(super) fn applied(&mut self, object: &Arc<K>) {
        self.0.apply_watcher_event(&Event::Apply(Shared(Arc::clone(object))));
    }

    /// Forgets the object.
    pub(super) fn deleted(&mut self, object: &Arc<K>) {
        self.0.apply_watcher_event(&Event::Delete(Shared(Arc::clone(object))));
    }
}

/// The same object as kube's controller knows it.
pub(super) fn shared<K>(object: ObjectRef<K>) -> ObjectRef<Shared<K>>
where
    K: Resource<DynamicType = ()> + Clone,
{
    object.into_kind_unchecked(())
}
