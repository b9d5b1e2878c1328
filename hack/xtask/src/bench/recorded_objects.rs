//! The objects that the services create for the benchmark's set, as plain JSON that another client can create again.

use super::pod_group::PodGroup;
use super::workload::{NAMESPACE, SET};
use anyhow::{Context, Result, bail, ensure};
use grove_api_types::scheduler_v1alpha1::PodGang;
use grove_api_types::v1alpha1::PodClique;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Metadata that the services set. The API server sets all other metadata.
const METADATA: [&str; 5] = ["name", "namespace", "labels", "annotations", "ownerReferences"];
/// Fields of a pod that the API server, the scheduler or the kubelet sets.
const POD_DEFAULTS: [&str; 14] = [
    "dnsPolicy",
    "enableServiceLinks",
    "nodeName",
    "preemptionPolicy",
    "priority",
    "restartPolicy",
    "schedulerName",
    "securityContext",
    "serviceAccount",
    "serviceAccountName",
    "terminationGracePeriodSeconds",
    "tolerations",
    "volumes",
    "ephemeralContainers",
];
/// Fields of a container that the API server sets.
const CONTAINER_DEFAULTS: [&str; 4] =
    ["imagePullPolicy", "terminationMessagePath", "terminationMessagePolicy", "volumeMounts"];
/// Fields of a Service that the API server sets.
const SERVICE_DEFAULTS: [&str; 6] =
    ["clusterIPs", "internalTrafficPolicy", "ipFamilies", "ipFamilyPolicy", "sessionAffinity", "type"];

/// The key of the first required term of the pod affinity of a pod.
const AFFINITY_KEY: &str = "/spec/affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution/0/topologyKey";
/// The key by which the scheduler packs the pods of a `PodGroup`.
const POD_GROUP_KEY: &str = "/spec/schedulingConstraints/topology/0/key";

/// Objects of one kind.
#[derive(Clone)]
pub(super) struct KindObjects {
    pub(super) resource: ApiResource,
    pub(super) objects: Vec<DynamicObject>,
}

/// The objects of a set, without the set.
#[derive(Clone)]
pub(super) struct RecordedObjects {
    /// The direct children of the set.
    pub(super) children: Vec<KindObjects>,
    /// The children of these: the `PodGroup`s, if gangs have them, and then the pods.
    pub(super) grandchildren: Vec<KindObjects>,
}

impl RecordedObjects {
    /// Reads the objects in the benchmark's namespace. Each gang has a `PodGroup` if `has_pod_groups` is true.
    pub(super) async fn read(client: &Client, has_pod_groups: bool) -> Result<Self> {
        let services = read::<Service>(client, without_service_defaults);
        let gangs = read::<PodGang>(client, without_pod_references);
        let cliques = read::<PodClique>(client, |_| {});
        let pods = read::<Pod>(client, without_pod_defaults);
        let pod_groups = async {
            if !has_pod_groups {
                return Ok(None);
            }
            read::<PodGroup>(client, without_pod_group_defaults).await.map(Some)
        };
        let (services, gangs, cliques, pods, pod_groups) =
            tokio::try_join!(services, gangs, cliques, pods, pod_groups)?;
        if let Some(groups) = &pod_groups
            && groups.objects.len() != gangs.objects.len()
        {
            bail!("{} gangs have {} PodGroups", gangs.objects.len(), groups.objects.len());
        }
        let grandchildren = pod_groups.into_iter().chain([pods]).collect();
        Ok(Self { children: vec![services, gangs, cliques], grandchildren })
    }

    /// Checks that the `PodGroup`s have this key and the pods have affinity by it, so that the scheduler packs the objects of the baseline
    /// in the same way.
    pub(super) fn check_packed(&self, key: &str) -> Result<()> {
        for KindObjects { resource, objects } in &self.grandchildren {
            let path = if resource.kind == "Pod" { AFFINITY_KEY } else { POD_GROUP_KEY };
            for object in objects {
                let found = object.data.pointer(path).and_then(Value::as_str);
                ensure!(
                    found == Some(key),
                    "{} {} is packed by {found:?}, not {key}",
                    resource.kind,
                    object.name_any()
                );
            }
        }
        Ok(())
    }

    /// Whether there are no objects.
    pub(super) fn is_empty(&self) -> bool {
        self.children.iter().chain(&self.grandchildren).all(|kind| kind.objects.is_empty())
    }

    /// The objects of the first `replicas` replicas, and those of the other ones.
    pub(super) fn split_at(self, replicas: u32) -> (Self, Self) {
        let is_first = |object: &DynamicObject| replica(&object.name_any()).is_some_and(|index| index < replicas);
        let split = |KindObjects { resource, objects }: KindObjects| {
            let (first, others) = objects.into_iter().partition(is_first);
            let of = |objects| KindObjects { resource: resource.clone(), objects };
            (of(first), of(others))
        };
        let (first, others) = self.children.into_iter().map(split).unzip();
        let (first_grandchildren, other_grandchildren) = self.grandchildren.into_iter().map(split).unzip();
        (
            Self { children: first, grandchildren: first_grandchildren },
            Self { children: others, grandchildren: other_grandchildren },
        )
    }
}

/// The objects of a set with shared claims. They have no owners, so that a client can create some of them without the others.
#[derive(Clone)]
pub(super) struct ObjectsWithClaims {
    /// The Services, gangs and cliques.
    pub(super) others: Vec<KindObjects>,
    /// The shared claims, and then the pods.
    pub(super) claims_and_pods: Vec<KindObjects>,
}

impl ObjectsWithClaims {
    /// Reads the objects in the benchmark's namespace.
    pub(super) async fn read(client: &Client) -> Result<Self> {
        let claims = read::<ResourceClaim>(client, |_| {}).await?;
        // On the heap: it is a large future.
        let RecordedObjects { children, grandchildren } = Box::pin(RecordedObjects::read(client, false)).await?;
        let claims_and_pods = std::iter::once(claims).chain(grandchildren).collect();
        let mut objects = Self { others: children, claims_and_pods };
        for object in objects.others.iter_mut().chain(&mut objects.claims_and_pods).flat_map(|kind| &mut kind.objects) {
            object.metadata.owner_references = None;
        }
        Ok(objects)
    }

    /// The objects, with this prefix before the names of claims and pods.
    pub(super) fn with_prefix(mut self, prefix: &str) -> Self {
        for object in self.claims_and_pods.iter_mut().flat_map(|kind| &mut kind.objects) {
            rename(object, prefix);
        }
        self
    }
}

/// Gives a claim or a pod another name, and the references of a pod to claims, too. kwok deletes terminating pods by name, and repeats the
/// request: it would delete a new pod of the same name.
pub(super) fn rename(object: &mut DynamicObject, prefix: &str) {
    let renamed = |name: &str| format!("{prefix}-{name}");
    object.metadata.name = object.metadata.name.as_deref().map(renamed);
    let claims = object.data.pointer_mut("/spec/resourceClaims").and_then(Value::as_array_mut);
    for reference in claims.into_iter().flatten().filter_map(|claim| claim.get_mut("resourceClaimName")) {
        *reference = reference.as_str().map(renamed).into();
    }
}

/// The replica of the set that an object belongs to. The names of all objects begin with that of the set and the index of the replica.
pub(super) fn replica(name: &str) -> Option<u32> {
    name.strip_prefix(SET)?.strip_prefix('-')?.split('-').next()?.parse().ok()
}

async fn read<K>(client: &Client, strip: fn(&mut Map<String, Value>)) -> Result<KindObjects>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let resource = ApiResource::erase::<K>(&());
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), NAMESPACE, &resource);
    let listed = api.list(&ListParams::default()).await?;
    let objects = listed.items.into_iter().map(|object| reset(object, &resource, strip)).collect::<Result<_>>()?;
    Ok(KindObjects { resource, objects })
}

/// The object as the services created it.
fn reset(object: DynamicObject, resource: &ApiResource, strip: fn(&mut Map<String, Value>)) -> Result<DynamicObject> {
    let mut json = serde_json::to_value(object)?;
    json["apiVersion"] = resource.api_version.clone().into();
    json["kind"] = resource.kind.clone().into();
    let fields = json.as_object_mut().context("an object is not a map")?;
    fields.remove("status");
    let metadata = fields.get_mut("metadata").and_then(Value::as_object_mut).context("an object has no metadata")?;
    metadata.retain(|key, _| METADATA.contains(&key.as_str()));
    if let Some(spec) = fields.get_mut("spec").and_then(Value::as_object_mut) {
        strip(spec);
    }
    Ok(serde_json::from_value(json)?)
}

fn without_service_defaults(spec: &mut Map<String, Value>) {
    spec.retain(|field, _| !SERVICE_DEFAULTS.contains(&field.as_str()));
}

/// Pod references are added to a gang after its pods exist.
fn without_pod_references(spec: &mut Map<String, Value>) {
    for group in spec.get_mut("podgroups").and_then(Value::as_array_mut).into_iter().flatten() {
        group["podReferences"] = Value::Array(Vec::new());
    }
}

/// The API server sets the number from the name of the priority class.
fn without_pod_group_defaults(spec: &mut Map<String, Value>) {
    spec.remove("priority");
}

fn without_pod_defaults(spec: &mut Map<String, Value>) {
    spec.retain(|field, _| !POD_DEFAULTS.contains(&field.as_str()));
    for container in spec.get_mut("containers").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(container) = container.as_object_mut() {
            container.retain(|field, _| !CONTAINER_DEFAULTS.contains(&field.as_str()));
        }
    }
}

/// The uids of created objects, by kind and name.
pub(super) type Uids = BTreeMap<(String, String), String>;

/// Points the owner references of an object to the new owners.
pub(super) fn set_owner_uids(object: &mut DynamicObject, uids: &Uids) -> Result<()> {
    for reference in object.metadata.owner_references.iter_mut().flatten() {
        let owner = (reference.kind.clone(), reference.name.clone());
        reference.uid.clone_from(uids.get(&owner).with_context(|| format!("the owner {owner:?} does not exist"))?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{KindObjects, RecordedObjects, Uids, rename, replica, reset, set_owner_uids, without_pod_defaults};
    use crate::bench::pod_group::PodGroup;
    use k8s_openapi::api::core::v1::Pod;
    use kube::api::{ApiResource, DynamicObject};
    use serde_json::{Value, json};

    fn stored() -> DynamicObject {
        let pod = json!({
            "metadata": {
                "name": "a", "namespace": "n", "uid": "1", "resourceVersion": "2", "labels": { "l": "v" },
                "creationTimestamp": "2025-01-01T00:00:00Z",
                "ownerReferences": [{ "apiVersion": "v1", "kind": "PodClique", "name": "c", "uid": "old" }],
            },
            "spec": {
                "hostname": "a-0", "nodeName": "node-1", "volumes": [{ "name": "kube-api-access-x" }],
                "containers": [{ "name": "main", "imagePullPolicy": "Always", "volumeMounts": [] }],
            },
            "status": { "phase": "Running" },
        });
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn fields_of_the_server_are_removed() {
        let pod = reset(stored(), &ApiResource::erase::<Pod>(&()), without_pod_defaults).unwrap();
        let expected = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "a", "namespace": "n", "labels": { "l": "v" },
                "ownerReferences": [{ "apiVersion": "v1", "kind": "PodClique", "name": "c", "uid": "old" }],
            },
            "spec": { "hostname": "a-0", "containers": [{ "name": "main" }] },
        });
        assert_eq!(serde_json::to_value(pod).unwrap(), expected);
    }

    #[test]
    fn objects_with_another_key_are_found() {
        let term = json!({ "topologyKey": "rack", "labelSelector": {} });
        let affinity = json!({ "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term] } });
        let pod = json!({ "metadata": { "name": "a" }, "spec": { "affinity": affinity, "nodeName": "n" } });
        let group = json!({ "metadata": { "name": "a" },
            "spec": { "schedulingConstraints": { "topology": [{ "key": "rack" }] } } });
        let kind = |resource: ApiResource, object: &Value| {
            let object = serde_json::from_value(object.clone()).unwrap();
            KindObjects { objects: vec![reset(object, &resource, without_pod_defaults).unwrap()], resource }
        };
        let check = |group: &Value, pod: &Value, key: &str| {
            let (groups, pods) = (ApiResource::erase::<PodGroup>(&()), ApiResource::erase::<Pod>(&()));
            let grandchildren = vec![kind(groups, group), kind(pods, pod)];
            RecordedObjects { children: Vec::new(), grandchildren }.check_packed(key).is_ok()
        };
        let without = json!({ "metadata": { "name": "a" }, "spec": {} });
        assert!(check(&group, &pod, "rack"));
        assert!(!check(&group, &pod, "zone"));
        assert!(!check(&group, &without, "rack"));
        assert!(!check(&without, &pod, "rack"));
    }

    #[test]
    fn the_name_of_an_object_contains_its_replica() {
        for (name, index) in [
            ("scale-7", Some(7)),
            ("scale-7-1700000000000", Some(7)),
            ("scale-12-worker-x2b4d", Some(12)),
            ("other-7", None),
        ] {
            assert_eq!(replica(name), index, "{name}");
        }
    }

    #[test]
    fn a_renamed_pod_refers_to_renamed_claims() {
        let claims =
            json!([{ "name": "gpu", "resourceClaimName": "c" }, { "name": "own", "resourceClaimTemplateName": "t" }]);
        let pod = json!({ "metadata": { "name": "a" }, "spec": { "resourceClaims": claims } });
        let mut pod = serde_json::from_value(pod).unwrap();
        rename(&mut pod, "plain");
        let pod = serde_json::to_value(&pod).unwrap();
        assert_eq!(pod["metadata"]["name"], "plain-a");
        assert_eq!(pod["spec"]["resourceClaims"][0]["resourceClaimName"], "plain-c");
        assert_eq!(pod["spec"]["resourceClaims"][1], claims[1]);
    }

    #[test]
    fn owner_references_get_the_uids_of_the_new_owners() {
        let mut pod = stored();
        let owner = ("PodClique".to_owned(), "c".to_owned());
        set_owner_uids(&mut pod, &Uids::from([(owner, "new".to_owned())])).unwrap();
        assert_eq!(serde_json::to_value(&pod).unwrap()["metadata"]["ownerReferences"][0]["uid"], Value::from("new"));
        assert!(set_owner_uids(&mut pod, &Uids::new()).is_err());
    }
}
