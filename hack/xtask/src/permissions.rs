//! Least privilege, measured: what the services were allowed in audit logs against what their rules grant. Pure.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};

use anyhow::{Context, Result};
use grove_runtime::rbac::Rule;
use serde_json::Value;

const ACCOUNTS: &str = "system:serviceaccount:grove-system:";

/// One thing that an account may do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Access {
    /// The service.
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

/// What happened, by the audit logs of a run.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    /// What was allowed.
    pub allowed: BTreeSet<Access>,
    /// What was refused for lack of a rule.
    pub forbidden: BTreeSet<Access>,
}

impl Requests {
    /// Takes in an audit log. Where `faults` are planned, an API server that has just started may refuse anything.
    ///
    /// # Errors
    /// When a line is not JSON.
    pub fn read(&mut self, log: &str, faults: bool) -> Result<()> {
        for line in log.lines() {
            let event: Value = serde_json::from_str(line).context("the audit log has a line that is not JSON")?;
            let Some(access) = access(&event) else { continue };
            match event["annotations"]["authorization.k8s.io/decision"].as_str() {
                Some("allow") => drop(self.allowed.insert(access)),
                Some("forbid") if !faults => drop(self.forbidden.insert(access)),
                _ => {}
            }
        }
        Ok(())
    }

    /// What is wrong: rules that nothing used, and requests that no rule allowed.
    pub fn complaints(&self, granted: &BTreeSet<Access>) -> Vec<String> {
        let unused = granted.difference(&self.allowed).map(|access| format!("granted and never used: {access}"));
        let foreign = self.allowed.difference(granted).map(|access| format!("allowed by no rule of ours: {access}"));
        let forbidden = self.forbidden.iter().map(|access| format!("forbidden: {access}"));
        unused.chain(foreign).chain(forbidden).collect()
    }
}

fn access(event: &Value) -> Option<Access> {
    let account = event["user"]["username"].as_str()?.strip_prefix(ACCOUNTS)?.to_owned();
    let object = &event["objectRef"];
    let resource = object["resource"].as_str()?;
    let resource = match object["subresource"].as_str() {
        Some(subresource) => [resource, subresource].join("/"),
        None => resource.to_owned(),
    };
    let group = object["apiGroup"].as_str().unwrap_or_default().to_owned();
    Some(Access { account, verb: event["verb"].as_str()?.to_owned(), group, resource })
}

/// What the rules of a service grant, less what is never seen as a request.
pub fn granted(account: &str, rules: &[Rule]) -> BTreeSet<Access> {
    let seen = rules.iter().filter(|rule| !rule.implied);
    let pairs = seen.flat_map(|rule| {
        rule.resources.iter().flat_map(move |resource| {
            rule.verbs.iter().map(move |verb| Access {
                account: account.to_owned(),
                verb: verb.as_str().to_owned(),
                group: rule.api_group.clone(),
                resource: resource.clone(),
            })
        })
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
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
                Rule::named("", "pods", &[Verb::Get, Verb::Delete], "x"),
                Rule::named("", "pods/finalizers", &[Verb::Update], "x").implied(),
            ],
        )
    }

    #[track_caller]
    fn check(lines: &[String], faults: bool, expected: &[&str]) {
        let mut requests = Requests::default();
        requests.read(&lines.join("\n"), faults).unwrap();
        assert_eq!(requests.complaints(&rules()), expected);
    }

    const OURS: &str = "system:serviceaccount:grove-system:svc";

    #[test]
    fn a_run_that_uses_every_rule_is_fine() {
        let stranger = line("admin", "create", "nodes", "allow");
        check(&[line(OURS, "get", "pods", "allow"), line(OURS, "delete", "pods", "allow"), stranger], false, &[]);
    }

    #[test]
    fn an_unused_rule_is_found() {
        check(&[line(OURS, "get", "pods", "allow")], false, &["granted and never used: svc: delete pods"]);
    }

    #[test]
    fn a_refusal_is_found_unless_faults_were_planned() {
        let lines = [
            line(OURS, "get", "pods", "allow"),
            line(OURS, "delete", "pods", "allow"),
            line(OURS, "list", "nodes", "forbid"),
        ];
        check(&lines, false, &["forbidden: svc: list nodes"]);
        check(&lines, true, &[]);
    }
}
