//! RBAC rules. Each process declares its rules in code, and `cargo xtask generate` renders them as manifests.

use std::fmt::{self, Display, Formatter};

use grove_api_types::SYSTEM_NAMESPACE;
use kube::Resource;

/// An API verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read many objects.
    List,
    /// Receive changes.
    Watch,
    /// Create one object.
    Create,
    /// Change some fields of an object.
    Patch,
    /// Replace an object.
    Update,
    /// Delete one object.
    Delete,
}

impl Verb {
    /// The verbs on a kind of children:
    /// - `get`: the executor reads the live object before an adoption, after a name conflict, and to confirm a deletion;
    /// - `list` and `watch`: the informer;
    /// - `create`, `patch` and `delete`: the executor writes the steps of plans.
    pub const MANAGE: [Self; 6] = [Self::Get, Self::List, Self::Watch, Self::Create, Self::Patch, Self::Delete];

    /// The verb as RBAC writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Patch => "patch",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }
}

impl Display for Verb {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The scope of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// In every namespace.
    Cluster,
    /// Only in the namespace of the services.
    SystemNamespace,
}

/// One permission with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRule {
    /// The API group; empty for the core group.
    pub api_group: String,
    /// The plural names, with the subresource after a slash.
    pub resources: Vec<String>,
    /// Limits the rule to the objects of these names; empty means all objects.
    pub resource_names: Vec<String>,
    /// The granted verbs.
    pub verbs: Vec<Verb>,
    /// Whether no request uses the permission, but the API server checks it for another request: `update` of an owner's
    /// finalizers for `blockOwnerDeletion`.
    pub implied: bool,
    /// The scope.
    pub scope: Scope,
    /// The purpose; it becomes the comment above the rule.
    pub reason: &'static str,
}

impl PolicyRule {
    /// A rule for kind `K` in all namespaces.
    pub fn for_resource<K: Resource<DynamicType = ()>>(verbs: &[Verb], reason: &'static str) -> Self {
        Self::for_plural(&K::group(&()), &K::plural(&()), verbs, reason)
    }

    /// A rule for a kind without a Rust type, in all namespaces.
    pub fn for_plural(api_group: &str, resource: &str, verbs: &[Verb], reason: &'static str) -> Self {
        Self {
            api_group: api_group.into(),
            resources: vec![resource.into()],
            resource_names: vec![],
            verbs: verbs.into(),
            implied: false,
            scope: Scope::Cluster,
            reason,
        }
    }

    /// The rule to publish events.
    pub fn events() -> Self {
        Self::for_plural("events.k8s.io", "events", &[Verb::Create, Verb::Patch], "publish events")
    }

    /// The rule for the Lease of the leader election.
    pub fn lease() -> Self {
        let verbs = [Verb::Get, Verb::Watch, Verb::Create, Verb::Update];
        Self::for_plural("coordination.k8s.io", "leases", &verbs, "elect a leader among the replicas")
            .in_system_namespace()
    }

    /// The same rule for the `status` subresource.
    #[must_use]
    pub fn status(self) -> Self {
        self.subresource("status")
    }

    /// The same rule for a subresource.
    #[must_use]
    pub fn subresource(mut self, name: &str) -> Self {
        for resource in &mut self.resources {
            *resource = format!("{resource}/{name}");
        }
        self
    }

    /// Marks the rule as implied by other requests; see [`implied`](Self::implied).
    #[must_use]
    pub fn implied(mut self) -> Self {
        self.implied = true;
        self
    }

    /// Limits the rule to objects of these names.
    #[must_use]
    pub fn resource_names(mut self, names: &[&str]) -> Self {
        self.resource_names = names.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    /// Limits the rule to the namespace of the services.
    #[must_use]
    pub fn in_system_namespace(mut self) -> Self {
        self.scope = Scope::SystemNamespace;
        self
    }
}

/// Renders the YAML documents that grant `rules` to the `ServiceAccount` of the service: a `ClusterRole` of the name `role`, and a
/// `Role` for the rules that are limited to the namespace of the services, each with its binding.
pub fn render_rbac(role: &str, service: &str, rules: &[PolicyRule]) -> String {
    let of = |scope| rules.iter().filter(|rule| rule.scope == scope).collect::<Vec<_>>();
    let mut documents = render_role((role, service), "ClusterRole", "", &of(Scope::Cluster));
    let system = of(Scope::SystemNamespace);
    if !system.is_empty() {
        let namespace = format!("  namespace: {SYSTEM_NAMESPACE}\n");
        documents += "---\n";
        documents += &render_role((role, service), "Role", &namespace, &system);
    }
    documents
}

fn render_role((name, service): (&str, &str), kind: &str, namespace: &str, rules: &[&PolicyRule]) -> String {
    let rules: String = rules.iter().map(|rule| render_rule(rule)).collect();
    format!(
        "\
apiVersion: rbac.authorization.k8s.io/v1
kind: {kind}
metadata:
  name: {name}
{namespace}rules:
{rules}---
apiVersion: rbac.authorization.k8s.io/v1
kind: {kind}Binding
metadata:
  name: {name}
{namespace}roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {kind}
  name: {name}
subjects:
  - kind: ServiceAccount
    name: {service}
    namespace: {SYSTEM_NAMESPACE}
"
    )
}

fn render_rule(rule: &PolicyRule) -> String {
    let PolicyRule { api_group, resources, resource_names, verbs, implied, scope: _, reason } = rule;
    let implied = if *implied { " (implied: the API server checks it for other requests)" } else { "" };
    let verbs: Vec<_> = verbs.iter().map(|verb| verb.as_str()).collect();
    let (resources, verbs) = (resources.join(", "), verbs.join(", "));
    let names = match &resource_names[..] {
        [] => String::new(),
        names => format!("    resourceNames: [{}]\n", names.join(", ")),
    };
    format!(
        "  # {reason}{implied}\n  - apiGroups: [\"{api_group}\"]\n    resources: [{resources}]\n{names}    verbs: [{verbs}]\n",
    )
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use k8s_openapi::api::core::v1::{ConfigMap, Pod};

    use super::*;

    #[test]
    fn rules_are_rendered_with_their_reasons() {
        let rules = [
            PolicyRule::for_resource::<Pod>(&[Verb::Get, Verb::Delete], "manage the pods"),
            PolicyRule::for_resource::<Pod>(&[Verb::Update], "block the owner's deletion")
                .subresource("finalizers")
                .implied(),
            PolicyRule::events(),
            PolicyRule::for_resource::<ConfigMap>(&[Verb::Get], "read the settings")
                .resource_names(&["settings"])
                .in_system_namespace(),
        ];
        expect![[r#"
            apiVersion: rbac.authorization.k8s.io/v1
            kind: ClusterRole
            metadata:
              name: pods
            rules:
              # manage the pods
              - apiGroups: [""]
                resources: [pods]
                verbs: [get, delete]
              # block the owner's deletion (implied: the API server checks it for other requests)
              - apiGroups: [""]
                resources: [pods/finalizers]
                verbs: [update]
              # publish events
              - apiGroups: ["events.k8s.io"]
                resources: [events]
                verbs: [create, patch]
            ---
            apiVersion: rbac.authorization.k8s.io/v1
            kind: ClusterRoleBinding
            metadata:
              name: pods
            roleRef:
              apiGroup: rbac.authorization.k8s.io
              kind: ClusterRole
              name: pods
            subjects:
              - kind: ServiceAccount
                name: pod-controller
                namespace: grove-system
            ---
            apiVersion: rbac.authorization.k8s.io/v1
            kind: Role
            metadata:
              name: pods
              namespace: grove-system
            rules:
              # read the settings
              - apiGroups: [""]
                resources: [configmaps]
                resourceNames: [settings]
                verbs: [get]
            ---
            apiVersion: rbac.authorization.k8s.io/v1
            kind: RoleBinding
            metadata:
              name: pods
              namespace: grove-system
            roleRef:
              apiGroup: rbac.authorization.k8s.io
              kind: Role
              name: pods
            subjects:
              - kind: ServiceAccount
                name: pod-controller
                namespace: grove-system
        "#]]
        .assert_eq(&render_rbac("pods", "pod-controller", &rules));
    }
}
