//! The `ControllerRevision`s of a set: one for each template of the last updates. A user rolls back by writing the template of one into the set.

use std::collections::BTreeSet;
use std::marker::PhantomData;

use grove_api_types::events;
use grove_api_types::expansion::Revision;
use grove_api_types::labels::{self, Component};
use grove_api_types::names::{PodCliqueSetName, RevisionName};
use grove_api_types::v1alpha1::{PodCliqueSet, PodCliqueSetTemplateSpec};
use grove_controller::children::{
    ChildEvents, ChildKind, DesiredChild, ObservedChildren, OwnerKind, decode_fields_of_child, may_be_child,
};
use grove_controller::plan::Step;
use grove_runtime::caches::InformerOptions;
use grove_runtime::rbac::{PolicyRule, Verb};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::children::desired::{self, metadata};
use crate::children::drift::{restored, retain_keys};

/// The fields of a template that a user may add later. A merge patch removes them by null.
const OPTIONAL: [&str; 5] =
    ["priorityClassName", "terminationDelay", "headlessServiceConfig", "topologyConstraint", "clusterTopologyName"];

/// The annotation in which users note why they changed the template; `kubectl rollout history` prints it for the kinds of Kubernetes.
const CHANGE_CAUSE: &str = "kubernetes.io/change-cause";

/// The default of `revisionHistoryLimit`.
const LIMIT: i32 = 10;

/// One that cannot be created blocks nothing else.
const FAILURE_DOMAIN: i32 = -3;

/// A revision as Grove writes it and as the cache stores it: without the template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Resource)]
#[resource(inherit = ControllerRevision)]
pub(crate) struct SlimRevision {
    /// Its metadata.
    pub(crate) metadata: ObjectMeta,
    /// Its number: that of a later template is higher.
    pub(crate) revision: i64,
    /// A merge patch that writes the template into the set. Immutable; `None` in the cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<Value>,
}

impl<'de> Deserialize<'de> for SlimRevision {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Fields {
            #[serde(default)]
            revision: i64,
        }
        let (metadata, fields) = decode_fields_of_child::<PodCliqueSet, _, Fields>(from)?;
        Ok(Self { metadata, revision: fields.map_or(0, |fields| fields.revision), data: None })
    }
}

/// The informer of revisions. It stores only those of sets: other controllers have many.
pub(crate) fn informer_options() -> InformerOptions<SlimRevision> {
    InformerOptions::default().with_filter(|revision: &SlimRevision| may_be_child::<PodCliqueSet>(revision.meta()))
}

/// The template in a revision; `None` if it has another form.
pub(super) fn template_of(revision: &ControllerRevision) -> Option<PodCliqueSetTemplateSpec> {
    let mut template = revision.data.0.pointer("/spec/template")?.clone();
    template.as_object_mut()?.retain(|_, value| !value.is_null());
    serde_json::from_value(template).ok()
}

/// Which revisions a set has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct History {
    /// The number of the current revision.
    number: i64,
    /// The names of the earlier ones that stay.
    kept: BTreeSet<String>,
}

impl History {
    /// The history of a set whose current template has this hash. The last earlier revisions stay, as many as `revisionHistoryLimit`, and those
    /// that objects of the set name.
    pub(crate) fn new(hash: &str, children: &ObservedChildren, used: &BTreeSet<&str>, limit: Option<i32>) -> Self {
        let limit = limit_of(limit);
        let revisions = || children.of_kind::<SlimRevision>();
        let (current, mut earlier): (Vec<_>, Vec<_>) =
            revisions().partition(|revision| hash_of(revision) == Some(hash));
        earlier.sort_by_key(|revision| std::cmp::Reverse((revision.revision, revision.name_any())));
        let latest = earlier.first().map_or(0, |revision| revision.revision);
        let number = current.iter().map(|revision| revision.revision).find(|number| *number > latest);
        let is_used = |revision: &SlimRevision| hash_of(revision).is_some_and(|hash| used.contains(hash));
        let kept = earlier.iter().enumerate();
        let kept = kept.filter(|(position, revision)| *position < limit || is_used(revision));
        Self {
            number: number.unwrap_or(latest.saturating_add(1)),
            kept: kept.map(|(_, revision)| revision.name_any()).collect(),
        }
    }
}

/// Whether a set with this `revisionHistoryLimit` may have to remove revisions.
pub(crate) fn exceeds_limit(children: &ObservedChildren, limit: Option<i32>) -> bool {
    // The current one is not part of the history.
    children.of_kind::<SlimRevision>().count() > limit_of(limit) + 1
}

fn limit_of(limit: Option<i32>) -> usize {
    usize::try_from(limit.unwrap_or(LIMIT)).unwrap_or(0)
}

fn hash_of(revision: &SlimRevision) -> Option<&str> {
    revision.labels().get(labels::GENERATION_HASH).map(String::as_str)
}

/// A kind of owners of revisions.
pub(crate) trait RevisionOwner: OwnerKind {
    /// The set, its current revision, and the earlier ones that stay.
    fn revisions<'r, 'a: 'r>(expansion: &'r Self::Expansion<'a>) -> (&'r PodCliqueSet, &'r Revision, &'r History);
}

/// The revisions of a set.
pub(crate) struct Revisions<Owner>(PhantomData<fn() -> Owner>);

impl<Owner> Revisions<Owner> {
    /// The row in the table of child kinds.
    pub(crate) const ROW: Self = Self(PhantomData);
}

impl<Owner: RevisionOwner> ChildKind for Revisions<Owner> {
    type Owner = Owner;
    type Object = SlimRevision;

    const STAGE: &'static str = "revisions";
    const EVENTS: ChildEvents = ChildEvents {
        created_or_updated: None,
        create_or_update_failed: events::CONTROLLER_REVISION_FAILED,
        deleted: None,
    };

    fn rules() -> Vec<PolicyRule> {
        let manage = "store the templates of the sets";
        let get = "read the template of a replica that is updated later";
        vec![
            PolicyRule::for_resource::<ControllerRevision>(&Verb::MANAGE, manage),
            PolicyRule::for_resource::<ControllerRevision>(&[Verb::Get], get),
        ]
    }

    fn desired<'r, 'a: 'r>(
        expansion: &'r Owner::Expansion<'a>,
    ) -> impl Iterator<Item = DesiredChild<'r, impl FnOnce() -> SlimRevision>> {
        let (set, current, history) = Owner::revisions(expansion);
        let hash = &current.hashes().generation_hash;
        let name = RevisionName::of_set(&PodCliqueSetName::new(set.name_any()), hash).to_string();
        let of_build = name.clone();
        let build = move || revision(set, current, (&of_build, history.number));
        std::iter::once(DesiredChild::new(name, build).in_failure_domain(FAILURE_DOMAIN))
    }

    fn patch(live: &SlimRevision, mut desired: SlimRevision) -> Option<Step> {
        retain_keys(live.annotations(), desired.annotations_mut(), |key| key == CHANGE_CAUSE);
        restored(live, desired, |revision| {
            let cause = json!({ CHANGE_CAUSE: revision.annotations().get(CHANGE_CAUSE) });
            json!({ "revision": revision.revision, "metadata": { "annotations": cause } })
        })
    }

    fn is_deletable(live: &SlimRevision, expansion: &Owner::Expansion<'_>) -> bool {
        let (_, _, history) = Owner::revisions(expansion);
        !history.kept.contains(&live.name_any())
    }
}

fn revision(set: &PodCliqueSet, current: &Revision, (name, number): (&str, i64)) -> SlimRevision {
    let own = [(labels::NAME, name), (labels::GENERATION_HASH, current.hashes().generation_hash.as_str())];
    let labels = desired::labels(&PodCliqueSetName::new(set.name_any()), Component::Revision, own);
    let mut template = json!(&current.template);
    if let Some(fields) = template.as_object_mut() {
        for field in OPTIONAL {
            fields.entry(field).or_insert(Value::Null);
        }
    }
    let data = json!({ "spec": { "template": template } });
    let mut revision = SlimRevision { metadata: metadata(set, name, labels), revision: number, data: Some(data) };
    if let Some(cause) = set.annotations().get(CHANGE_CAUSE) {
        revision.annotations_mut().insert(CHANGE_CAUSE.to_owned(), cause.clone());
    }
    revision
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// The history of a set with these revisions, each with its hash and its number.
    fn history(hash: &str, revisions: &[(&str, i64)], used: &[&str], limit: Option<i32>) -> (i64, Vec<String>) {
        let revision = |(hash, number): &(&str, i64)| {
            let labels = labels::of([(labels::GENERATION_HASH, *hash)]);
            let metadata =
                ObjectMeta { name: Some(format!("s-{hash}")), labels: Some(labels), ..ObjectMeta::default() };
            Arc::new(SlimRevision { metadata, revision: *number, data: None })
        };
        let mut children = ObservedChildren::default();
        children.extend(revisions.iter().map(revision));
        let used = used.iter().copied().collect();
        let History { number, kept } = History::new(hash, &children, &used, limit);
        (number, kept.into_iter().collect())
    }

    #[test]
    fn the_current_revision_has_the_highest_number() {
        assert_eq!(history("a", &[], &[], None), (1, vec![]));
        assert_eq!(history("a", &[("a", 1)], &[], None), (1, vec![]));
        assert_eq!(history("b", &[("a", 1)], &[], None).0, 2);
        assert_eq!(history("b", &[("a", 1), ("b", 2)], &[], None).0, 2);
        assert_eq!(history("a", &[("a", 1), ("b", 2)], &[], None).0, 3, "an earlier template again");
    }

    #[test]
    fn the_last_ten_revisions_and_those_in_use_are_kept() {
        let names: Vec<_> = (1..=13).map(|number| format!("h{number:02}")).collect();
        let revisions: Vec<_> = names.iter().map(String::as_str).zip(1..).collect();
        let kept = |used: &[&str], limit| history("h13", &revisions, used, limit).1;
        assert_eq!(kept(&["h13"], None).first().map(String::as_str), Some("s-h03"));
        assert_eq!(kept(&["h13"], None).len(), 10);
        assert_eq!(kept(&["h01", "h13"], None).len(), 11);
        assert_eq!(kept(&["h01", "h13"], Some(1)), ["s-h01", "s-h12"]);
        assert_eq!(kept(&["h13"], Some(0)), [""; 0]);
    }
}
