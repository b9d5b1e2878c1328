//! Compares the requests that the API server allowed, as read from audit logs, with the RBAC rules of the services. Pure.
//! `check_permissions` in `test.rs` calls it after a complete test run.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};

use grove_api_types::scheduler::GangSupport;
use grove_dev_harness::audit_log::Event;
use grove_runtime::rbac::PolicyRule;

use crate::generate;

/// The API group of the gangs of Kubernetes.
const WORKLOAD_API: &str = "scheduling.k8s.io";

/// One permission of a ServiceAccount.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Access {
    /// The ServiceAccount, which has the name of the service.
    pub account: String,
    /// `get`, `create`, …
    pub verb: String,
    /// Empty for the core group.
    pub group: String,
    /// The plural, with the subresource behind a slash.
    pub resource: String,
}

impl Display for Access {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { account, verb, group, resource } = self;
        let dot = if group.is_empty() { "" } else { "." };
        write!(f, "{account}: {verb} {resource}{dot}{group}")
    }
}

/// The requests of the services in the audit logs of a run.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    /// Requests that the authorizer allowed.
    pub allowed: BTreeSet<Access>,
    /// Requests that the authorizer forbade.
    pub forbidden: BTreeSet<Access>,
}

impl Requests {
    /// Adds the events of one audit log. With `faults`, forbidden requests do not count: an API server that has just started
    /// may forbid any request.
    pub fn record(&mut self, events: &[Event], faults: bool) {
        for event in events {
            let Some(access) = access(event) else { continue };
            if event.is_allowed() {
                self.allowed.insert(access);
            } else if event.is_forbidden() && !faults {
                self.forbidden.insert(access);
            }
        }
    }

    /// Rules that no request used, and requests that no rule allows. The API server may forbid the `probes`. Who lists objects may read each of them,
    /// so an unused `get` beside it grants nothing more: whether a conflict leads to a GET depends on the timing.
    pub fn violations(&self, granted: &BTreeSet<Access>, probes: &BTreeSet<Access>) -> Vec<String> {
        let lists = |access: &Access| self.allowed.contains(&Access { verb: "list".to_owned(), ..access.clone() });
        let unused = granted.difference(&self.allowed).filter(|access| access.verb != "get" || !lists(access));
        let unused = unused.map(|access| format!("granted but never used: {access}"));
        let ungranted = self.allowed.difference(granted).map(|access| format!("allowed by another rule: {access}"));
        let forbidden = self.forbidden.difference(probes).map(|access| format!("forbidden: {access}"));
        unused.chain(ungranted).chain(forbidden).collect()
    }
}

fn access(event: &Event) -> Option<Access> {
    let object = event.object_ref.as_ref()?;
    Some(Access {
        account: event.service_account()?.to_owned(),
        verb: event.verb.clone(),
        group: object.api_group.clone(),
        resource: object.full_resource(),
    })
}

/// The permissions that the rules of a service grant, except for those that no request uses directly.
pub fn granted(account: &str, rules: &[PolicyRule]) -> BTreeSet<Access> {
    let used_directly = rules.iter().filter(|rule| !rule.implied);
    let permissions = used_directly.flat_map(|rule| {
        rule.resources.iter().flat_map(move |resource| {
            rule.verbs.iter().map(move |verb| Access {
                account: account.to_owned(),
                verb: verb.as_str().to_owned(),
                group: rule.api_group.clone(),
                resource: resource.clone(),
            })
        })
    });
    permissions.collect()
}

/// The permissions of all services, with those on the kinds of schedulers, and of the daemons of compute domains.
pub fn granted_to_all() -> BTreeSet<Access> {
    let of_schedulers = generate::rules_of_schedulers();
    let of_schedulers = of_schedulers.iter().flat_map(|of| granted(of.service, &of.rules));
    let of_state_sync = generate::rules_of_state_sync();
    let of_state_sync = of_state_sync.iter().flat_map(|of| granted(of.account, &of.rules));
    let of_services = generate::rules();
    let of_services = of_services.iter().flat_map(|(service, rules)| granted(service, rules));
    of_services.chain(of_schedulers).chain(of_state_sync).collect()
}

/// The requests by which the services find out whether they may use the workload API. Most dev clusters lack the component that permits
/// them.
pub fn probes() -> BTreeSet<Access> {
    let of_schedulers = generate::rules_of_schedulers();
    let optional = of_schedulers.iter().filter(|of| of.scheduler.gang_support() == GangSupport::WorkloadApi);
    let is_probe = |access: &Access| access.group == WORKLOAD_API && access.verb == "list";
    optional.flat_map(|of| granted(of.service, &of.rules)).filter(is_probe).collect()
}

#[cfg(test)]
mod tests {
    use grove_dev_harness::audit_log;
    use grove_runtime::rbac::Verb;

    use super::*;

    fn line(account: &str, verb: &str, resource: &str, decision: &str) -> String {
        format!(
            r#"{{"verb":"{verb}","user":{{"username":"{account}"}},"objectRef":{{"resource":"{resource}"}},"annotations":{{"authorization.k8s.io/decision":"{decision}"}}}}"#
        )
    }

    fn rules() -> BTreeSet<Access> {
        granted(
            "svc",
            &[
                PolicyRule::for_plural("", "pods", &[Verb::Get, Verb::Delete], "x"),
                PolicyRule::for_plural("", "pods/finalizers", &[Verb::Update], "x").implied(),
            ],
        )
    }

    #[track_caller]
    fn check(lines: &[String], faults: bool, expected: &[&str]) {
        let mut requests = Requests::default();
        requests.record(&audit_log::parse(&lines.join("\n")).unwrap(), faults);
        let probe =
            Access { account: "svc".into(), verb: "list".into(), group: String::new(), resource: "probed".into() };
        assert_eq!(requests.violations(&rules(), &BTreeSet::from([probe])), expected);
    }

    const OURS: &str = "system:serviceaccount:grove-system:svc";

    #[test]
    fn a_run_that_uses_every_rule_passes() {
        let other = line("admin", "create", "nodes", "allow");
        check(&[line(OURS, "get", "pods", "allow"), line(OURS, "delete", "pods", "allow"), other], false, &[]);
    }

    #[test]
    fn a_get_beside_a_list_may_be_unused() {
        let rules = granted("svc", &[PolicyRule::for_plural("", "pods", &[Verb::Get, Verb::List], "x")]);
        let violations = |verb: &str| {
            let mut requests = Requests::default();
            requests.record(&audit_log::parse(&line(OURS, verb, "pods", "allow")).unwrap(), false);
            requests.violations(&rules, &BTreeSet::new())
        };
        assert_eq!(violations("list"), [""; 0]);
        assert_eq!(violations("get"), ["granted but never used: svc: list pods"]);
    }

    #[test]
    fn an_unused_rule_is_found() {
        check(&[line(OURS, "get", "pods", "allow")], false, &["granted but never used: svc: delete pods"]);
    }

    #[test]
    fn a_forbidden_request_is_found_unless_faults_are_expected() {
        let lines = [
            line(OURS, "get", "pods", "allow"),
            line(OURS, "delete", "pods", "allow"),
            line(OURS, "list", "nodes", "forbid"),
        ];
        check(&lines, false, &["forbidden: svc: list nodes"]);
        check(&lines, true, &[]);
    }

    #[test]
    fn a_forbidden_probe_is_no_violation() {
        let used = [line(OURS, "get", "pods", "allow"), line(OURS, "delete", "pods", "allow")];
        check(&[&used[..], &[line(OURS, "list", "probed", "forbid")]].concat(), false, &[]);
        check(
            &[&used[..], &[line(OURS, "watch", "probed", "forbid")]].concat(),
            false,
            &["forbidden: svc: watch probed"],
        );
    }
}
