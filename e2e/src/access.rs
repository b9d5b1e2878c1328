//! What users may do: role bindings, and the reviews of the API server.

use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::rbac::v1::RoleBinding;
use serde_json::json;

use crate::namespace::Namespace;

/// Grants the rules of a `Role` or a `ClusterRole` to a user in a namespace. The binding has the name of the user.
///
/// # Panics
/// If the API server rejects the binding.
pub async fn bind(ns: &Namespace, user: &str, (kind, role): (&str, &str)) {
    let group = "rbac.authorization.k8s.io";
    let binding = json!({ "metadata": { "name": user }, "roleRef": { "apiGroup": group, "kind": kind, "name": role },
        "subjects": [{ "apiGroup": group, "kind": "User", "name": user }] });
    ns.create_yaml::<RoleBinding>(&binding.to_string()).await;
}

/// A review of a verb on a resource, which may have a subresource after a slash. Without a namespace, it is about all namespaces.
pub fn review(
    user: String,
    groups: &[&str],
    namespace: Option<&str>,
    (verb, group, resource): (&str, &str, &str),
) -> SubjectAccessReview {
    let (plural, subresource) = resource.split_once('/').map_or((resource, None), |(plural, sub)| (plural, Some(sub)));
    let attributes = ResourceAttributes {
        namespace: namespace.map(str::to_owned),
        verb: Some(verb.to_owned()),
        group: Some(group.to_owned()),
        resource: Some(plural.to_owned()),
        subresource: subresource.map(str::to_owned),
        ..ResourceAttributes::default()
    };
    let groups = groups.iter().map(|group| (*group).to_owned()).collect::<Vec<_>>();
    let spec = SubjectAccessReviewSpec {
        user: Some(user),
        groups: Some(groups).filter(|groups| !groups.is_empty()),
        resource_attributes: Some(attributes),
        ..SubjectAccessReviewSpec::default()
    };
    SubjectAccessReview { spec, ..SubjectAccessReview::default() }
}
