//! A stand-in for NVIDIA's kubelet plugin, and for the kubelets that run daemons.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use futures::future::join_all;
use futures::{StreamExt, stream};
use grove_api_types::SYSTEM_NAMESPACE;
use grove_api_types::compute_domain::{ComputeDomain, DOMAIN_LABEL};
use grove_api_types::deletion::is_terminating;
use grove_dev_harness::live_objects::{ObjectChange, changes};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use super::daemon::{Daemon, is_runnable};
use super::{label_node, versions};
use crate::namespace::Namespace;
use crate::test_cluster::TestCluster;

/// The plugin on all nodes, for the domains of one namespace. It stops, and the daemons are killed, when the value is dropped.
///
/// A node gets the label of a domain when a pod with the claim of this domain is bound to it. The pod of the `DaemonSet` there gets a real daemon,
/// which ends with the pod.
pub struct KubeletPlugin {
    task: JoinHandle<()>,
    daemons: Daemons,
}

/// The daemons by the names of their pods.
type Daemons = Arc<Mutex<BTreeMap<String, Daemon>>>;

enum Watched {
    Workload(Box<Pod>),
    Daemons(Vec<ObjectChange<Pod>>),
}

impl Drop for KubeletPlugin {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl KubeletPlugin {
    /// Starts the plugin.
    pub fn start(cluster: &TestCluster, ns: &Namespace) -> Self {
        let daemons = Daemons::default();
        let kubelets = Kubelets {
            dir: cluster.dir().to_owned(),
            client: ns.client.clone(),
            namespace: ns.name.clone(),
            daemons: Arc::clone(&daemons),
        };
        let workload = versions(&ns.client, &ns.name).map(|pod| Watched::Workload(Box::new(pod)));
        let of_daemons = changes::<Pod>(&ns.client, SYSTEM_NAMESPACE).map(Watched::Daemons);
        let task = tokio::spawn(async move {
            let mut events = Box::pin(stream::select(workload, of_daemons));
            while let Some(event) = events.next().await {
                match event {
                    // The pod's next watch event repeats what failed.
                    Watched::Workload(pod) => drop(label_node(&kubelets.client, &kubelets.namespace, &pod).await),
                    Watched::Daemons(changes) => Box::pin(kubelets.apply(changes)).await,
                }
            }
        });
        Self { task, daemons }
    }

    /// Kills every second daemon; its kubelet starts it again.
    pub async fn crash_half(&self) {
        join_all(self.daemons.lock().await.values_mut().step_by(2).map(Daemon::crash)).await;
    }
}

struct Kubelets {
    dir: PathBuf,
    client: Client,
    namespace: String,
    daemons: Daemons,
}

impl Kubelets {
    async fn apply(&self, changes: Vec<ObjectChange<Pod>>) {
        for ObjectChange { name, object } in changes {
            match object {
                Some(pod) if is_runnable(&pod) => self.run(name, pod).await,
                Some(pod) if !is_terminating(&pod) => {}
                _ => self.end(&name).await,
            }
        }
    }

    /// Runs the daemon of the pod, unless it runs or belongs to a domain of another namespace.
    async fn run(&self, name: String, pod: Pod) {
        if self.daemons.lock().await.contains_key(&name) {
            return;
        }
        let domains = Api::<ComputeDomain>::namespaced(self.client.clone(), &self.namespace);
        let listed = domains.list(&ListParams::default()).await.expect("the domains").items;
        let Some(domain) = listed.into_iter().find(|domain| domain.uid().as_ref() == pod.labels().get(DOMAIN_LABEL))
        else {
            return;
        };
        let daemon = Daemon::run(&self.dir, &self.client, &domain, pod).await;
        self.daemons.lock().await.insert(name, daemon);
    }

    /// The daemon ends while the plugin continues: it tries to remove its entry, for which its token may be too old.
    async fn end(&self, name: &str) {
        if let Some(mut daemon) = self.daemons.lock().await.remove(name) {
            tokio::spawn(async move { daemon.terminate().await });
        }
    }
}
