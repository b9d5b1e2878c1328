//! `demo`: the life of a set of cliques on a real control plane, told step by step.

mod screen;
mod tree;
mod world;

use crate::args::{Source, Wish};
use crate::plane::{Afterwards, Plane, with_plane};
use crate::{services, workspace};
use anyhow::{Context, Result, bail};
use kube::api::DynamicObject;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt};
use screen::Screen;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout};
use world::{World, number};

const NAMESPACE: &str = "grove-demo";
/// The sets of the examples, without groups and with one.
const SET: &str = "demo";
const GROUPED: &str = "multinode";
const STEP_WITHIN: Duration = Duration::from_secs(90);

/// Changes that come this close together are shown as one.
const FRAME: Duration = Duration::from_millis(150);

pub(crate) async fn run(source: &Source, wish: &Wish, once: bool) -> Result<()> {
    if wish.no_services {
        bail!("the demo shows what the services do; leave --no-services out");
    }
    let afterwards = if once { Afterwards::Ends } else { Afterwards::Stays };
    with_plane(source, wish, afterwards, async |plane: &mut Plane| {
        let mut demo = Demo::begin(plane).await?;
        let outcome = plane.while_alive(demo.play()).await;
        let outcome = match outcome {
            Ok(()) if !once => plane.while_alive(demo.leave_to_play_with()).await,
            other => other,
        };
        if once || outcome.is_err() {
            // On a cluster that outlives the demo nothing may remain of it.
            _ = demo.plane_kubectl(&["delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=false"]).await;
        }
        outcome
    })
    .await
}

struct Demo<'a> {
    plane: &'a Plane,
    world: World,
    screen: Screen,
    step: usize,
    /// When the step began.
    began: Instant,
    /// The uids of what was there when the step began.
    before: BTreeSet<String>,
}

impl<'a> Demo<'a> {
    async fn begin(plane: &'a Plane) -> Result<Self> {
        let namespace = format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {NAMESPACE}\n");
        plane.kubectl.apply(&namespace).await?;
        plane
            .kubectl
            .run(&["wait", "--for=create", "serviceaccount/default", "-n", NAMESPACE, "--timeout=30s"])
            .await?;
        // Something may be left of an earlier demo that was stopped.
        plane.kubectl.run(&["delete", "pcs", "--all", "-n", NAMESPACE]).await?;
        let kubeconfig = Kubeconfig::read_from(&plane.kubectl.kubeconfig)?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let world = World::watch(&Client::try_from(config)?, NAMESPACE);
        Ok(Self { plane, world, screen: Screen::default(), step: 0, began: Instant::now(), before: BTreeSet::new() })
    }

    async fn play(&mut self) -> Result<()> {
        self.apply().await?;
        self.scale_the_set().await?;
        self.scale_a_clique().await?;
        self.lose_a_pod().await?;
        self.lose_a_clique().await?;
        self.delete(SET, "Delete the set: everything that was made for it goes with it.").await?;
        self.span_nodes().await?;
        self.scale_a_group().await?;
        self.delete(GROUPED, "Delete that set, too.").await
    }

    async fn apply(&mut self) -> Result<()> {
        self.say(
            "One manifest: a set of 2 replicas, each a frontend, a prefill and a decode clique that belong together.",
        );
        self.apply_example("disaggregated").await?;
        self.until("all pods are Ready", |world| world.is_ready(SET)).await?;
        self.kubectl(&["wait", "--for=condition=Available", &format!("pcs/{SET}"), "--timeout=30s"]).await
    }

    async fn scale_the_set(&mut self) -> Result<()> {
        self.say("Scale out by a whole server: the third replica comes with its own gang, cliques and pods.");
        self.kubectl(&["scale", &format!("pcs/{SET}"), "--replicas=3"]).await?;
        self.until("the third replica is Ready", |world| {
            world.is_ready(SET) && world.sets.named(SET).is_some_and(|set| number(&set.data["spec"]["replicas"]) == 3)
        })
        .await
    }

    async fn scale_a_clique(&mut self) -> Result<()> {
        self.say("Scale one role of one server, as an autoscaler would: decode of replica 0 gets a third pod.");
        let clique = format!("{SET}-0-decode");
        self.kubectl(&["scale", &format!("pclq/{clique}"), "--replicas=3"]).await?;
        self.until("the third decode pod is Ready", |world| {
            let scaled = world.cliques.named(&clique).is_some_and(|clique| world.pods.of(&clique).len() == 3);
            scaled && world.is_ready(SET)
        })
        .await
    }

    async fn lose_a_pod(&mut self) -> Result<()> {
        self.say("Lose a pod: another takes its place and its index.");
        let clique = self.world.cliques.named(&format!("{SET}-1-prefill")).context("there is no prefill clique")?;
        let pod = self.world.pods.of(&clique).first().cloned().context("the prefill clique has no pod")?;
        self.kubectl(&["delete", "pod", &pod.name_any(), "--wait=false"]).await?;
        self.until("another pod is Ready in its place", |world| {
            !world.pods.all().iter().any(|other| is_same(other, &pod)) && world.is_ready(SET)
        })
        .await
    }

    async fn lose_a_clique(&mut self) -> Result<()> {
        self.say("Lose a whole clique: it comes back with all its pods.");
        let name = format!("{SET}-1-decode");
        let lost = self.world.cliques.named(&name).context("there is no decode clique")?;
        self.kubectl(&["delete", "pclq", &name, "--wait=false"]).await?;
        self.until("the clique is back and Ready", |world| {
            !world.cliques.all().iter().any(|other| is_same(other, &lost)) && world.is_ready(SET)
        })
        .await
    }

    async fn span_nodes(&mut self) -> Result<()> {
        self.say(
            "A model that needs several nodes: a leader and its workers are one instance, beside them a router. Each \
             instance beyond the first is a gang of its own.",
        );
        self.apply_example("multinode").await?;
        self.until("all pods are Ready", |world| world.is_ready(GROUPED)).await
    }

    async fn scale_a_group(&mut self) -> Result<()> {
        self.say("Scale that model by an instance: leader and workers come together.");
        let group = format!("{GROUPED}-0-model");
        self.kubectl(&["scale", &format!("pcsg/{group}"), "--replicas=3"]).await?;
        self.until("the third instance is Ready", |world| {
            let scaled = |group: &DynamicObject| number(&group.data["spec"]["replicas"]) == 3;
            world.groups.named(&group).is_some_and(|group| scaled(&group)) && world.is_ready(GROUPED)
        })
        .await
    }

    async fn delete(&mut self, set: &str, what: &str) -> Result<()> {
        self.say(what);
        self.kubectl(&["delete", "pcs", set, "--wait=false"]).await?;
        self.until("nothing is left", World::is_empty).await
    }

    async fn leave_to_play_with(&mut self) -> Result<()> {
        self.say("Once more, for you to play with.");
        self.apply_example("disaggregated").await?;
        self.until("all pods are Ready", |world| world.is_ready(SET)).await?;
        let dir = &self.plane.dir;
        println!("\nThe cluster stays. Go on with:\n");
        println!("  export KUBECONFIG={}", self.plane.kubectl.kubeconfig.display());
        println!("  alias kubectl={}   # if you have none", dir.join("kubectl").display());
        println!("  kubectl get pcs,pclq,podgang,pod -n {NAMESPACE}");
        println!("  kubectl scale pcs/{SET} --replicas=5 -n {NAMESPACE}");
        println!("  kubectl explain podcliqueset.spec");
        println!("\nLogs lie in {}. End it with: cargo xtask down --dir {}", dir.join("log").display(), dir.display());
        Ok(())
    }

    async fn apply_example(&self, name: &str) -> Result<()> {
        let manifest = workspace::root().join("deploy/examples").join(name).with_extension("yaml");
        self.kubectl(&["apply", "-f", &manifest.display().to_string()]).await
    }

    fn say(&mut self, what: &str) {
        self.step += 1;
        self.began = Instant::now();
        self.before = self.world.uids();
        println!("\n== {}. {what}", self.step);
    }

    /// Runs kubectl in the demo's namespace and shows the command.
    async fn kubectl(&self, arguments: &[&str]) -> Result<()> {
        println!("$ kubectl {} -n {NAMESPACE}\n", arguments.join(" "));
        let all: Vec<&str> = arguments.iter().copied().chain(["-n", NAMESPACE]).collect();
        self.plane_kubectl(&all).await
    }

    async fn plane_kubectl(&self, arguments: &[&str]) -> Result<()> {
        self.plane.kubectl.run(arguments).await.map(drop)
    }

    /// Follows the world, showing each change, until `arrived` holds.
    async fn until(&mut self, what: &str, arrived: impl Fn(&World) -> bool) -> Result<()> {
        if let Ok(followed) = timeout(STEP_WITHIN, self.follow(arrived)).await {
            followed?;
            println!("-> {what}, after {:.1} s", self.began.elapsed().as_secs_f64());
            return Ok(());
        }
        let mut logs = String::new();
        for service in services::SERVICES {
            logs += "  ";
            logs += service;
            logs += ":\n";
            logs += &self.plane.processes.last_lines(service, 20);
        }
        bail!(
            "not so after {STEP_WITHIN:?}: {what}\n{}\nlast lines of the services:\n{logs}",
            tree::draw(&self.world, &self.before)
        )
    }

    async fn follow(&mut self, arrived: impl Fn(&World) -> bool) -> Result<()> {
        while !arrived(&self.world) {
            self.screen.show(&tree::draw(&self.world, &self.before));
            let frame = Instant::now() + FRAME;
            self.world.changed().await?;
            while !arrived(&self.world) {
                tokio::select! {
                    changed = self.world.changed() => changed?,
                    () = sleep_until(frame) => break,
                }
            }
        }
        self.screen.show(&tree::draw(&self.world, &self.before));
        self.screen.settle();
        Ok(())
    }
}

fn is_same(one: &DynamicObject, other: &DynamicObject) -> bool {
    one.metadata.uid == other.metadata.uid
}
