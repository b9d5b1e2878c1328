//! A namespace of one test, and what users do in it.

use std::fmt::Debug;
use std::time::Duration;

use grove_api_types::v1alpha1::PodCliqueSet;
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{Namespace as KubeNamespace, Pod, ServiceAccount};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::runtime::wait::await_condition;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::namespace_state::{NamespaceState, NamespaceWatcher, is_ready};
use crate::poll::poll_until_contains;
use crate::test_cluster::TestCluster;

/// The output after an accepted request.
const ADMITTED: &str = "admitted";
/// A finalizer that nothing but the test removes.
const FINALIZER: &str = "test.grove.io/keep";

/// A namespace, its watched objects, and a client with full permissions.
pub struct Namespace {
    /// The client of a cluster administrator.
    pub client: Client,
    /// The name of the namespace.
    pub name: String,
    watcher: NamespaceWatcher,
}

/// Runs `test` in a new namespace of the shared cluster. The namespace stays: its deletion takes a hundred requests, and no other test uses
/// its name. With autoscalers it is deleted, because Kubernetes reads their metrics all the time.
///
/// # Panics
/// If there is no shared cluster: `cargo xtask test` runs these tests.
pub async fn in_namespace(name: &str, test: impl AsyncFnOnce(&Namespace)) {
    let namespace = Namespace::create(&TestCluster::shared().client().await, name).await;
    test(&namespace).await;
    let autoscalers = namespace.api::<HorizontalPodAutoscaler>().list(&ListParams::default().limit(1)).await;
    if !autoscalers.expect("a list").items.is_empty() {
        namespace.delete().await;
    }
}

impl Namespace {
    /// Creates a namespace and waits for its default `ServiceAccount`, without which pods are rejected.
    ///
    /// # Panics
    /// If the API server rejects the namespace.
    pub async fn create(client: &Client, name: &str) -> Self {
        let object = KubeNamespace {
            metadata: kube::core::ObjectMeta { name: Some(name.into()), ..Default::default() },
            ..Default::default()
        };
        Api::<KubeNamespace>::all(client.clone()).create(&PostParams::default(), &object).await.expect("a namespace");
        let accounts = Api::<ServiceAccount>::namespaced(client.clone(), name);
        let exists = |account: Option<&ServiceAccount>| account.is_some();
        await_condition(accounts, "default", exists).await.expect("the namespace's default ServiceAccount");
        Self::attach(client, name)
    }

    /// Starts watching an existing namespace.
    pub fn attach(client: &Client, name: &str) -> Self {
        Self { client: client.clone(), name: name.to_owned(), watcher: NamespaceWatcher::start(client, name) }
    }

    /// Deletes the namespace and the objects in it.
    ///
    /// # Panics
    /// If the API server rejects the request.
    pub async fn delete(&self) {
        let namespaces = Api::<KubeNamespace>::all(self.client.clone());
        namespaces.delete(&self.name, &DeleteParams::default()).await.expect("the namespace is deleted");
    }

    /// The API of one kind in the namespace.
    pub fn api<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// Waits until `holds` is true, and returns the objects. `what` describes the state in the message of a failure.
    pub async fn wait_for(&self, what: &str, holds: impl Fn(&NamespaceState) -> bool) -> NamespaceState {
        self.watcher.wait_for(what, holds).await
    }

    /// Waits until `holds` is true, and returns the objects.
    ///
    /// # Errors
    /// The latest objects, if `holds` does not become true in time.
    pub async fn try_wait_for(
        &self,
        holds: impl Fn(&NamespaceState) -> bool,
    ) -> Result<NamespaceState, Box<NamespaceState>> {
        self.watcher.try_wait_for(holds).await
    }

    /// Waits until the set has exactly this many pods, and all of them are ready.
    pub async fn wait_for_ready_pods(&self, set: &str, count: usize) -> NamespaceState {
        let ready = |state: &NamespaceState| state.pods_of(set).filter(|pod| is_ready(pod)).count();
        let are_ready = |state: &NamespaceState| ready(state) == count && state.pods_of(set).count() == count;
        self.wait_for(&format!("{count} pods of {set} are ready"), are_ready).await
    }

    /// Waits for a condition as of [`NamespaceState::has_condition`].
    pub async fn wait_for_condition(&self, name: &str, type_: &str, reason: &str, text: &str) -> NamespaceState {
        let what = format!("{name} has {type_} with {reason}: {text}");
        self.wait_for(&what, |state| state.has_condition(name, type_, reason, text)).await
    }

    /// Waits until no object changes for this duration, and returns the objects.
    pub async fn wait_until_quiet(&self, quiet: Duration) -> NamespaceState {
        self.watcher.wait_until_quiet(quiet).await
    }

    /// Creates an object from YAML.
    ///
    /// # Panics
    /// If the text is no object of the kind, or the API server rejects the object.
    pub async fn create_yaml<K>(&self, yaml: &str) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned,
    {
        let value: Value = serde_saphyr::from_str(yaml).expect("YAML");
        let object: K = serde_json::from_value(value).expect("an object of the kind");
        self.api().create(&PostParams::default(), &object).await.expect("the object is created")
    }

    /// Waits until the API server can call the webhooks and admits this set in a dry run.
    ///
    /// # Panics
    /// If the API server cannot call the webhooks in time, or denies the set.
    pub async fn wait_until_admitted(&self, set: &str) {
        let set: PodCliqueSet = serde_saphyr::from_str(set).expect("a set");
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let api = self.api();
        poll_until_contains("the API server", ADMITTED, async || admission_of(api.create(&dry, &set).await)).await;
    }

    /// Sets the replicas of an object as [`Namespace::scale`], as soon as the API server can call the webhook of the scale. After a new
    /// certificate, it accepts that of one webhook before that of another one.
    ///
    /// # Panics
    /// If the API server cannot call the webhook in time, or denies the request.
    pub async fn scale_when_admitted<K>(&self, name: &str, replicas: i32)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let scale = async || admission_of(self.try_scale::<K>(name, replicas).await);
        poll_until_contains("the API server", ADMITTED, scale).await;
    }

    /// Sets the replicas of an object through its scale subresource, as `kubectl scale` does.
    ///
    /// # Panics
    /// If the API server rejects the request.
    pub async fn scale<K>(&self, name: &str, replicas: i32)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        self.try_scale::<K>(name, replicas).await.expect("the object is scaled");
    }

    async fn try_scale<K>(&self, name: &str, replicas: i32) -> kube::Result<Scale>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
        self.api::<K>().patch_scale(name, &PatchParams::default(), &patch).await
    }

    /// Applies a merge patch to an object, and returns the patched object.
    ///
    /// # Panics
    /// If the API server rejects the patch.
    pub async fn patch<K>(&self, name: &str, patch: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let patched = self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.expect("the object is patched")
    }

    /// Adds a finalizer to these pods. After their deletion, they are terminating until [`Namespace::remove_finalizers`].
    ///
    /// # Panics
    /// If the API server rejects a patch.
    pub async fn add_finalizers<'p>(&self, pods: impl IntoIterator<Item = &'p Pod>) {
        self.patch_finalizers(pods, &json!([FINALIZER])).await;
    }

    /// Removes the finalizers of these pods.
    ///
    /// # Panics
    /// If a pod does not exist, or the API server rejects a patch.
    pub async fn remove_finalizers<'p>(&self, pods: impl IntoIterator<Item = &'p Pod>) {
        self.patch_finalizers(pods, &Value::Null).await;
    }

    async fn patch_finalizers<'p>(&self, pods: impl IntoIterator<Item = &'p Pod>, finalizers: &Value) {
        for pod in pods {
            self.patch::<Pod>(&pod.name_any(), json!({ "metadata": { "finalizers": finalizers } })).await;
        }
    }

    /// Deletes an object in the background, as `kubectl delete` does.
    ///
    /// # Panics
    /// If the API server rejects the request.
    pub async fn delete_object<K>(&self, name: &str)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        self.api::<K>().delete(name, &DeleteParams::background()).await.expect("the object is deleted");
    }
}

/// [`ADMITTED`], or that the API server cannot call a webhook.
///
/// # Panics
/// For each other error.
fn admission_of<T>(result: kube::Result<T>) -> String {
    match result {
        Ok(_) => ADMITTED.to_owned(),
        Err(error) => {
            assert!(error.to_string().contains("failed calling webhook"), "{error}");
            error.to_string()
        }
    }
}
