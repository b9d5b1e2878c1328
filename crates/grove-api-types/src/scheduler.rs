//! The schedulers that pods can use: a closed enum. Each scheduler has one file, whose [`Backend`] has everything that Grove knows about it,
//! and one row in the table of this file. Only the file of a scheduler names its labels, its annotations and its kinds.

use std::collections::BTreeMap;

use crate::v1alpha1::PodCliqueSet;

pub mod kai;
mod kube;
mod lpx;
pub mod volcano;

/// Defines the schedulers: each row has a scheduler and its file. So no list of all schedulers lacks one.
macro_rules! schedulers {
    ($($(#[$attribute:meta])+ $scheduler:ident in $file:ident,)+) => {
        /// A scheduler that pods can use.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Scheduler {
            $($(#[$attribute])+ $scheduler,)+
        }

        impl Scheduler {
            /// All schedulers, by name.
            pub const ALL: [(&str, Self); [$(Self::$scheduler),+].len()] =
                [$((Self::$scheduler.name(), Self::$scheduler)),+];

            const fn backend(self) -> &'static Backend {
                match self { $(Self::$scheduler => &$file::BACKEND),+ }
            }
        }
    };
}

schedulers! {
    /// The default scheduler of Kubernetes.
    #[default]
    Kube in kube,
    /// KAI.
    Kai in kai,
    /// Volcano.
    Volcano in volcano,
    /// LPX.
    Lpx in lpx,
}

/// What Grove knows about a scheduler.
#[derive(Debug)]
pub(crate) struct Backend {
    /// The name, as in `schedulerName` of pods.
    pub(crate) name: &'static str,
    /// How the scheduler schedules the pods of a gang together.
    pub(crate) gangs: GangSupport,
    /// The metadata of a pod that the scheduler reads.
    pub(crate) pod_metadata: fn(PodIdentity<'_>) -> PodMetadata,
    /// Annotations of a `PodGang`.
    pub(crate) gang_annotations: &'static [(&'static str, &'static str)],
    /// Its queues.
    pub(crate) queues: Queues,
    /// Whether it places pods by topology.
    pub(crate) topology: TopologySupport,
}

/// The labels and annotations that name the queue of a set or of a clique.
pub fn queue_keys() -> impl Iterator<Item = &'static str> {
    Scheduler::ALL.into_iter().filter_map(|(_, scheduler)| scheduler.queues().key())
}

/// The queues of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queues {
    /// It has no queues, or Grove does not know them.
    None,
    /// Each set names a queue, in a label or an annotation with this key.
    Required {
        /// The key. The label has precedence.
        key: &'static str,
        /// The scheduler in messages.
        display_name: &'static str,
    },
    /// A set names a queue in this annotation, or gets the default queue.
    Defaulted {
        /// The annotation.
        annotation: &'static str,
        /// The default queue.
        default: &'static str,
        /// The scheduler in messages.
        display_name: &'static str,
    },
}

impl Queues {
    /// The key of the label or annotation; `None` without queues.
    pub const fn key(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Required { key, .. } | Self::Defaulted { annotation: key, .. } => Some(key),
        }
    }

    /// The queue that an object with these labels and annotations names.
    pub fn named<'a>(
        self,
        labels: &'a BTreeMap<String, String>,
        annotations: &'a BTreeMap<String, String>,
    ) -> Option<&'a str> {
        let is_named = |queue: &&String| !queue.is_empty();
        let queue = match self {
            Self::None => None,
            Self::Required { key, .. } => {
                labels.get(key).filter(is_named).or_else(|| annotations.get(key).filter(is_named))
            }
            Self::Defaulted { annotation, .. } => annotations.get(annotation),
        };
        queue.map(String::as_str)
    }
}

/// Whether a scheduler places pods by topology.
#[derive(Clone, Copy, Debug)]
pub enum TopologySupport {
    /// It does, with the help of its own kind of topologies.
    Supported,
    /// It does if its gangs have `PodGroup`s of the workload API. Otherwise topology constraints have no effect.
    WithPodGroups,
    /// It does not, and sets must not have topology constraints. The function returns the message about an object.
    Denied(fn(&str) -> String),
}

/// How a scheduler schedules the pods of a gang together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GangSupport {
    /// It reads `PodGroup`s of its own API. They and their CRD are installed with the scheduler.
    OwnPodGroups,
    /// It reads the workload API of Kubernetes, if the API server serves it.
    WorkloadApi,
    /// It schedules each pod on its own.
    None,
}

/// The gang and the clique of a pod.
#[derive(Clone, Copy, Debug)]
pub struct PodIdentity<'a> {
    /// The name of the `PodGang`.
    pub gang: &'a str,
    /// The name of the `PodClique`.
    pub clique: &'a str,
}

/// Metadata of a pod that a scheduler reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodMetadata {
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
}

impl Scheduler {
    /// The scheduler with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, scheduler)| scheduler)
    }

    /// The scheduler of the set's pods: the first one that a clique names; `None` if no clique names one, or Grove does not know it.
    pub fn of_set(set: &PodCliqueSet) -> Option<Self> {
        let cliques = set.spec.template.cliques.iter();
        let mut names = cliques.filter_map(|clique| clique.spec.pod_spec.string("schedulerName"));
        names.find(|name| !name.is_empty()).and_then(|name| Self::named(&name))
    }

    /// The name, as in `schedulerName` of pods.
    pub const fn name(self) -> &'static str {
        self.backend().name
    }

    /// How the scheduler schedules the pods of a gang together.
    pub const fn gang_support(self) -> GangSupport {
        self.backend().gangs
    }

    /// The labels and annotations of a pod that the scheduler reads.
    pub fn pod_metadata(self, pod: PodIdentity<'_>) -> PodMetadata {
        (self.backend().pod_metadata)(pod)
    }

    /// Its queues.
    pub const fn queues(self) -> Queues {
        self.backend().queues
    }

    /// The key and the name of the queue, if only the cliques of the set name it, and all of these the same one.
    pub fn queue_of_cliques(self, set: &PodCliqueSet) -> Option<(&'static str, &str)> {
        let queues = self.queues();
        let no_entries = BTreeMap::new();
        let labels = set.metadata.labels.as_ref().unwrap_or(&no_entries);
        let annotations = set.metadata.annotations.as_ref().unwrap_or(&no_entries);
        if queues.named(labels, annotations).is_some() {
            return None;
        }
        let cliques = set.spec.template.cliques.iter();
        let mut named = cliques.filter_map(|clique| queues.named(&clique.labels, &clique.annotations));
        let first = named.next()?;
        named.all(|queue| queue == first).then_some((queues.key()?, first))
    }

    /// Whether it places pods by topology.
    pub const fn topology_support(self) -> TopologySupport {
        self.backend().topology
    }

    /// The annotations of a `PodGang` for the scheduler.
    pub const fn gang_annotations(self) -> &'static [(&'static str, &'static str)] {
        self.backend().gang_annotations
    }
}

/// Labels or annotations.
fn map<const N: usize>(entries: [(&str, &str); N]) -> BTreeMap<String, String> {
    entries.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_pod_has_the_metadata_that_its_scheduler_reads() {
        let pod = PodIdentity { gang: "llm-0", clique: "llm-0-worker" };
        let lines = |map: BTreeMap<String, String>| map.into_iter().map(|(k, v)| [k, v].join("=")).collect::<Vec<_>>();
        for (name, scheduler) in Scheduler::ALL {
            let expected: [&[&str]; 2] = match scheduler {
                Scheduler::Kube | Scheduler::Lpx => [&[], &[]],
                Scheduler::Kai => [
                    &["kai.scheduler/subgroup-name=llm-0-worker"],
                    &["kai.scheduler/skip-podgrouper=true", "pod-group-name=llm-0"],
                ],
                Scheduler::Volcano => {
                    [&[], &["scheduling.k8s.io/group-name=llm-0", "scheduling.volcano.sh/group-name=llm-0"]]
                }
            };
            let PodMetadata { labels, annotations } = scheduler.pod_metadata(pod);
            assert_eq!([lines(labels), lines(annotations)], expected, "{name}");
        }
    }

    #[test]
    fn the_queue_of_a_set_without_queue_is_the_one_queue_of_its_cliques() {
        let set = |metadata: Value, cliques: &[Value]| -> PodCliqueSet {
            let clique = |own: &Value| {
                let mut clique = json!({ "name": "c", "spec": { "podSpec": { "containers": [] } } });
                json_patch::merge(&mut clique, own);
                clique
            };
            let template = json!({ "cliques": cliques.iter().map(clique).collect::<Vec<_>>() });
            serde_json::from_value(json!({ "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet",
                "metadata": metadata, "spec": { "replicas": 1, "template": template } }))
            .unwrap()
        };
        let label = json!({ "labels": { kai::QUEUE: "q" } });
        let annotation = json!({ "labels": { kai::QUEUE: "" }, "annotations": { kai::QUEUE: "q" } });
        let other = json!({ "labels": { kai::QUEUE: "r" } });
        let (named, unnamed) = (Some((kai::QUEUE, "q")), json!({}));
        let of_kai =
            |set: &PodCliqueSet| Scheduler::Kai.queue_of_cliques(set).map(|(key, queue)| (key, queue.to_owned()));
        let expected = |queue: Option<(&'static str, &str)>| queue.map(|(key, queue)| (key, queue.to_owned()));
        for (cliques, queue) in [
            (vec![unnamed.clone(), label.clone()], named),
            (vec![annotation.clone(), label.clone()], named),
            (vec![label.clone(), other], None),
            (vec![unnamed.clone()], None),
        ] {
            assert_eq!(of_kai(&set(json!({ "name": "s" }), &cliques)), expected(queue), "{cliques:?}");
        }
        let own = json!({ "name": "s", "labels": { kai::QUEUE: "r" } });
        assert_eq!(of_kai(&set(own, &[label])), None, "the set names a queue");
        let of_volcano = json!({ "annotations": { volcano::QUEUE: "q" } });
        let set = set(json!({ "name": "s" }), &[unnamed, of_volcano]);
        assert_eq!(Scheduler::Volcano.queue_of_cliques(&set), Some((volcano::QUEUE, "q")));
        assert_eq!(Scheduler::Kube.queue_of_cliques(&set), None);
    }

    #[test]
    fn a_name_leads_to_its_scheduler() {
        for (name, scheduler) in Scheduler::ALL {
            assert_eq!((Scheduler::named(name), scheduler.name()), (Some(scheduler), name));
        }
        assert_eq!(Scheduler::named("kueue"), None);
    }
}
