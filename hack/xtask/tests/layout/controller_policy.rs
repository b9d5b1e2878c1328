//! The component `controller-policy` limits every write that RBAC allows the accounts of the controllers.

use super::tree;
use serde_json::Value;
use std::fs;
use xtask::permissions::{Access, granted_to_all};

const FILE: &str = "deploy/components/controller-policy/policies.yaml";
const CONTROLLERS: [&str; 4] = ["pcs-controller", "pclq-controller", "topology-controller", "mnnvl-controller"];
/// Resources that the policies do not limit: an event has no effect, and RBAC limits Leases to the namespace of the services.
const UNLIMITED: [&str; 2] = ["events", "leases"];

/// The condition of each policy: the user is an account to which the `ClusterRoleBinding` in the parameter gives permissions. So the policy
/// follows the account into another namespace.
const IS_BOUND: &str = "params.?subjects.orValue([]).exists(subject, request.userInfo.username == \
                        'system:serviceaccount:' + subject.?namespace.orValue('') + ':' + subject.name)";

/// The documents of a file. An invalid document is null and limits nothing.
fn parse(text: &str) -> Vec<Value> {
    text.split("\n---\n").map(|document| serde_saphyr::from_str(document).unwrap_or_default()).collect()
}

/// The operation of admission for a verb of RBAC; `None` for a verb that writes nothing.
fn operation(verb: &str) -> Option<&'static str> {
    match verb {
        "create" => Some("CREATE"),
        "update" | "patch" => Some("UPDATE"),
        "delete" | "deletecollection" => Some("DELETE"),
        _ => None,
    }
}

fn has(list: &Value, text: &str) -> bool {
    list.as_array().is_some_and(|items| items.iter().any(|item| item.as_str() == Some(text)))
}

/// Whether a binding denies the requests of the account that violate the policy. The `ClusterRoleBinding` has the name of the account.
fn is_enforced(documents: &[Value], policy: &Value, account: &str) -> bool {
    documents.iter().any(|document| {
        let is_binding = document["kind"] == "ValidatingAdmissionPolicyBinding";
        let spec = &document["spec"];
        is_binding
            && spec["policyName"] == policy["metadata"]["name"]
            && spec["paramRef"]["name"] == account
            && has(&spec["validationActions"], "Deny")
    })
}

/// Whether a policy for the account matches these requests.
fn is_limited(documents: &[Value], access: &Access, operation: &str) -> bool {
    documents.iter().filter(|document| document["kind"] == "ValidatingAdmissionPolicy").any(|policy| {
        let spec = &policy["spec"];
        let rules = spec["matchConstraints"]["resourceRules"].as_array().into_iter().flatten();
        let mut rules = rules.filter(|rule| has(&rule["operations"], operation));
        spec["matchConditions"][0]["expression"] == IS_BOUND
            && spec["paramKind"]["kind"] == "ClusterRoleBinding"
            && is_enforced(documents, policy, &access.account)
            && rules.any(|rule| has(&rule["apiGroups"], &access.group) && has(&rule["resources"], &access.resource))
    })
}

/// The writes of an account that no policy limits. A subresource has other rules than its object.
fn unlimited_writes(documents: &[Value], granted: &[Access]) -> Vec<String> {
    let is_excepted = |access: &&Access| access.resource.contains('/') || UNLIMITED.contains(&&*access.resource);
    let objects = granted.iter().filter(|access| !is_excepted(access));
    let writes = objects.filter_map(|access| operation(&access.verb).map(|operation| (access, operation)));
    let unlimited = writes.filter(|(access, operation)| !is_limited(documents, access, operation));
    unlimited.map(|(access, _)| format!("{FILE}: no policy limits {access}")).collect()
}

#[test]
fn the_controller_policy_limits_every_write_of_the_controllers() {
    let documents = parse(&fs::read_to_string(tree::root().join(FILE)).unwrap());
    let granted = granted_to_all();
    for controller in CONTROLLERS {
        let of_controller: Vec<Access> = granted.iter().filter(|of| of.account == controller).cloned().collect();
        assert!(of_controller.iter().any(|access| operation(&access.verb).is_some()), "{controller} writes nothing");
        tree::assert_none(&unlimited_writes(&documents, &of_controller));
    }
}

#[test]
fn a_write_without_policy_is_found() {
    let access = |verb: &str, resource: &str| Access {
        account: "svc".into(),
        verb: verb.into(),
        group: String::new(),
        resource: resource.into(),
    };
    let policy = format!(
        "kind: ValidatingAdmissionPolicy\nmetadata: {{name: p}}\nspec:\n  paramKind: {{kind: ClusterRoleBinding}}\n  matchConstraints:\n    \
         resourceRules:\n    - {{apiGroups: [\"\"], operations: [CREATE], resources: [pods]}}\n  matchConditions:\n  \
         - {{name: c, expression: \"{IS_BOUND}\"}}\n"
    );
    let binding = |action: &str| {
        format!(
            "kind: ValidatingAdmissionPolicyBinding\nspec: {{policyName: p, paramRef: {{name: svc}}, validationActions: [{action}]}}\n"
        )
    };
    let unlimited = |binding: &str, granted: &[Access]| {
        unlimited_writes(&parse(&[policy.as_str(), binding].join("---\n")), granted)
    };
    let limited =
        [access("create", "pods"), access("list", "pods"), access("patch", "pods/status"), access("create", "events")];
    tree::assert_none(&unlimited(&binding("Deny"), &limited));
    tree::assert_one(&unlimited(&binding("Audit"), &limited), "no policy limits svc: create pods");
    for (verb, resource) in [("patch", "pods"), ("delete", "pods"), ("create", "services")] {
        tree::assert_one(&unlimited(&binding("Deny"), &[access(verb, resource)]), &format!("{verb} {resource}"));
    }
    let other = Access { account: "other".into(), ..access("create", "pods") };
    tree::assert_one(&unlimited(&binding("Deny"), &[other]), "other: create pods");
}
