//! Triggers: why an object is enqueued, and the mapping functions from deltas of other objects.

use std::sync::Arc;

use futures::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};
use grove_api_types::ownership::{controller_of, is_of_kind};
use grove_runtime::caches::{Cache, Delta, UnreadableObject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, runtime::reflector::ObjectRef};
use tokio::sync::watch;

use crate::{
    create_state::CreateState,
    terminating_namespaces::{SlimNamespace, TerminatingNamespaces},
};

/// A reason to enqueue an object of kind `K`.
pub enum Trigger<K: Resource> {
    /// The desired state may differ from the observed state: reconcile now.
    Reconcile(ObjectRef<K>),
    /// Probably only the status of the object changes: reconcile after a debounce, and behind other reconciles. The reconcile itself is the same.
    LowPriority(ObjectRef<K>),
    /// The cause of earlier failures may no longer exist: reset the backoff of the object and reconcile soon.
    Retry(ObjectRef<K>),
}

impl<K: Resource> Trigger<K> {
    /// A trigger to reconcile now, or with low priority.
    pub fn new(needs_reconcile: bool, object: ObjectRef<K>) -> Self {
        if needs_reconcile { Self::Reconcile(object) } else { Self::LowPriority(object) }
    }
}

impl<K: Resource> From<ObjectRef<K>> for Trigger<K> {
    fn from(object: ObjectRef<K>) -> Self {
        Self::Reconcile(object)
    }
}

/// The controller of the child, and the one that it had before the change, as far as they are of the kind `Owner`.
pub fn controllers_of<Child, Owner>(delta: &Delta<Child>) -> Vec<ObjectRef<Owner>>
where
    Child: Resource,
    Owner: Resource<DynamicType = ()>,
{
    let new = delta.new.as_deref().and_then(|child| controller(child.meta()));
    let old = delta.old.as_deref().and_then(|child| controller(child.meta())).filter(|old| new.as_ref() != Some(old));
    new.into_iter().chain(old).collect()
}

/// The controller in the metadata of a child, if it is of the kind `Owner`.
pub fn controller<Owner>(child: &ObjectMeta) -> Option<ObjectRef<Owner>>
where
    Owner: Resource<DynamicType = ()>,
{
    let owner = controller_of(child).filter(|owner| is_of_kind::<Owner>(owner))?;
    let object = ObjectRef::new(&owner.name);
    Some(child.namespace.iter().fold(object, |object, namespace| object.within(namespace)))
}

/// The owners to enqueue for the deltas of one kind of child: the current and the previous controller. A delta for which
/// `needs_reconcile` is false triggers a reconcile with low priority. A deletion also retries
/// owners in its namespace that wait for quota.
pub fn enqueue_owners<Child, Owner>(
    deltas: impl Stream<Item = Delta<Child>> + Send + 'static,
    needs_reconcile: fn(&Delta<Child>) -> bool,
    creates: &CreateState<Owner>,
) -> BoxStream<'static, Trigger<Owner>>
where
    Child: Resource<DynamicType = ()> + Send + Sync + 'static,
    Owner: Resource<DynamicType = ()> + Send + Sync + 'static,
{
    let creates = creates.clone();
    let triggers = move |delta: Delta<Child>| {
        let retries = creates.observe_delta(&delta).into_iter().map(Trigger::Retry);
        let needs_reconcile = needs_reconcile(&delta);
        stream::iter(
            retries.chain(controllers_of(&delta).into_iter().map(move |owner| Trigger::new(needs_reconcile, owner))),
        )
    };
    deltas.flat_map(triggers).boxed()
}

/// The owners to enqueue because a child became unreadable, was repaired or was deleted: its controller. A deletion ends the expectation of its create, and retries owners in its namespace that wait for quota.
pub fn enqueue_owners_of_unreadable<Child, Owner>(
    children: &Cache<Child>,
    creates: &CreateState<Owner>,
) -> BoxStream<'static, Trigger<Owner>>
where
    Child: Resource<DynamicType = ()> + Send + Sync + 'static,
    Owner: Resource<DynamicType = ()> + Send + Sync + 'static,
{
    let (cache, creates) = (children.clone(), creates.clone());
    let triggers = move |object: Arc<UnreadableObject>| {
        let retries = creates.observe_unreadable(&cache, &object).into_iter().map(Trigger::Retry);
        let owner = controller(&object.metadata).map(Trigger::Reconcile);
        stream::iter(retries.chain(owner).collect::<Vec<_>>())
    };
    children.subscribe_unreadable().flat_map(triggers).boxed()
}

/// Enqueues all owners with low priority after each relist of a child kind, except for the first list: no delta reports a
/// child that was created and deleted before the relist.
pub fn enqueue_all_on_relist<Owner>(
    owners: &Cache<Owner>,
    relists: Vec<watch::Receiver<u64>>,
) -> BoxStream<'static, Trigger<Owner>>
where
    Owner: Resource<DynamicType = ()> + Send + Sync + 'static,
{
    let owners = owners.clone();
    let relisted = lists(relists).filter(|count| std::future::ready(*count > 1));
    let all = move |_| stream::iter(owners.all()).map(|owner| Trigger::LowPriority(ObjectRef::from_obj(&*owner)));
    relisted.flat_map(all).boxed()
}

/// Enqueues all objects that satisfy the predicate after each list of another kind, also after the first one. Use this if a live read
/// decides whether an object is in use by an object of the other kind: no delta reports that such an object ended before the list.
pub fn enqueue_on_list<K>(
    objects: &Cache<K>,
    relists: Vec<watch::Receiver<u64>>,
    is_selected: fn(&K) -> bool,
) -> BoxStream<'static, Trigger<K>>
where
    K: Resource<DynamicType = ()> + Send + Sync + 'static,
{
    let objects = objects.clone();
    let selected = move |_| {
        let selected = objects.all().into_iter().filter(move |object| is_selected(object));
        stream::iter(selected.map(|object| ObjectRef::from_obj(&*object).into()))
    };
    lists(relists).flat_map(selected).boxed()
}

/// The number of the list after each list of one of the kinds.
fn lists(relists: Vec<watch::Receiver<u64>>) -> impl Stream<Item = u64> + Send {
    stream::select_all(relists.into_iter().map(|relists| {
        let changes = stream::unfold(relists, |mut relists| async move {
            relists.changed().await.ok()?;
            let count = *relists.borrow_and_update();
            Some((count, relists))
        });
        changes.boxed()
    }))
}

/// The owners to retry because their namespace is no longer terminating: it was restored from a backup, or deleted and maybe created
/// again. The plans of these owners had no creates. If the informer stores all namespaces, also those whose namespace was observed for the
/// first time.
pub fn owners_after_namespace_termination<Owner>(
    owners: &Cache<Owner>,
    namespaces: &TerminatingNamespaces,
) -> BoxStream<'static, ObjectRef<Owner>>
where
    Owner: Resource<DynamicType = ()> + Send + Sync + 'static,
{
    let owners = owners.clone();
    let is_active =
        |namespace: Option<&Arc<SlimNamespace>>| namespace.is_some_and(|namespace| !namespace.is_terminating);
    let allows_creates = move |delta: &Delta<SlimNamespace>| {
        delta.is_delete() || (is_active(delta.new.as_ref()) && !is_active(delta.old.as_ref()))
    };
    let ended = namespaces.cache().subscribe().filter(move |delta| std::future::ready(allows_creates(delta)));
    let owners_in = move |delta: Delta<SlimNamespace>| {
        let name = delta.object().and_then(|namespace| namespace.metadata.name.clone()).unwrap_or_default();
        stream::iter(owners.of_namespace(&name)).map(|owner| ObjectRef::from_obj(&*owner))
    };
    ended.flat_map(owners_in).boxed()
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use grove_runtime::{api_error::ApiError, caches::InformerOptions};
    use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
    use serde_json::json;

    use super::*;
    use crate::{
        create_backoff::{BackedOffCreates, CreateBackoff},
        executor::{ExecutionResult, StepResult},
        plan::{Plan, Stage, Step, Target},
    };

    fn pod(owner_kind: &str, owner_version: &str, owner: &str) -> Arc<Pod> {
        let owner =
            json!([{ "apiVersion": owner_version, "kind": owner_kind, "name": owner, "uid": "u", "controller": true }]);
        let metadata = json!({ "name": "p", "namespace": "ns", "ownerReferences": owner });
        Arc::new(serde_json::from_value(json!({ "metadata": metadata })).unwrap())
    }

    fn replica_sets(old: Option<Arc<Pod>>, new: Option<Arc<Pod>>) -> Vec<String> {
        let controllers = controllers_of::<_, ReplicaSet>(&Delta { old, new });
        assert!(controllers.iter().all(|controller| controller.namespace.as_deref() == Some("ns")));
        controllers.into_iter().map(|controller| controller.name).collect()
    }

    #[test]
    fn the_deletion_of_a_child_triggers_its_controller_for_any_version_in_the_reference() {
        assert_eq!(replica_sets(Some(pod("ReplicaSet", "apps/v1", "o")), None), ["o"]);
        assert_eq!(replica_sets(Some(pod("ReplicaSet", "apps/v1beta9", "o")), None), ["o"]);
    }

    #[test]
    fn a_child_with_another_controller_triggers_both_and_a_released_child_its_last_controller() {
        let child = || Some(pod("ReplicaSet", "apps/v1", "o"));
        assert_eq!(replica_sets(child(), Some(pod("ReplicaSet", "apps/v1", "other"))), ["other", "o"]);
        assert_eq!(replica_sets(child(), child()), ["o"]);
        assert_eq!(replica_sets(child(), Some(Arc::default())), ["o"]);
    }

    #[test]
    fn a_created_child_that_cannot_be_decoded_and_is_deleted_is_no_longer_expected() {
        let (children, writer) = Cache::<Pod>::with_writer(InformerOptions::default());
        let mut owner = ReplicaSet::default();
        (owner.metadata.namespace, owner.metadata.uid) = (Some("ns".into()), Some("u".into()));
        let creates = CreateState::<ReplicaSet>::new(CreateBackoff::default());
        let mut triggers = enqueue_owners_of_unreadable(&children, &creates);
        let mut enqueued = || triggers.next().now_or_never().flatten().is_some();

        let mut child = Pod::clone(&pod("ReplicaSet", "apps/v1", "o"));
        let create = Step::create(&child);
        child.metadata.uid = Some("created".into());
        let step = StepResult::new("s", "create", Target::of(&child), Ok(()));
        creates.expect_creations(&owner, &Plan::new().stage(Stage::new("s", [create])), |_| 1);
        creates.expectations.record_results(&owner, &ExecutionResult { steps: vec![step] });
        writer.apply_unreadable(UnreadableObject { metadata: child.metadata.clone(), reason: "r".into() });
        assert!(enqueued());
        assert_eq!(creates.expectations.len(), 1, "the cache contains it");
        writer.delete(child);
        assert!(enqueued());
        assert_eq!(creates.expectations.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_deletion_of_a_child_that_cannot_be_decoded_retries_the_rejected_creates_of_its_namespace() {
        let (children, writer) = Cache::<Pod>::with_writer(InformerOptions::default());
        let creates = CreateState::<ReplicaSet>::new(CreateBackoff::default());
        let mut child = Pod::clone(&pod("ReplicaSet", "apps/v1", "o"));
        let quota = ApiError::new(403, "Forbidden", "pods \"p\" is forbidden: exceeded quota: small");
        let (target, result) = (Target::of(&child), Err(quota));
        let rejected = StepResult::new("s", "create", target, result);
        let result = ExecutionResult { steps: vec![rejected] };
        let mut owner = ReplicaSet::default();
        (owner.metadata.name, owner.metadata.namespace) = (Some("rejected".into()), Some("ns".into()));
        creates.backoff.record(&owner, &BackedOffCreates::default(), &result);

        let mut triggers = enqueue_owners_of_unreadable(&children, &creates);
        let mut enqueued = || {
            let triggers = std::iter::from_fn(|| triggers.next().now_or_never().flatten());
            let name = |trigger: Trigger<ReplicaSet>| match trigger {
                Trigger::Reconcile(owner) => format!("reconcile {}", owner.name),
                Trigger::LowPriority(owner) => format!("low priority {}", owner.name),
                Trigger::Retry(owner) => format!("retry {}", owner.name),
            };
            triggers.map(name).collect::<Vec<_>>()
        };
        child.metadata.uid = Some("unreadable".into());
        writer.apply_unreadable(UnreadableObject { metadata: child.metadata.clone(), reason: "r".into() });
        assert_eq!(enqueued(), ["reconcile o"]);
        writer.delete(child);
        assert_eq!(enqueued(), ["retry rejected", "reconcile o"]);
    }

    fn namespace(name: &str, is_terminating: bool) -> SlimNamespace {
        let metadata = ObjectMeta { name: Some(name.into()), uid: Some(name.into()), ..ObjectMeta::default() };
        SlimNamespace { metadata, is_terminating }
    }

    #[test]
    fn the_first_event_of_a_namespace_retries_the_owners_in_it_if_all_namespaces_are_stored() {
        let mut owner = ReplicaSet::default();
        (owner.metadata.namespace, owner.metadata.name) = (Some("a".into()), Some("first".into()));
        let (cache, writer) = Cache::with_writer(InformerOptions::<SlimNamespace>::default());
        let namespaces = TerminatingNamespaces::new(cache);
        let mut triggers = owners_after_namespace_termination(&Cache::from_objects([owner]), &namespaces);
        let mut enqueued = || std::iter::from_fn(|| triggers.next().now_or_never().flatten()).count();
        for (is_terminating, expected) in [(false, 1), (false, 0), (true, 0), (false, 1)] {
            assert!(namespaces.uid("a").is_some() || expected == 1);
            writer.apply(namespace("a", is_terminating));
            assert_eq!((enqueued(), namespaces.contains("a")), (expected, is_terminating));
        }
        assert_eq!(namespaces.uid("a").as_deref(), Some("a"));
    }

    #[test]
    fn the_end_of_the_termination_of_a_namespace_retries_the_owners_in_it() {
        let owner = |namespace: &str, name: &str| {
            let mut owner = ReplicaSet::default();
            (owner.metadata.namespace, owner.metadata.name) = (Some(namespace.into()), Some(name.into()));
            owner
        };
        let owners = Cache::from_objects([owner("a", "first"), owner("a", "second"), owner("b", "other")]);
        let options = InformerOptions::<SlimNamespace>::default().with_filter(|namespace| namespace.is_terminating);
        let (cache, namespaces) = Cache::with_writer(options);
        let mut triggers = owners_after_namespace_termination(&owners, &TerminatingNamespaces::new(cache));
        let mut enqueued = || {
            let objects = std::iter::from_fn(|| triggers.next().now_or_never().flatten());
            objects.map(|object| [object.namespace.unwrap_or_default(), object.name].join("/")).collect::<Vec<_>>()
        };
        for name in ["a", "b"] {
            namespaces.apply(namespace(name, false));
            namespaces.apply(namespace(name, true));
        }
        assert!(enqueued().is_empty());
        namespaces.apply(namespace("a", false));
        assert_eq!(enqueued(), ["a/first", "a/second"], "the namespace was restored");
        namespaces.delete(namespace("b", true));
        assert_eq!(enqueued(), ["b/other"], "the namespace was deleted");
    }

    #[test]
    fn the_selected_objects_are_enqueued_after_each_list_of_another_kind() {
        let owner = |name: &str| {
            let mut owner = ReplicaSet::default();
            owner.metadata.name = Some(name.into());
            owner
        };
        let (lists, relists) = watch::channel(0);
        let is_selected = |owner: &ReplicaSet| owner.metadata.name.as_deref() == Some("b");
        let mut triggers = enqueue_on_list(&Cache::from_objects([owner("a"), owner("b")]), vec![relists], is_selected);
        let mut enqueued = || {
            let triggers = std::iter::from_fn(|| triggers.next().now_or_never().flatten());
            let is_b = |trigger| matches!(trigger, Trigger::Reconcile(owner) if owner.name == "b");
            triggers.map(is_b).collect::<Vec<_>>()
        };
        assert!(enqueued().is_empty());
        for count in [1, 2] {
            lists.send_replace(count);
            assert_eq!(enqueued(), [true], "list {count}");
        }
    }

    #[test]
    fn a_controller_of_another_kind_or_group_is_not_triggered() {
        assert!(replica_sets(Some(pod("StatefulSet", "apps/v1", "o")), None).is_empty());
        assert!(replica_sets(Some(pod("ReplicaSet", "other.io/v1", "o")), None).is_empty());
    }
}
