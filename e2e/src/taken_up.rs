//! What an API server takes up a moment after it was stored, because the part of it that goes by it follows it by a watch:
//! waited for by asking that part.

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, PostParams};
use kube::core::GroupVersionKind;
use kube::runtime::conditions;
use kube::runtime::wait::await_condition;
use kube::{Api, Client, ResourceExt};

use crate::kubectl::kubectl_on;
use crate::namespace::Namespace;
use crate::plane::{Plane, told};

/// What is said of an object that is not refused.
const LET_IN: &str = "it is let in";
/// What is said of kinds of which objects can be had.
const SERVED: &str = "they are served";

/// Waits until the rules say so of an account of ours: whether it may do this to objects of a kind, in all namespaces.
///
/// # Panics
/// When they go on saying something else.
pub async fn rule(client: &Client, service: &str, verb: &str, (group, resource): (&str, &str), allowed: bool) {
    let attributes = ResourceAttributes {
        verb: Some(verb.to_owned()),
        group: Some(group.to_owned()),
        resource: Some(resource.to_owned()),
        ..ResourceAttributes::default()
    };
    let user = format!("system:serviceaccount:grove-system:{service}");
    let spec = SubjectAccessReviewSpec {
        user: Some(user),
        resource_attributes: Some(attributes),
        ..SubjectAccessReviewSpec::default()
    };
    let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
    told("the API server", &format!("allowed: {allowed}"), async || {
        match Api::all(client.clone()).create(&PostParams::default(), &review).await {
            Ok(answer) => format!("{service} {verb} {resource} allowed: {}", answer.status.is_some_and(|s| s.allowed)),
            Err(error) => error.to_string(),
        }
    })
    .await;
}

/// Waits until the API server would let such an object in, or would refuse it in these words. Nothing is stored.
///
/// # Panics
/// When it goes on saying something else.
pub async fn judgement(ns: &Namespace, yaml: &str, refusal: Option<&str>) {
    let object: DynamicObject = serde_saphyr::from_str(yaml).expect("an object");
    let types = object.types.as_ref().expect("a kind");
    let kind = GroupVersionKind::try_from(types).expect("a kind and its version");
    let api = Api::<DynamicObject>::namespaced_with(ns.client.clone(), &ns.name, &ApiResource::from_gvk(&kind));
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    told("the API server", refusal.unwrap_or(LET_IN), async || {
        let answer = api.create(&dry, &object).await;
        answer.map_or_else(|error| error.to_string(), |_| LET_IN.to_owned())
    })
    .await;
}

/// Waits until the API server offers these kinds to kubectl, and serves them.
///
/// # Panics
/// When it does not.
pub async fn kinds(plane: &Plane, resources: &[&str]) {
    let get = ["get", &resources.join(","), "--all-namespaces"];
    told("kubectl", SERVED, async || {
        kubectl_on(plane, &get, "").await.map_or_else(|words| words, |_| SERVED.to_owned())
    })
    .await;
}

/// Deletes the definition of a kind, and waits until it has gone with all objects of the kind.
///
/// # Panics
/// When it does not go.
pub async fn undefine(client: &Client, name: &str) {
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    let uid = definitions.get(name).await.expect("the definition").uid().expect("a uid");
    definitions.delete(name, &DeleteParams::default()).await.expect("the definition is deleted");
    await_condition(definitions, name, conditions::is_deleted(&uid)).await.expect("the definition goes");
}
