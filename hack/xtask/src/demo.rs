//! `demo`: a set is deployed, scaled, repaired and deleted on a real control plane, with every change on the screen.

mod gang;
mod readiness;
mod screen;
mod tree;

use crate::args::{Source, UpArgs};
use crate::dev_cluster::{DevCluster, OnExit, with_dev_cluster};
use crate::workload_api::WorkloadApi;
use crate::{suite, workspace};
use anyhow::{Context, Result, bail};
use futures::StreamExt;
use futures::stream::{BoxStream, SelectAll};
use grove_dev_harness::kubeconfig::client_config;
use grove_dev_harness::live_objects::{LiveObjects, Update, owned_by};
use kube::{Client, Resource, ResourceExt};
use readiness::is_ready;
use screen::Screen;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout};

const NAMESPACE: &str = "grove-demo";
/// The sets of the examples: without scaling groups, and with one.
const SET: &str = "demo";
const GROUPED: &str = "multinode";
/// The example of the first one.
const EXAMPLE: &str = "disaggregated";
const STEP_TIMEOUT: Duration = Duration::from_secs(90);

/// Changes within this time are shown together.
const FRAME: Duration = Duration::from_millis(150);

pub(crate) async fn run(source: &Source, args: &UpArgs, once: bool) -> Result<()> {
    if args.no_services {
        bail!("the demo needs the services; omit --no-services");
    }
    let shows_gang = args.native_gangs == WorkloadApi::On;
    let args = &if shows_gang { args_of_gang(source, args)? } else { args.clone() };
    let on_exit = if once { OnExit::Stop } else { OnExit::KeepRunning };
    with_dev_cluster(source, args, on_exit, async |cluster: &mut DevCluster| {
        let mut demo = Demo::start(cluster).await?;
        let play = async { if shows_gang { demo.play_gang().await } else { demo.play().await } };
        let outcome = cluster.while_alive(play).await;
        let (example, set) = if shows_gang { (gang::SET, gang::SET) } else { (EXAMPLE, SET) };
        let outcome = match outcome {
            Ok(()) if !once => cluster.while_alive(demo.deploy_for_the_user(example, set)).await,
            other => other,
        };
        if once || outcome.is_err() {
            // The cluster may outlive the demo, so the demo removes its objects.
            let delete = ["delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=false"];
            _ = cluster.kubectl.run(&delete).await;
        }
        outcome
    })
    .await
}

/// The cluster of the gang that does not fit at first.
fn args_of_gang(source: &Source, args: &UpArgs) -> Result<UpArgs> {
    if source.kubeconfig.is_some() || args.nodes.is_some() {
        bail!("this demo adds a simulated node; omit --kubeconfig and --nodes");
    }
    Ok(UpArgs { nodes: Some(gang::NODES_AT_FIRST), ..args.clone() })
}

struct Demo<'a> {
    cluster: &'a DevCluster,
    objects: LiveObjects,
    updates: SelectAll<BoxStream<'static, Update>>,
    screen: Screen,
    step: usize,
    step_started: Instant,
    /// The uids of the objects that existed when the step started.
    known: BTreeSet<String>,
}

impl<'a> Demo<'a> {
    async fn start(cluster: &'a DevCluster) -> Result<Self> {
        let namespace = format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {NAMESPACE}\n");
        cluster.kubectl.apply(&namespace).await?;
        let wait = ["wait", "--for=create", "serviceaccount/default", "-n", NAMESPACE, "--timeout=30s"];
        cluster.kubectl.run(&wait).await?;
        // An interrupted demo leaves its sets.
        cluster.kubectl.run(&["delete", "pcs", "--all", "-n", NAMESPACE]).await?;
        let config = client_config(&cluster.kubectl.kubeconfig).await?;
        Ok(Self {
            cluster,
            objects: LiveObjects::default(),
            updates: LiveObjects::updates(&Client::try_from(config)?, NAMESPACE),
            screen: Screen::default(),
            step: 0,
            step_started: Instant::now(),
            known: BTreeSet::new(),
        })
    }

    async fn play(&mut self) -> Result<()> {
        self.deploy().await?;
        self.scale_the_set().await?;
        self.scale_a_clique().await?;
        self.delete_a_pod().await?;
        self.delete_a_clique().await?;
        self.delete_set(SET, "Delete the set: all objects that Grove created for it are deleted, too.").await?;
        self.deploy_scaling_group().await?;
        self.scale_a_group().await?;
        self.delete_set(GROUPED, "Delete this set, too.").await
    }

    async fn deploy(&mut self) -> Result<()> {
        self.begin_step(
            "Apply one manifest: a set of 2 replicas. Each replica is a gang of a frontend, a prefill and a decode clique.",
        );
        self.apply_example(EXAMPLE).await?;
        self.wait_for("all pods are Ready", |objects| is_ready(objects, SET)).await?;
        self.kubectl(&["wait", "--for=condition=Available", &format!("pcs/{SET}"), "--timeout=30s"]).await
    }

    async fn scale_the_set(&mut self) -> Result<()> {
        self.begin_step("Scale the set: Grove creates a third replica with its own gang, cliques and pods.");
        self.kubectl(&["scale", &format!("pcs/{SET}"), "--replicas=3"]).await?;
        self.wait_for("the third replica is Ready", |objects| {
            is_ready(objects, SET) && objects.sets.get(SET).is_some_and(|set| set.spec.replicas == 3)
        })
        .await
    }

    async fn scale_a_clique(&mut self) -> Result<()> {
        self.begin_step(
            "Scale one clique of one replica, as an autoscaler does: decode of replica 0 gets a third pod.",
        );
        let clique = format!("{SET}-0-decode");
        self.kubectl(&["scale", &format!("pclq/{clique}"), "--replicas=3"]).await?;
        self.wait_for("the third decode pod is Ready", |objects| {
            let scaled = objects.cliques.get(&clique).is_some_and(|clique| owned_by(&objects.pods, clique).len() == 3);
            scaled && is_ready(objects, SET)
        })
        .await
    }

    async fn delete_a_pod(&mut self) -> Result<()> {
        self.begin_step("Delete a pod: Grove creates another pod with the same index.");
        let clique =
            self.objects.cliques.get(&format!("{SET}-1-prefill")).context("the prefill clique does not exist")?;
        let pod = *owned_by(&self.objects.pods, clique).first().context("the prefill clique has no pod")?;
        let (name, uid) = (pod.name_any(), pod.uid());
        self.kubectl(&["delete", "pod", &name, "--wait=false"]).await?;
        self.wait_for("another pod is Ready in its place", |objects| {
            !has_uid(objects.pods.values(), uid.as_ref()) && is_ready(objects, SET)
        })
        .await
    }

    async fn delete_a_clique(&mut self) -> Result<()> {
        self.begin_step("Delete a clique: Grove creates it again with all its pods.");
        let name = format!("{SET}-1-decode");
        let uid = self.objects.cliques.get(&name).context("the decode clique does not exist")?.uid();
        self.kubectl(&["delete", "pclq", &name, "--wait=false"]).await?;
        self.wait_for("the new clique is Ready", |objects| {
            !has_uid(objects.cliques.values(), uid.as_ref()) && is_ready(objects, SET)
        })
        .await
    }

    async fn deploy_scaling_group(&mut self) -> Result<()> {
        self.begin_step(
            "Deploy a model that needs several nodes: an instance is a leader with its workers, and a router serves all \
             instances. Each instance beyond the first is a gang of its own.",
        );
        self.apply_example("multinode").await?;
        self.wait_for("all pods are Ready", |objects| is_ready(objects, GROUPED)).await
    }

    async fn scale_a_group(&mut self) -> Result<()> {
        self.begin_step("Scale the scaling group: Grove creates another leader together with its workers.");
        let group = format!("{GROUPED}-0-model");
        self.kubectl(&["scale", &format!("pcsg/{group}"), "--replicas=3"]).await?;
        self.wait_for("the third instance is Ready", |objects| {
            objects.groups.get(&group).is_some_and(|group| group.spec.replicas == 3) && is_ready(objects, GROUPED)
        })
        .await
    }

    async fn delete_set(&mut self, set: &str, title: &str) -> Result<()> {
        self.begin_step(title);
        self.kubectl(&["delete", "pcs", set, "--wait=false"]).await?;
        self.wait_for("all objects are deleted", LiveObjects::is_empty).await
    }

    async fn deploy_for_the_user(&mut self, example: &str, set: &str) -> Result<()> {
        self.begin_step("Deploy the first set again. You can try your own commands on it.");
        self.apply_example(example).await?;
        self.wait_for("all pods are Ready", |objects| is_ready(objects, set)).await?;
        let (dir, kubeconfig) = (self.cluster.dir.display(), self.cluster.kubectl.kubeconfig.display());
        println!("\nThe cluster keeps running. Commands to try:\n");
        println!("  export KUBECONFIG={kubeconfig}");
        println!("  alias kubectl={dir}/kubectl   # if you have no kubectl");
        println!("  kubectl get pcs,pclq,podgang,pod -n {NAMESPACE}");
        println!("  kubectl scale pcs/{set} --replicas=5 -n {NAMESPACE}");
        println!("  kubectl explain podcliqueset.spec");
        println!("\nThe logs are in {dir}/log. End the cluster with: cargo xtask down --dir {dir}");
        Ok(())
    }

    async fn apply_example(&self, name: &str) -> Result<()> {
        let manifest = workspace::root().join("deploy/examples").join(name).with_extension("yaml");
        self.kubectl(&["apply", "-f", &manifest.display().to_string()]).await
    }

    fn begin_step(&mut self, title: &str) {
        self.step += 1;
        self.step_started = Instant::now();
        self.known = uids(&self.objects);
        println!("\n== {}. {title}", self.step);
    }

    /// Prints a kubectl command and runs it in the namespace of the demo.
    async fn kubectl(&self, arguments: &[&str]) -> Result<()> {
        println!("$ kubectl {} -n {NAMESPACE}\n", arguments.join(" "));
        let arguments: Vec<&str> = arguments.iter().copied().chain(["-n", NAMESPACE]).collect();
        self.cluster.kubectl.run(&arguments).await?;
        Ok(())
    }

    /// Shows each change until `reached` is true.
    async fn wait_for(&mut self, what: &str, reached: impl Fn(&LiveObjects) -> bool) -> Result<()> {
        if let Ok(followed) = timeout(STEP_TIMEOUT, self.follow(reached)).await {
            followed?;
            println!("-> {what}, after {:.1} s", self.step_started.elapsed().as_secs_f64());
            return Ok(());
        }
        let log = |service: &str| format!("  {service}:\n{}", self.cluster.processes.log_tail(service, 20));
        bail!(
            "not reached after {STEP_TIMEOUT:?}: {what}\n{}\nlast log lines of the services:\n{}",
            tree::draw(&self.objects, &self.known),
            suite::SERVICES.map(log).concat()
        )
    }

    async fn follow(&mut self, reached: impl Fn(&LiveObjects) -> bool) -> Result<()> {
        while !reached(&self.objects) {
            self.screen.show(&tree::draw(&self.objects, &self.known));
            let frame = Instant::now() + FRAME;
            self.apply_update().await?;
            while !reached(&self.objects) {
                tokio::select! {
                    applied = self.apply_update() => applied?,
                    () = sleep_until(frame) => break,
                }
            }
        }
        self.screen.show(&tree::draw(&self.objects, &self.known));
        self.screen.finish();
        Ok(())
    }

    /// Waits for the next watch event and applies it.
    async fn apply_update(&mut self) -> Result<()> {
        self.objects.apply(self.updates.next().await.context("the watches ended")?);
        Ok(())
    }
}

fn uids(objects: &LiveObjects) -> BTreeSet<String> {
    let LiveObjects { sets, groups, cliques, gangs, services, autoscalers, claims, pods } = objects;
    let mut uids = BTreeSet::new();
    uids.extend(sets.values().filter_map(ResourceExt::uid));
    uids.extend(groups.values().filter_map(ResourceExt::uid));
    uids.extend(cliques.values().filter_map(ResourceExt::uid));
    uids.extend(gangs.values().filter_map(ResourceExt::uid));
    uids.extend(services.values().filter_map(ResourceExt::uid));
    uids.extend(autoscalers.values().filter_map(ResourceExt::uid));
    uids.extend(claims.values().filter_map(ResourceExt::uid));
    uids.extend(pods.values().filter_map(ResourceExt::uid));
    uids
}

fn has_uid<'a, K: Resource + 'a>(mut objects: impl Iterator<Item = &'a K>, uid: Option<&String>) -> bool {
    objects.any(|object| object.meta().uid.as_ref() == uid)
}
