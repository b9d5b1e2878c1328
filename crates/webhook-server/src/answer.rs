//! From a question to its answer: asks the pure functions of admission, with what is known of the cluster.

use std::collections::BTreeMap;

use grove_api_types::admission::{
    self, Fault, Operation as Act, Parent, Request as Wish, Scaled, TopologyFacts, Verdict, authorize,
    default_cluster_topology, default_pod_clique_set, validate_cluster_topology_create,
    validate_cluster_topology_update, validate_create, validate_scale, validate_topology_binding_create,
    validate_topology_binding_update, validate_update,
};
use grove_api_types::labels::{PART_OF, PROTECTION_DISABLED};
use grove_api_types::v1alpha1::{ClusterTopology, ClusterTopologyBinding, PodCliqueSet};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cluster::{Cluster, appear};
use crate::known::Known;
use crate::question::Question;
use crate::review::{Answer, Cause, Operation, Request};

/// Answers what can be answered from the caches as they are. Before [`Question::ValidateScale`], see [`awaited`].
pub(crate) fn answer(question: Question, request: &Request, cluster: &Cluster) -> Answer {
    let answered = match question {
        Question::DefaultSet => default_set(request, cluster),
        Question::ValidateSet => validate_set(request, cluster),
        Question::DefaultTopology => default_topology(request),
        Question::ValidateTopology => validate_topology(request, cluster),
        Question::ValidateScale => Ok(scale(request, cluster)),
        Question::Authorize => Ok(may(request, cluster)),
    };
    answered.unwrap_or_else(Answer::unreadable)
}

/// Waits for what the answer needs and the caches are about to have.
pub(crate) async fn awaited(question: Question, request: &Request, cluster: &Cluster) {
    let (namespace, name) = (request.namespace.as_str(), request.name.as_str());
    match (question, request.resource.resource.as_str()) {
        (Question::ValidateScale, "podcliquesets") => appear(&cluster.caches.sets, namespace, name).await,
        (Question::ValidateScale, "podcliquescalinggroups") => appear(&cluster.caches.groups, namespace, name).await,
        (Question::ValidateScale, "podcliques") => appear(&cluster.caches.cliques, namespace, name).await,
        _ => {}
    }
}

fn default_set(request: &Request, cluster: &Cluster) -> Result<Answer, String> {
    let object = sent(request.object.as_ref())?;
    let changes = default_pod_clique_set(object, request.old_object.as_ref(), &cluster.of_new_set());
    Ok(Answer { changes, ..Answer::default() })
}

fn validate_set(request: &Request, cluster: &Cluster) -> Result<Answer, String> {
    let set: PodCliqueSet = read(sent(request.object.as_ref())?)?;
    // One that was stored and cannot be read any more must not keep its own repair out.
    let old = request.old_object.as_ref().and_then(|old| read::<PodCliqueSet>(old).ok());
    let verdict = match old {
        None => validate_create(&set, &cluster.of_new_set()),
        Some(old) => {
            let facts = cluster.of_set(&request.namespace, &request.name, &[&set, &old]);
            validate_update(&set, &old, &facts)
        }
    };
    Ok(judged(verdict))
}

fn default_topology(request: &Request) -> Result<Answer, String> {
    let changes = default_cluster_topology(sent(request.object.as_ref())?);
    Ok(Answer { changes, ..Answer::default() })
}

/// Both kinds are asked about at one place, as ever.
fn validate_topology(request: &Request, cluster: &Cluster) -> Result<Answer, String> {
    let facts = |is_taken: bool| cluster.of_topology(&request.name, &request.user_info.username, is_taken);
    if request.kind.kind == ClusterTopologyBinding::kind(&()) {
        let facts = facts(cluster.has_topology(&request.name));
        validated(request, &facts, validate_topology_binding_create, validate_topology_binding_update)
    } else {
        let facts = facts(cluster.has_binding(&request.name));
        validated::<ClusterTopology>(
            request,
            &facts,
            validate_cluster_topology_create,
            validate_cluster_topology_update,
        )
    }
}

fn validated<K: Resource<DynamicType = ()> + DeserializeOwned>(
    request: &Request,
    facts: &TopologyFacts,
    create: fn(&K, &TopologyFacts) -> Verdict,
    update: fn(&K, &K, &TopologyFacts) -> Verdict,
) -> Result<Answer, String> {
    let topology: K = read(sent(request.object.as_ref())?)?;
    let old = request.old_object.as_ref().and_then(|old| read::<K>(old).ok());
    Ok(judged(match old {
        None => create(&topology, facts),
        Some(old) => update(&topology, &old, facts),
    }))
}

/// What is scaled comes from the caches, and the number from the request. What nobody here has seen passes: it is not for
/// a late cache to stop an autoscaler.
fn scale(request: &Request, cluster: &Cluster) -> Answer {
    let replicas = |scale: Option<&Value>| {
        let replicas = scale.and_then(|scale| scale.pointer("/spec/replicas")?.as_i64()).unwrap_or_default();
        i32::try_from(replicas).unwrap_or(i32::MAX)
    };
    let (to, from) = (replicas(request.object.as_ref()), replicas(request.old_object.as_ref()));
    let (namespace, name) = (request.namespace.as_str(), request.name.as_str());
    let set_of =
        |part: &BTreeMap<String, String>| part.get(PART_OF).and_then(|set| cluster.caches.sets.get(namespace, set));
    let verdict = match request.resource.resource.as_str() {
        "podcliquesets" => cluster.caches.sets.get(namespace, name).map(|known| {
            let mut set = known.0.clone();
            set.spec.replicas = from;
            validate_scale(Scaled::Set(&set), to, &cluster.of_set(namespace, name, &[&set]))
        }),
        "podcliquescalinggroups" => cluster.caches.groups.get(namespace, name).map(|known| {
            let mut group = known.0.clone();
            group.spec.replicas = from;
            let set = set_of(group.labels());
            validate_scale(Scaled::Group(&group, set.as_ref().map(|set| &set.0)), to, &cluster.of_new_set())
        }),
        _ => cluster.caches.cliques.get(namespace, name).map(|known| {
            let mut clique = known.0.clone();
            clique.spec.replicas = from;
            let set = set_of(clique.labels());
            validate_scale(Scaled::Clique(&clique, set.as_ref().map(|set| &set.0)), to, &cluster.of_new_set())
        }),
    };
    judged(verdict.unwrap_or_default())
}

fn may(request: &Request, cluster: &Cluster) -> Answer {
    // The configuration decides, whatever is registered.
    if !cluster.protects {
        return Answer::default();
    }
    let (resource, kind) = (request.full_name(), request.kind.kind.as_str());
    let operation = match request.operation {
        Operation::Create => Act::Create,
        Operation::Update => Act::Update,
        Operation::Delete => Act::Delete,
        Operation::Connect => Act::Connect,
    };
    let (user, object, old) =
        (request.user_info.username.as_str(), request.object.as_ref(), request.old_object.as_ref());
    let wish = Wish { operation, kind, resource: &resource, user, object, old };
    let set = wish.set().and_then(|name| cluster.caches.sets.get(&request.namespace, name));
    let parent = match &set {
        None => Parent::Absent,
        Some(known) => {
            let Known(set) = &**known;
            Parent::Present(set.annotations().get(PROTECTION_DISABLED).map(String::as_str))
        }
    };
    let admission::Authorization { denied, warnings } = authorize(&wish, parent, &cluster.exempt);
    let answer = denied.map(|denied| Answer::refused(denied, vec![], vec![])).unwrap_or_default();
    Answer { warnings, ..answer }
}

fn judged(verdict: Verdict) -> Answer {
    let Some(message) = verdict.message() else {
        return Answer { warnings: verdict.warnings, ..Answer::default() };
    };
    let cause = |error: &admission::FieldError| Cause {
        reason: reason(error.kind),
        message: error.to_string(),
        field: error.path.to_string(),
    };
    let causes = verdict.errors.iter().map(cause).collect();
    let rules = verdict.errors.iter().map(|error| error.rule).collect();
    Answer { warnings: verdict.warnings, ..Answer::refused(message, causes, rules) }
}

/// The words that Kubernetes has for it.
fn reason(fault: Fault) -> &'static str {
    match fault {
        Fault::Required => "FieldValueRequired",
        Fault::Invalid => "FieldValueInvalid",
        Fault::Duplicate => "FieldValueDuplicate",
        Fault::NotFound => "FieldValueNotFound",
        Fault::NotSupported => "FieldValueNotSupported",
        Fault::Forbidden => "FieldValueForbidden",
    }
}

fn sent(object: Option<&Value>) -> Result<&Value, String> {
    object.ok_or_else(|| "the request has no object".to_owned())
}

fn read<K: Resource<DynamicType = ()> + DeserializeOwned>(object: &Value) -> Result<K, String> {
    K::deserialize(object).map_err(|error| format!("the object is no {}: {error}", K::kind(&())))
}

#[cfg(test)]
pub(crate) mod tests;
