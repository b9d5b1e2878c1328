//! What the demo sees of its namespace: a live copy of every object of the kinds that make up a set.

use anyhow::{Context, Result};
use futures::stream::{BoxStream, SelectAll, StreamExt};
use grove_api_types::deletion::is_terminating;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Client, ResourceExt};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Objects as anybody sees them through the API: the demo knows no more of the suite than a user does.
pub(crate) struct World {
    pub(crate) sets: Kind,
    pub(crate) groups: Kind,
    pub(crate) cliques: Kind,
    pub(crate) gangs: Kind,
    pub(crate) services: Kind,
    pub(crate) pods: Kind,
    changes: SelectAll<BoxStream<'static, ()>>,
}

/// One kind's objects.
pub(crate) struct Kind(reflector::Store<DynamicObject>);

impl Kind {
    /// Sorted by name.
    pub(crate) fn all(&self) -> Vec<Arc<DynamicObject>> {
        let mut all = self.0.state();
        all.sort_by_key(|object| object.name_any());
        all
    }

    pub(crate) fn of(&self, owner: &DynamicObject) -> Vec<Arc<DynamicObject>> {
        let mut all = self.all();
        all.retain(|object| {
            object.owner_references().iter().any(|reference| Some(&reference.uid) == owner.metadata.uid.as_ref())
        });
        all
    }

    pub(crate) fn named(&self, name: &str) -> Option<Arc<DynamicObject>> {
        self.all().into_iter().find(|object| object.name_any() == name)
    }
}

impl World {
    pub(crate) fn watch(client: &Client, namespace: &str) -> Self {
        let mut changes = SelectAll::new();
        let mut kind = |group: &str, version: &str, kind: &str, plural: &str| {
            let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
            let resource = ApiResource {
                group: group.to_owned(),
                version: version.to_owned(),
                api_version,
                kind: kind.to_owned(),
                plural: plural.to_owned(),
            };
            let writer = reflector::store::Writer::new(resource.clone());
            let store = writer.as_reader();
            let api = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &resource);
            let stream = watcher(api, watcher::Config::default()).default_backoff().reflect(writer);
            changes.push(stream.map(|_| ()).boxed());
            Kind(store)
        };
        Self {
            sets: kind("grove.io", "v1alpha1", "PodCliqueSet", "podcliquesets"),
            groups: kind("grove.io", "v1alpha1", "PodCliqueScalingGroup", "podcliquescalinggroups"),
            cliques: kind("grove.io", "v1alpha1", "PodClique", "podcliques"),
            gangs: kind("scheduler.grove.io", "v1alpha1", "PodGang", "podgangs"),
            services: kind("", "v1", "Service", "services"),
            pods: kind("", "v1", "Pod", "pods"),
            changes,
        }
    }

    /// Waits for the next change of anything.
    pub(crate) async fn changed(&mut self) -> Result<()> {
        self.changes.next().await.context("the watches ended")
    }

    /// The uids of everything that is there now.
    pub(crate) fn uids(&self) -> BTreeSet<String> {
        self.kinds().into_iter().flat_map(Kind::all).filter_map(|object| object.metadata.uid.clone()).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.kinds().iter().all(|kind| kind.all().is_empty())
    }

    /// How many objects there are.
    pub(crate) fn count(&self) -> usize {
        self.kinds().iter().map(|kind| kind.all().len()).sum()
    }

    fn kinds(&self) -> [&Kind; 6] {
        [&self.sets, &self.groups, &self.cliques, &self.gangs, &self.services, &self.pods]
    }

    /// Everything that the set asks for is there with all its pods Ready, nothing is on its way out, and the set itself
    /// says so.
    pub(crate) fn is_ready(&self, set: &str) -> bool {
        let Some(set) = self.sets.named(set) else { return false };
        let template = &set.data["spec"]["template"];
        let configured = template["podCliqueScalingGroups"].as_array().map_or(&[][..], Vec::as_slice);
        let grouped: usize = configured.iter().map(|group| length(&group["cliqueNames"])).sum();
        let replicas = size(&set.data["spec"]["replicas"]);
        let groups = self.groups.of(&set);
        let gangs = self.gangs.of(&set);
        has_condition(&set, "Available")
            && number(&set.data["status"]["observedGeneration"]) == set.metadata.generation.unwrap_or_default()
            && size(&set.data["status"]["availableReplicas"]) == replicas
            && self.are_ready(&set, replicas * length(&template["cliques"]).saturating_sub(grouped))
            && groups.len() == replicas * configured.len()
            && groups.iter().all(|group| self.is_group_ready(group))
            && gangs.len() >= replicas
            && gangs.iter().all(|gang| gang.data["status"]["phase"] == "Running")
    }

    fn is_group_ready(&self, group: &DynamicObject) -> bool {
        let spec = &group.data["spec"];
        self.are_ready(group, size(&spec["replicas"]) * length(&spec["cliqueNames"]))
    }

    /// Whether the owner has so many cliques, all of them ready.
    fn are_ready(&self, owner: &DynamicObject, count: usize) -> bool {
        let cliques = self.cliques.of(owner);
        cliques.len() == count && cliques.iter().all(|clique| self.is_clique_ready(clique))
    }

    fn is_clique_ready(&self, clique: &DynamicObject) -> bool {
        let pods = self.pods.of(clique);
        i64::try_from(pods.len()).ok() == Some(number(&clique.data["spec"]["replicas"]))
            && number(&clique.data["status"]["readyReplicas"]) == number(&clique.data["spec"]["replicas"])
            && pods.iter().all(|pod| !is_terminating(&**pod) && has_condition(pod, "Ready"))
    }
}

fn size(value: &Value) -> usize {
    usize::try_from(number(value)).unwrap_or_default()
}

fn length(list: &Value) -> usize {
    list.as_array().map_or(0, Vec::len)
}

pub(crate) fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

pub(crate) fn condition<'a>(object: &'a DynamicObject, kind: &str) -> Option<&'a Value> {
    object.data["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

pub(crate) fn has_condition(object: &DynamicObject, kind: &str) -> bool {
    condition(object, kind).is_some_and(|condition| condition["status"] == "True")
}

#[cfg(test)]
impl World {
    /// A world that stands still, of these objects.
    pub(super) fn of(objects: &[DynamicObject]) -> Self {
        let kind = |kind: &str| {
            let resource = ApiResource {
                group: String::new(),
                version: String::new(),
                api_version: String::new(),
                kind: kind.to_owned(),
                plural: String::new(),
            };
            let mut writer = reflector::store::Writer::new(resource);
            for object in objects.iter().filter(|object| object.types.as_ref().is_some_and(|types| types.kind == kind))
            {
                writer.apply_watcher_event(&watcher::Event::Apply(object.clone()));
            }
            Kind(writer.as_reader())
        };
        Self {
            sets: kind("PodCliqueSet"),
            groups: kind("PodCliqueScalingGroup"),
            cliques: kind("PodClique"),
            gangs: kind("PodGang"),
            services: kind("Service"),
            pods: kind("Pod"),
            changes: SelectAll::new(),
        }
    }
}
