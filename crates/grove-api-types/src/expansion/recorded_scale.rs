//! The scale that clients gave to cliques and scaling groups, as the annotation [`SCALE`](crate::labels::SCALE): that of a base gang for the
//! standalone cliques and the groups of its replica, and that of a group for its cliques. A clique or group that is deleted returns with it,
//! while the replicas of its template are the same.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Clique, ScalingGroup, SetReplica};
use crate::annotation_value::{self, UnreadableAnnotation};
use crate::labels::SCALE;
use crate::v1alpha1::MAX_REPLICAS;

/// The largest number of cliques in the record of a group, so that the annotation stays far below the limit of 256 KiB for all annotations of
/// an object. Clients rarely scale the cliques of a group, because they scale the group.
const MAX_CLIQUES_OF_GROUP: usize = 500;

/// The cliques and groups whose scale differs from their template, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecordedScale {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    cliques: BTreeMap<String, Replicas>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    groups: BTreeMap<String, Replicas>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Replicas {
    replicas: i32,
    /// The replicas of the template when this scale was first recorded.
    template: i32,
}

impl Replicas {
    /// The entry after a reconcile. An entry with the same scale stays, also if its template has changed since.
    fn next(previous: Option<&Self>, replicas: i32, template: i32) -> Option<Self> {
        if replicas == template {
            return None;
        }
        let unchanged = previous.copied().filter(|previous| previous.replicas == replicas);
        Some(unchanged.unwrap_or(Self { replicas, template }))
    }

    fn of_template(self, template: i32) -> Option<i32> {
        (self.template == template).then_some(self.replicas)
    }
}

impl RecordedScale {
    /// The record after a reconcile of a replica; `None` if each scale is that of its template.
    pub fn of_replica(replica: &SetReplica, previous: &Self) -> Option<Self> {
        let clique = |clique: &Clique| previous.next_of_clique(clique, clique.replicas);
        let group = |group: &ScalingGroup| {
            let previous = previous.groups.get(group.name.as_str());
            let next = Replicas::next(previous, group.replica_count, group.config.replicas())?;
            Some((group.name.to_string(), next))
        };
        let cliques: BTreeMap<_, _> = replica.cliques.iter().filter_map(clique).collect();
        let groups: BTreeMap<_, _> = replica.groups.iter().filter_map(group).collect();
        (!cliques.is_empty() || !groups.is_empty()).then_some(Self { cliques, groups })
    }

    /// The record of the cliques of a group after a reconcile; `None` if each scale is that of its template. `live` are the replicas of an
    /// existing clique; `group` has those with which a deleted one returns. It has at most 500 cliques, the first by name.
    pub fn of_group(group: &ScalingGroup, live: impl Fn(&Clique) -> Option<i32>, previous: &Self) -> Option<Self> {
        let cliques = group.replicas.iter().flat_map(|replica| &replica.cliques);
        let next = |clique| previous.next_of_clique(clique, live(clique).unwrap_or(clique.replicas));
        let all: BTreeMap<_, _> = cliques.filter_map(next).collect();
        let cliques: BTreeMap<_, _> = all.into_iter().take(MAX_CLIQUES_OF_GROUP).collect();
        (!cliques.is_empty()).then(|| Self { cliques, groups: BTreeMap::new() })
    }

    fn next_of_clique(&self, clique: &Clique, replicas: i32) -> Option<(String, Replicas)> {
        let previous = self.cliques.get(clique.name.as_str());
        let next = Replicas::next(previous, replicas, clique.template.spec.replicas)?;
        Some((clique.name.to_string(), next))
    }

    /// The scale that the annotation of a group records. One that cannot be decoded records none.
    pub fn decode_of_group(annotation: &str) -> Self {
        Self { groups: BTreeMap::new(), ..Self::decode(annotation) }
    }

    /// The scale of the cliques that do not exist.
    #[must_use]
    pub fn without_cliques(mut self, exists: impl Fn(&str) -> bool) -> Self {
        self.cliques.retain(|name, _| !exists(name));
        self
    }

    /// The scale that the annotations of base gangs record. One that cannot be decoded records none.
    pub fn decode_all<'t>(annotations: impl IntoIterator<Item = &'t String>) -> Self {
        let mut all = Self::default();
        for recorded in annotations.into_iter().map(|annotation| Self::decode(annotation)) {
            all.cliques.extend(recorded.cliques);
            all.groups.extend(recorded.groups);
        }
        all
    }

    fn decode(annotation: &str) -> Self {
        let mut recorded: Self = annotation_value::decode(SCALE, annotation).unwrap_or_default();
        let is_valid = |replicas: &Replicas| (0..=MAX_REPLICAS).contains(&replicas.replicas);
        recorded.cliques.retain(|_, replicas| is_valid(replicas));
        recorded.groups.retain(|_, replicas| is_valid(replicas));
        recorded
    }

    /// The annotation.
    pub fn encode(&self) -> String {
        annotation_value::encode(self)
    }

    /// The error about an annotation that a newer pcs-controller wrote.
    pub fn later_version(annotation: &str) -> Option<UnreadableAnnotation> {
        annotation_value::decode::<Self>(SCALE, annotation).err().filter(UnreadableAnnotation::is_of_later_version)
    }

    pub(super) fn clique(&self, name: &str, template: i32) -> Option<i32> {
        self.cliques.get(name)?.of_template(template)
    }

    pub(super) fn group(&self, name: &str, template: i32) -> Option<i32> {
        self.groups.get(name)?.of_template(template)
    }

    /// The largest number of replicas of a clique, and of a group.
    pub fn largest(&self) -> (i32, i32) {
        let largest = |of: &BTreeMap<String, Replicas>| of.values().map(|it| it.replicas).max().unwrap_or(0);
        (largest(&self.cliques), largest(&self.groups))
    }
}
