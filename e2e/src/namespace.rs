//! A namespace of one's own on the shared plane, and the moves of a user in it.

use std::fmt::Debug;
use std::time::Duration;

use grove_api_types::v1alpha1::PodCliqueSet;
use k8s_openapi::api::core::v1::{Namespace as KubeNamespace, ServiceAccount};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::runtime::wait::await_condition;
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::plane::Plane;
use crate::world::{Follower, World};

/// A namespace, its world, and a client that may do anything in it.
pub struct Namespace {
    /// Cluster admin, as the user of the tests.
    pub client: Client,
    /// Its name.
    pub name: String,
    follower: Follower,
}

/// Runs `test` in a fresh namespace of the shared plane and deletes the namespace after it.
///
/// # Panics
/// When there is no shared plane: the tests run through `cargo xtask test`.
pub async fn in_namespace(name: &str, test: impl AsyncFnOnce(&Namespace)) {
    let namespace = Namespace::create(&Plane::shared().client().await, name).await;
    test(&namespace).await;
    namespace.delete().await;
}

impl Namespace {
    /// Creates it and waits until pods may be created in it.
    ///
    /// # Panics
    /// When the API server refuses.
    pub async fn create(client: &Client, name: &str) -> Self {
        let object = KubeNamespace {
            metadata: kube::core::ObjectMeta { name: Some(name.into()), ..Default::default() },
            ..Default::default()
        };
        Api::<KubeNamespace>::all(client.clone()).create(&PostParams::default(), &object).await.expect("a namespace");
        let accounts = Api::<ServiceAccount>::namespaced(client.clone(), name);
        let exists = |account: Option<&ServiceAccount>| account.is_some();
        await_condition(accounts, "default", exists).await.expect("the namespace's default ServiceAccount");
        Self::found(client, name)
    }

    /// One that is there already, of which nothing is known yet.
    pub fn found(client: &Client, name: &str) -> Self {
        Self { client: client.clone(), name: name.to_owned(), follower: Follower::start(client, name) }
    }

    /// Deletes it with all that is left in it.
    ///
    /// # Panics
    /// When the API server refuses.
    pub async fn delete(&self) {
        let namespaces = Api::<KubeNamespace>::all(self.client.clone());
        namespaces.delete(&self.name, &DeleteParams::default()).await.expect("the namespace is deleted");
    }

    /// The objects of one kind in it.
    pub fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// Waits until the world is as `holds` says, and returns it.
    pub async fn until(&self, what: &str, holds: impl Fn(&World) -> bool) -> World {
        self.follower.until(what, holds).await
    }

    /// Waits until the world is as `holds` says.
    ///
    /// # Errors
    /// The world as it was last, when that does not come about.
    pub async fn arrives(&self, holds: impl Fn(&World) -> bool) -> Result<World, Box<World>> {
        self.follower.arrives(holds).await
    }

    /// Waits until nothing has changed for that long, and returns the world.
    pub async fn at_rest(&self, quiet: Duration) -> World {
        self.follower.at_rest(quiet).await
    }

    /// Creates an object from YAML.
    ///
    /// # Panics
    /// When it is no such object or the API server refuses it.
    pub async fn create_yaml<K>(&self, yaml: &str) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned,
    {
        let value: Value = serde_saphyr::from_str(yaml).expect("YAML");
        let object: K = serde_json::from_value(value).expect("an object of the kind");
        self.api().create(&PostParams::default(), &object).await.expect("the object is created")
    }

    /// Waits until the API server trusts who judges this set, and would let it in.
    ///
    /// # Panics
    /// When it goes on trusting nobody, or refuses the set.
    pub async fn until_admitted(&self, set: &str) {
        let set: PodCliqueSet = serde_saphyr::from_str(set).expect("a set");
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let mut words = String::new();
        let asking = async {
            while let Err(error) = self.api::<PodCliqueSet>().create(&dry, &set).await {
                words = error.to_string();
                assert!(words.contains("failed calling webhook"), "{words}");
                tokio::task::yield_now().await;
            }
        };
        let admitted = tokio::time::timeout(crate::world::LIMIT, asking).await.is_ok();
        assert!(admitted, "at last: {words}");
    }

    /// Changes the scale of an object through its scale subresource, as `kubectl scale` does.
    ///
    /// # Panics
    /// When the API server refuses.
    pub async fn scale<K>(&self, name: &str, replicas: i32)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
        self.api::<K>().patch_scale(name, &PatchParams::default(), &patch).await.expect("the object is scaled");
    }

    /// Merges a patch into an object, and returns the object as the patch left it.
    ///
    /// # Panics
    /// When the API server refuses.
    pub async fn patch<K>(&self, name: &str, patch: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let patched = self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.expect("the object is patched")
    }

    /// Deletes an object, as `kubectl delete` does.
    ///
    /// # Panics
    /// When the API server refuses.
    pub async fn remove<K>(&self, name: &str)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        self.api::<K>().delete(name, &DeleteParams::background()).await.expect("the object is deleted");
    }
}
