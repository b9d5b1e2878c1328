//! A model of the API server: a domain, its one clique, and the pods of its daemons. It knows resource versions, and the fields that a
//! manager of server-side apply owns.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash};

use grove_api_types::compute_domain::ComputeDomainState;
use grove_api_types::compute_domain::clique::ComputeDomainClique;
use grove_api_types::compute_domain::daemon::Response;
use grove_api_types::compute_domain::daemon_pod::DaemonPod;
use grove_api_types::compute_domain::entry::Entry;
use grove_api_types::compute_domain::request::{Request, Target, Verb};
use grove_api_types::compute_domain::state_object::StateObject;
use grove_api_types::compute_domain::status::ComputeDomainNode;
use grove_api_types::names::ComputeDomainCliqueName;
use serde_json::{Value, json};

pub(super) const DOMAIN_UID: &str = "uid-of-domain";
pub(super) const CLIQUE: &str = "fabric.7";
/// The field manager of all writes that are no apply.
const UPDATE: &str = "update";

/// A version of the object with the entries.
#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub(super) struct Version {
    pub(super) number: u64,
    pub(super) entries: Vec<Entry>,
    /// The labels and owner references of the object of the clique.
    metadata: Value,
}

/// The state of the API server.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ModelServer {
    /// Whether the entries are in the object of the clique, and not in the domain.
    pub(super) has_clique: bool,
    /// All versions of the object with the entries; `None` is a deletion. A watch delivers them in this order.
    pub(super) history: Vec<Option<Version>>,
    pub(super) pods: BTreeMap<String, DaemonPod>,
    /// The nodes of the entries that each manager owns.
    managers: BTreeMap<String, BTreeSet<String>>,
    last_version: u64,
}

impl ModelServer {
    /// The domain exists without entries, the clique does not exist.
    pub(super) fn new(has_clique: bool) -> Self {
        let domain = Version { number: 1, ..Version::default() };
        let history = vec![(!has_clique).then_some(domain)];
        Self { has_clique, history, pods: BTreeMap::new(), managers: BTreeMap::new(), last_version: 1 }
    }

    /// The state without the pods.
    pub(super) fn hash(&self, hasher: &mut DefaultHasher) {
        (&self.history, &self.managers, self.last_version).hash(hasher);
    }

    pub(super) fn current(&self) -> Option<&Version> {
        self.history.last().and_then(Option::as_ref)
    }

    pub(super) fn entries(&self) -> &[Entry] {
        self.current().map_or(&[], |version| &version.entries)
    }

    /// The version as the object that a watch or a response contains.
    pub(super) fn object(&self, version: &Version) -> StateObject {
        let Version { number, entries, metadata } = version;
        let metadata = |namespace: &str, name: &str, uid: &str| {
            let mut all =
                json!({ "namespace": namespace, "name": name, "uid": uid, "resourceVersion": number.to_string() });
            all.as_object_mut()
                .unwrap()
                .extend(metadata.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())));
            serde_json::from_value(all).unwrap()
        };
        if self.has_clique {
            let name = ComputeDomainCliqueName::of_domain(DOMAIN_UID, CLIQUE);
            let metadata = metadata("grove-system", name.as_str(), "uid-of-clique");
            return ComputeDomainClique { metadata, daemons: entries.clone() }.into();
        }
        let mut domain =
            ComputeDomainState { metadata: metadata("team", "llm-0", DOMAIN_UID), ..ComputeDomainState::default() };
        domain.status.nodes = entries.iter().cloned().map(ComputeDomainNode::from).collect();
        domain.into()
    }

    /// Executes the request of a daemon.
    pub(super) fn execute(&mut self, request: &Request) -> Response {
        if request.target == Target::Pod {
            return self.patch_pod(request);
        }
        let is_created = match request.verb {
            Verb::Create => true,
            Verb::Apply { .. } => self.has_clique,
            Verb::Get | Verb::Replace | Verb::MergePatch => false,
        };
        let Some(current) = self.current().cloned().or_else(|| is_created.then(Version::default)) else {
            return Response::NotFound;
        };
        let entries = entries_of(&request.body);
        let is_accepted = match &request.verb {
            Verb::Create => current.number == 0 && self.replace_all(entries, metadata_of(&request.body)),
            Verb::Replace => {
                let is_same = request.body["metadata"]["resourceVersion"] == json!(current.number.to_string());
                is_same && self.replace_all(entries, metadata_of(&request.body))
            }
            Verb::Apply { field_manager, force } => {
                let metadata = with_owners(metadata_of(&request.body), &current.metadata);
                self.apply(field_manager, Applied { entries, metadata, force: *force }, current)
            }
            Verb::Get => true,
            Verb::MergePatch => panic!("no daemon sends a merge patch for {:?}", request.target),
        };
        match self.current().filter(|_| is_accepted) {
            Some(version) => Response::Success(Some(self.object(version))),
            None => Response::Conflict,
        }
    }

    /// A write of the entries that is no apply.
    pub(super) fn replace(&mut self, entries: Vec<Entry>) -> bool {
        let metadata = self.current().map(|current| current.metadata.clone()).unwrap_or_default();
        self.replace_all(entries, metadata)
    }

    /// A write that is no apply owns what it adds or changes.
    fn replace_all(&mut self, entries: Vec<Entry>, metadata: Value) -> bool {
        let before = self.entries().to_vec();
        let changed = entries.iter().filter(|entry| !before.contains(entry)).map(|entry| entry.node_name.clone());
        let changed: BTreeSet<_> = changed.collect();
        for nodes in self.managers.values_mut() {
            nodes.retain(|node| !changed.contains(node) && entries.iter().any(|entry| entry.node_name == *node));
        }
        self.managers.entry(UPDATE.to_owned()).or_default().extend(changed);
        self.store(entries, metadata);
        true
    }

    /// Server-side apply: without force, it conflicts with a different value of another manager. It removes the entries that only this
    /// manager owned and does not apply any more.
    fn apply(&mut self, manager: &str, applied: Applied, current: Version) -> bool {
        let Applied { entries: applied, metadata, force } = applied;
        let is_conflict = |entry: &Entry| {
            let stored = current.entries.iter().find(|stored| stored.node_name == entry.node_name);
            stored.is_some_and(|stored| stored != entry && self.is_owned_by_other(manager, &entry.node_name))
        };
        let conflicts: Vec<_> =
            applied.iter().filter(|entry| is_conflict(entry)).map(|entry| entry.node_name.clone()).collect();
        if !conflicts.is_empty() && !force {
            return false;
        }
        self.managers.values_mut().for_each(|nodes| nodes.retain(|node| !conflicts.contains(node)));
        let owned = self.managers.get(manager).cloned().unwrap_or_default();
        let mut entries = current.entries;
        entries.retain(|entry| !owned.contains(&entry.node_name) || self.is_owned_by_other(manager, &entry.node_name));
        entries.retain(|entry| applied.iter().all(|other| other.node_name != entry.node_name));
        entries.extend(applied.iter().cloned());
        entries.sort();
        self.managers.insert(manager.to_owned(), applied.into_iter().map(|entry| entry.node_name).collect());
        self.store(entries, metadata);
        true
    }

    fn is_owned_by_other(&self, manager: &str, node: &str) -> bool {
        self.managers.iter().any(|(other, nodes)| other != manager && nodes.contains(node))
    }

    /// Stores a version, unless nothing changes.
    fn store(&mut self, entries: Vec<Entry>, metadata: Value) {
        if self.current().is_none_or(|current| current.entries != entries || current.metadata != metadata) {
            self.last_version += 1;
            self.history.push(Some(Version { number: self.last_version, entries, metadata }));
        }
    }

    /// A user deletes the object of the clique.
    pub(super) fn delete(&mut self) {
        self.last_version += 1;
        self.managers.clear();
        self.history.push(None);
    }

    fn patch_pod(&mut self, request: &Request) -> Response {
        let Some(pod) = self.pods.values_mut().find(|pod| pod.name == request.name) else { return Response::NotFound };
        let metadata = &request.body["metadata"];
        if metadata["uid"] != json!(pod.uid) {
            return Response::Failure;
        }
        if let Some(clique) = metadata["labels"]["resource.nvidia.com/computeDomain.cliqueID"].as_str() {
            pod.clique = Some(clique.to_owned());
        }
        if let Some(index) = metadata["annotations"]["grove.io/compute-domain-index"].as_str() {
            pod.index = Some(index.parse().unwrap());
        }
        Response::Success(None)
    }
}

/// What a field manager applies.
struct Applied {
    entries: Vec<Entry>,
    metadata: Value,
    force: bool,
}

/// The labels and owner references in the body of a request for a clique.
fn metadata_of(body: &Value) -> Value {
    let fields =
        ["labels", "ownerReferences"].into_iter().map(|field| (field.to_owned(), body["metadata"][field].clone()));
    fields.filter(|(_, value)| !value.is_null()).collect()
}

/// The applied metadata with the owners of other managers.
fn with_owners(mut applied: Value, current: &Value) -> Value {
    let Some(owners) = applied["ownerReferences"].as_array_mut() else { return applied };
    let others = current["ownerReferences"].as_array().into_iter().flatten();
    let others: Vec<_> = others.filter(|other| !owners.contains(other)).cloned().collect();
    owners.extend(others);
    owners.sort_by_key(ToString::to_string);
    applied
}

/// The entries in the body of a request for a domain or a clique.
fn entries_of(body: &Value) -> Vec<Entry> {
    let nodes = body["status"]["nodes"].as_array().into_iter().flatten();
    let nodes = nodes.map(|node| serde_json::from_value::<ComputeDomainNode>(node.clone()).unwrap().into());
    let daemons = body["daemons"].as_array().into_iter().flatten();
    nodes.chain(daemons.map(|entry| serde_json::from_value(entry.clone()).unwrap())).collect()
}
