//! What a service may do, declared beside the code that does it and rendered as RBAC manifests.

use std::fmt::{self, Display, Formatter};

use kube::Resource;

/// The namespace that the services run in.
pub const SYSTEM_NAMESPACE: &str = "grove-system";

/// A verb of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Read one.
    Get,
    /// Read many.
    List,
    /// Follow changes.
    Watch,
    /// POST.
    Create,
    /// Change some fields.
    Patch,
    /// Replace.
    Update,
    /// Remove one.
    Delete,
}

impl Verb {
    /// As RBAC spells it.
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

/// Where a rule holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// In every namespace.
    Cluster,
    /// In the services' own namespace only.
    System,
}

/// One permission with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Empty for the core group.
    pub api_group: String,
    /// Plurals, with their subresource where one is meant.
    pub resources: Vec<String>,
    /// The only objects that are meant, by name; none means all.
    pub names: Vec<String>,
    /// What is done with them.
    pub verbs: Vec<Verb>,
    /// Needed though never seen as a request, as `update` of an owner's finalizers is.
    pub implied: bool,
    /// Where it holds.
    pub reach: Reach,
    /// Becomes the comment above the rule.
    pub reason: &'static str,
}

impl Rule {
    /// A rule on kind `K`.
    pub fn on<K: Resource<DynamicType = ()>>(verbs: &[Verb], reason: &'static str) -> Self {
        Self::named(&K::group(&()), &K::plural(&()), verbs, reason)
    }

    /// A rule on a resource that has no type here.
    pub fn named(api_group: &str, resource: &str, verbs: &[Verb], reason: &'static str) -> Self {
        Self {
            api_group: api_group.into(),
            resources: vec![resource.into()],
            names: vec![],
            verbs: verbs.into(),
            implied: false,
            reach: Reach::Cluster,
            reason,
        }
    }

    /// The events every service announces.
    pub fn events() -> Self {
        Self::named("events.k8s.io", "events", &[Verb::Create, Verb::Patch], "announcements")
    }

    /// The Lease by which the replicas of a service agree on who acts.
    pub fn lease() -> Self {
        let verbs = [Verb::Get, Verb::Watch, Verb::Create, Verb::Update];
        Self::named("coordination.k8s.io", "leases", &verbs, "which of its replicas acts").in_system_namespace()
    }

    /// The same verbs, on the `status` subresource.
    #[must_use]
    pub fn status(self) -> Self {
        self.subresource("status")
    }

    /// The same verbs, on a subresource.
    #[must_use]
    pub fn subresource(mut self, name: &str) -> Self {
        for resource in &mut self.resources {
            *resource = format!("{resource}/{name}");
        }
        self
    }

    /// Marks the rule as needed though never seen as a request.
    #[must_use]
    pub fn implied(mut self) -> Self {
        self.implied = true;
        self
    }

    /// Limits the rule to objects of these names.
    #[must_use]
    pub fn only(mut self, names: &[&str]) -> Self {
        self.names = names.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    /// Limits the rule to the services' own namespace.
    #[must_use]
    pub fn in_system_namespace(mut self) -> Self {
        self.reach = Reach::System;
        self
    }
}

/// The YAML documents that grant `rules` to the `ServiceAccount` called like the service: a `ClusterRole` and, where
/// rules are limited to the services' namespace, a `Role`, each with its binding.
pub fn cluster_role(service: &str, rules: &[Rule]) -> String {
    let of = |reach| rules.iter().filter(|rule| rule.reach == reach).collect::<Vec<_>>();
    let mut documents = grant(service, "ClusterRole", "", &of(Reach::Cluster));
    let system = of(Reach::System);
    if !system.is_empty() {
        let namespace = format!("  namespace: {SYSTEM_NAMESPACE}\n");
        documents += "---\n";
        documents += &grant(service, "Role", &namespace, &system);
    }
    documents
}

fn grant(service: &str, kind: &str, namespace: &str, rules: &[&Rule]) -> String {
    let rules: String = rules.iter().map(|rule| rule_yaml(rule)).collect();
    format!(
        "\
apiVersion: rbac.authorization.k8s.io/v1
kind: {kind}
metadata:
  name: {service}
{namespace}rules:
{rules}---
apiVersion: rbac.authorization.k8s.io/v1
kind: {kind}Binding
metadata:
  name: {service}
{namespace}roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {kind}
  name: {service}
subjects:
  - kind: ServiceAccount
    name: {service}
    namespace: {SYSTEM_NAMESPACE}
"
    )
}

fn rule_yaml(rule: &Rule) -> String {
    let Rule { api_group, resources, names, verbs, implied, reach: _, reason } = rule;
    let implied = if *implied { " (implied: never seen as a request)" } else { "" };
    let verbs: Vec<_> = verbs.iter().map(|verb| verb.as_str()).collect();
    let (resources, verbs) = (resources.join(", "), verbs.join(", "));
    let names = if names.is_empty() { String::new() } else { format!("    resourceNames: [{}]\n", names.join(", ")) };
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
    #[expect(clippy::too_many_lines, reason = "the text is the test")]
    fn rules_become_manifests_with_their_reasons() {
        let rules = [
            Rule::on::<Pod>(&[Verb::Get, Verb::Delete], "its children"),
            Rule::on::<Pod>(&[Verb::Update], "to block the owner's deletion").subresource("finalizers").implied(),
            Rule::events(),
            Rule::on::<ConfigMap>(&[Verb::Get], "its settings").only(&["settings"]).in_system_namespace(),
        ];
        expect![[r#"
            apiVersion: rbac.authorization.k8s.io/v1
            kind: ClusterRole
            metadata:
              name: pod-controller
            rules:
              # its children
              - apiGroups: [""]
                resources: [pods]
                verbs: [get, delete]
              # to block the owner's deletion (implied: never seen as a request)
              - apiGroups: [""]
                resources: [pods/finalizers]
                verbs: [update]
              # announcements
              - apiGroups: ["events.k8s.io"]
                resources: [events]
                verbs: [create, patch]
            ---
            apiVersion: rbac.authorization.k8s.io/v1
            kind: ClusterRoleBinding
            metadata:
              name: pod-controller
            roleRef:
              apiGroup: rbac.authorization.k8s.io
              kind: ClusterRole
              name: pod-controller
            subjects:
              - kind: ServiceAccount
                name: pod-controller
                namespace: grove-system
            ---
            apiVersion: rbac.authorization.k8s.io/v1
            kind: Role
            metadata:
              name: pod-controller
              namespace: grove-system
            rules:
              # its settings
              - apiGroups: [""]
                resources: [configmaps]
                resourceNames: [settings]
                verbs: [get]
            ---
            apiVersion: rbac.authorization.k8s.io/v1
            kind: RoleBinding
            metadata:
              name: pod-controller
              namespace: grove-system
            roleRef:
              apiGroup: rbac.authorization.k8s.io
              kind: Role
              name: pod-controller
            subjects:
              - kind: ServiceAccount
                name: pod-controller
                namespace: grove-system
        "#]]
        .assert_eq(&cluster_role("pod-controller", &rules));
    }
}
