//! The children of one owner in a snapshot, by kind and name.

use std::{
    any::{Any, TypeId},
    collections::BTreeMap,
    fmt::Debug,
    sync::Arc,
};

use kube::{Resource, ResourceExt};

/// Objects of one kind, by name.
pub type ByName<K> = BTreeMap<String, Arc<K>>;

/// A [`ByName`] of any kind.
trait AnyByName: Any + Debug + Send + Sync {
    fn clone_box(&self) -> Box<dyn AnyByName>;
}

impl<K: Debug + Send + Sync + 'static> AnyByName for ByName<K> {
    fn clone_box(&self) -> Box<dyn AnyByName> {
        Box::new(self.clone())
    }
}

/// The observed children of one owner. The children of one kind are sorted by name.
#[derive(Debug, Default)]
pub struct ObservedChildren {
    by_kind: BTreeMap<TypeId, Box<dyn AnyByName>>,
}

impl Clone for ObservedChildren {
    fn clone(&self) -> Self {
        Self { by_kind: self.by_kind.iter().map(|(kind, objects)| (*kind, (**objects).clone_box())).collect() }
    }
}

impl ObservedChildren {
    /// The child of this name.
    pub fn get<K: 'static>(&self, name: &str) -> Option<&Arc<K>> {
        self.by_name()?.get(name)
    }

    /// The children of one kind.
    pub fn of_kind<K: 'static>(&self) -> impl Iterator<Item = &Arc<K>> {
        self.by_name().into_iter().flat_map(BTreeMap::values)
    }

    /// Adds children. A child with the name of another one of its kind replaces it.
    pub fn extend<K>(&mut self, objects: impl IntoIterator<Item = Arc<K>>)
    where
        K: Resource + Debug + Send + Sync + 'static,
    {
        self.by_name_mut().extend(objects.into_iter().map(|object| (object.name_any(), object)));
    }

    /// The children of one kind, by name. A simulation changes them.
    #[expect(clippy::expect_used, clippy::missing_panics_doc, reason = "the entry of a type is a map of that type")]
    pub fn by_name_mut<K: Debug + Send + Sync + 'static>(&mut self) -> &mut ByName<K> {
        let objects = self.by_kind.entry(TypeId::of::<K>()).or_insert_with(|| Box::new(ByName::<K>::new()));
        let objects: &mut dyn Any = &mut **objects;
        objects.downcast_mut().expect("children of this type")
    }

    fn by_name<K: 'static>(&self) -> Option<&ByName<K>> {
        let objects: &dyn Any = &**self.by_kind.get(&TypeId::of::<K>())?;
        objects.downcast_ref()
    }
}
