//! Objects of a namespace that watches keep up to date: the changes of one kind as a stream, and all kinds of a set together.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use futures::stream::{BoxStream, SelectAll};
use futures::{Stream, StreamExt};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::{PodClique, PodCliqueScalingGroup, PodCliqueSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::api::ListParams;
use kube::core::NamespaceResourceScope;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

/// A typed kind whose objects live in namespaces.
pub trait Kind:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Send + 'static
{
}

impl<K> Kind for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Send + 'static
{
}

/// One object that was created, changed or deleted.
#[derive(Clone, Debug)]
pub struct ObjectChange<K> {
    /// The name of the object.
    pub name: String,
    /// The new state; `None` if the object was deleted.
    pub object: Option<K>,
}

/// Watches the objects of one kind. Each item has the changes of one watch event; the first item is the initial list, and
/// each further list is one item, too. The stream has no end: a failed watch starts again with backoff.
pub fn changes<K: Kind>(client: &Client, namespace: &str) -> impl Stream<Item = Vec<ObjectChange<K>>> + Send + 'static {
    let events = watcher(Api::<K>::namespaced(client.clone(), namespace), watcher::Config::default());
    let mut state = ListState::default();
    events
        .default_backoff()
        .filter_map(move |event| std::future::ready(event.ok().and_then(|event| state.apply(event))))
}

/// The names of the known objects, and the objects of a list that is not complete.
struct ListState<K> {
    known: BTreeSet<String>,
    listed: Vec<K>,
}

impl<K> Default for ListState<K> {
    fn default() -> Self {
        Self { known: BTreeSet::new(), listed: Vec::new() }
    }
}

impl<K: Resource> ListState<K> {
    fn apply(&mut self, event: Event<K>) -> Option<Vec<ObjectChange<K>>> {
        match event {
            Event::Apply(object) => {
                let name = object.name_any();
                self.known.insert(name.clone());
                Some(vec![ObjectChange { name, object: Some(object) }])
            }
            Event::Delete(object) => {
                let name = object.name_any();
                self.known.remove(&name);
                Some(vec![ObjectChange { name, object: None }])
            }
            Event::Init => {
                self.listed.clear();
                None
            }
            Event::InitApply(object) => {
                self.listed.push(object);
                None
            }
            Event::InitDone => Some(self.replace()),
        }
    }

    fn replace(&mut self) -> Vec<ObjectChange<K>> {
        let listed = std::mem::take(&mut self.listed);
        let names = listed.iter().map(ResourceExt::name_any).collect();
        let before = std::mem::replace(&mut self.known, names);
        let deleted = before.difference(&self.known).map(|name| ObjectChange { name: name.clone(), object: None });
        let mut changes: Vec<ObjectChange<K>> = deleted.collect();
        changes.extend(listed.into_iter().map(|object| ObjectChange { name: object.name_any(), object: Some(object) }));
        changes
    }
}

/// The objects of one kind, by name.
pub type Objects<K> = BTreeMap<String, K>;

/// A set and everything that Grove creates for it, in one namespace.
#[derive(Clone, Default)]
pub struct LiveObjects {
    /// `PodCliqueSet`s.
    pub sets: Objects<PodCliqueSet>,
    /// `PodCliqueScalingGroup`s.
    pub groups: Objects<PodCliqueScalingGroup>,
    /// `PodClique`s.
    pub cliques: Objects<PodClique>,
    /// `PodGang`s.
    pub gangs: Objects<PodGang>,
    /// Services.
    pub services: Objects<Service>,
    /// `HorizontalPodAutoscaler`s.
    pub autoscalers: Objects<HorizontalPodAutoscaler>,
    /// `ResourceClaim`s.
    pub claims: Objects<ResourceClaim>,
    /// Pods.
    pub pods: Objects<Pod>,
}

/// The changes of one watch event, of any kind of [`LiveObjects`].
pub struct Update(Box<dyn FnOnce(&mut LiveObjects) + Send>);

impl LiveObjects {
    /// Watches all kinds in a namespace; [`LiveObjects::apply`] takes the items.
    pub fn updates(client: &Client, namespace: &str) -> SelectAll<BoxStream<'static, Update>> {
        let mut all = SelectAll::new();
        all.push(updates(client, namespace, |objects| &mut objects.sets));
        all.push(updates(client, namespace, |objects| &mut objects.groups));
        all.push(updates(client, namespace, |objects| &mut objects.cliques));
        all.push(updates(client, namespace, |objects| &mut objects.gangs));
        all.push(updates(client, namespace, |objects| &mut objects.services));
        all.push(updates(client, namespace, |objects| &mut objects.autoscalers));
        all.push(updates(client, namespace, |objects| &mut objects.claims));
        all.push(updates(client, namespace, |objects| &mut objects.pods));
        all
    }

    /// Applies the changes of one watch event.
    pub fn apply(&mut self, update: Update) {
        (update.0)(self);
    }

    /// Reads what is stored at this moment. A kind that the API server does not serve has no objects.
    ///
    /// # Errors
    /// If the API server does not answer, or rejects a request.
    pub async fn list(client: &Client, namespace: &str) -> kube::Result<Self> {
        let (sets, groups, cliques, gangs) = tokio::try_join!(
            list(client, namespace),
            list(client, namespace),
            list(client, namespace),
            list(client, namespace)
        )?;
        let (services, autoscalers, claims, pods) = tokio::try_join!(
            list(client, namespace),
            list(client, namespace),
            list(client, namespace),
            list(client, namespace)
        )?;
        Ok(Self { sets, groups, cliques, gangs, services, autoscalers, claims, pods })
    }

    /// The number of objects of all kinds.
    pub fn count(&self) -> usize {
        let Self { sets, groups, cliques, gangs, services, autoscalers, claims, pods } = self;
        let of_sets = sets.len() + groups.len() + cliques.len() + gangs.len();
        of_sets + services.len() + autoscalers.len() + claims.len() + pods.len()
    }

    /// Whether there is no object of any kind.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }
}

fn updates<K: Kind>(
    client: &Client,
    namespace: &str,
    kind: fn(&mut LiveObjects) -> &mut Objects<K>,
) -> BoxStream<'static, Update> {
    let update = move |changes| Update(Box::new(move |objects| apply(changes, kind(objects))));
    changes(client, namespace).map(update).boxed()
}

fn apply<K>(changes: Vec<ObjectChange<K>>, objects: &mut Objects<K>) {
    for ObjectChange { name, object } in changes {
        match object {
            Some(object) => objects.insert(name, object),
            None => objects.remove(&name),
        };
    }
}

async fn list<K: Kind>(client: &Client, namespace: &str) -> kube::Result<Objects<K>> {
    match Api::<K>::namespaced(client.clone(), namespace).list(&ListParams::default()).await {
        Ok(objects) => Ok(objects.items.into_iter().map(|object| (object.name_any(), object)).collect()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Objects::new()),
        Err(error) => Err(error),
    }
}

/// The objects whose owner references name `owner`, sorted by name.
pub fn owned_by<'a, K: Resource>(objects: &'a Objects<K>, owner: &impl Resource) -> Vec<&'a K> {
    let uid = owner.meta().uid.as_ref();
    let is_owned = |object: &&K| object.owner_references().iter().any(|reference| Some(&reference.uid) == uid);
    objects.values().filter(is_owned).collect()
}

/// Whether the Ready condition of the pod is true.
pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Whether the status of the set is of its current generation, counts all replicas as available, and has the condition
/// Available.
pub fn is_available(set: &PodCliqueSet) -> bool {
    set.status.as_ref().is_some_and(|status| {
        let is_available =
            status.conditions.iter().any(|condition| condition.type_ == "Available" && condition.status == "True");
        is_available
            && status.observed_generation == set.metadata.generation
            && status.available_replicas == set.spec.replicas
    })
}

#[cfg(test)]
mod tests {
    use super::{Event, ListState, ObjectChange, Objects, apply};
    use k8s_openapi::api::core::v1::Service;

    fn service(name: &str) -> Service {
        let mut service = Service::default();
        service.metadata.name = Some(name.to_owned());
        service
    }

    fn names(objects: &Objects<Service>) -> Vec<&str> {
        objects.keys().map(String::as_str).collect()
    }

    #[test]
    fn a_list_replaces_the_known_objects_in_one_item() {
        let (mut state, mut objects) = (ListState::default(), Objects::new());
        let mut send = |event| {
            let changes: Option<Vec<ObjectChange<Service>>> = state.apply(event);
            let items = changes.is_some();
            apply(changes.unwrap_or_default(), &mut objects);
            (items, names(&objects).concat())
        };
        assert_eq!(send(Event::Init), (false, String::new()));
        assert_eq!(send(Event::InitApply(service("a"))), (false, String::new()));
        assert_eq!(send(Event::InitApply(service("b"))), (false, String::new()));
        assert_eq!(send(Event::InitDone), (true, "ab".to_owned()));
        assert_eq!(send(Event::Apply(service("c"))), (true, "abc".to_owned()));
        assert_eq!(send(Event::Delete(service("a"))), (true, "bc".to_owned()));
        assert_eq!(send(Event::Init), (false, "bc".to_owned()));
        assert_eq!(send(Event::InitApply(service("c"))), (false, "bc".to_owned()));
        assert_eq!(send(Event::InitDone), (true, "c".to_owned()));
    }
}
